//! Error classification: status, code and error payload to a failure kind. It must never read assistant prose.
