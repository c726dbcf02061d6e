//! Directory handles: opening beneath them, what is never opened or written, and replacing a file.

mod directory;
mod opened;
mod protected;
mod replace;

pub(crate) use directory::{Create, Root};
pub(crate) use opened::Opened;
pub(crate) use protected::Protected;
pub(crate) use replace::{Target, changed};
