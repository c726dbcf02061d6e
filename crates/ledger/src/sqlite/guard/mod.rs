//! The guard of the open file: it is still at its path, its locks are held, and no read pins its log for long. It must never
//! open the file.

mod descriptors;
mod file_system;
mod locks;
mod open_file;
mod reads;

pub(crate) use self::descriptors::opening;
pub(crate) use self::file_system::check as check_file_system;
pub(crate) use self::open_file::Guard;
pub(crate) use self::reads::{Read, Reads};
