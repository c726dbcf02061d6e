//! Credentials: from an auth profile to a header. It must never print one.
