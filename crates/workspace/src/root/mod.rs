//! Directory handles: opening beneath them, what is never opened or written, and replacing a file.

mod directory;
mod opened;
mod protected;
mod replace;
mod scratch;

pub(crate) use directory::{Create, Root};
pub(crate) use opened::{Identity, Opened, file_type, refuse_kind};
pub(crate) use protected::{JOURNAL, Protected, ProtectedFiles, refuse_reserved_parts};
pub(crate) use replace::{Target, changed, sync_directory};
pub(crate) use scratch::Scratch;
