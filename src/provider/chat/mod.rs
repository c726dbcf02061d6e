//! OpenAI Chat Completions and everything compatible with it. Pure; it must never do I/O.
