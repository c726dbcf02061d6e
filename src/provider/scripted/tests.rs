//! The scripted provider: order, gates, failures, and what it records.
