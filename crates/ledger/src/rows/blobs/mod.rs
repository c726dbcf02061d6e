//! Values over 64 KiB, each stored once outside the rows. A reader must never receive other bytes than were written: it gets
//! them or an error.

mod large_values;
mod pack;
mod pieces;
pub(crate) mod store;

pub(crate) use self::large_values::{
    TOOL_CALL, add_whole_text, call_values, message_text, of_message, of_tool_call,
};
pub(crate) use self::pack::unpack;
pub(crate) use self::pieces::{Kind, Value, named, put_together, take_apart};
pub(crate) use self::store::{BlobColumns, read, text};
