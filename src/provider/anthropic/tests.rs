//! The Anthropic wire by example: bodies, messages, events, faults.


