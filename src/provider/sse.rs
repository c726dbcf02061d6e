//! Server-sent events: bytes to events, to the contract of WIRE §9. It must never look into the data.
