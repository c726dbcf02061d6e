//! Which calls of tools a host allows: by the permissions that it grants, and by the limits of its policies.
//!
//! Pure: the calls and the limits are passed in. It must never run a call.

mod glob;
pub mod grants;
pub mod policy;
