//! Tools: registry, validation, and the runtime that runs them. It must never let a tool's failure end a run.
