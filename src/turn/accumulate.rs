//! Deltas to message blocks. It must never parse tool arguments.
