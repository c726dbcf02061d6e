//! Redaction: what may be said of an error. It must never let a key through.
