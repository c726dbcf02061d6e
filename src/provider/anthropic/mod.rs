//! Anthropic Messages: its request, its events. Pure; it must never do I/O.
