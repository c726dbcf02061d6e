//! HTTP: the one client, its limits and its guards. It must never know what a response means.
