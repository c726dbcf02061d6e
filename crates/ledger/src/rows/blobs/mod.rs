//! Values over 64 KiB, stored once each beside the rows. A reader gets what was written, byte for byte, or an error.

mod large_values;
mod pack;
mod pieces;
pub(crate) mod store;

pub(crate) use self::large_values::{
    TOOL_CALL, add_whole_text, call_values, message_text, of_message, of_tool_call,
};
pub(crate) use self::pack::unpack;
pub(crate) use self::pieces::{named, put_together, take_apart};
pub(crate) use self::store::{BlobColumns, read, text};
