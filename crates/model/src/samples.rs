//! For tests: the messages that wires, projections and compactions are given. It must never be built into the engine.

use crate::{Block, Message, Role};

/// A message of this role.
pub fn message(role: Role, blocks: Vec<Block>) -> Message {
    Message {
        id: "01".to_owned(),
        role,
        blocks,
        sequence: 0,
        created_at: 0,
        provenance: None,
        provider_stop_reason: None,
    }
}

/// A message of the user with one text block.
pub fn user(text: &str) -> Message {
    message(Role::User, vec![Block::text(text)])
}

/// A call of `name`, which has ended.
pub fn call_of(name: &str, id: &str, arguments_json: &str) -> Block {
    Block::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments_json: arguments_json.to_owned(),
        incomplete: false,
        provider_data: None,
    }
}

/// A tool call.
pub fn call(id: &str, arguments_json: &str) -> Block {
    call_of("read", id, arguments_json)
}

/// What `name` answered.
pub fn result_of(name: &str, id: &str, content: Vec<Block>, is_error: bool) -> Message {
    let block = Block::ToolResult {
        tool_call_id: id.to_owned(),
        tool_name: name.to_owned(),
        content,
        is_error,
    };
    message(Role::Tool, vec![block])
}

/// The message with the result of a tool call.
pub fn result(id: &str, content: Vec<Block>, is_error: bool) -> Message {
    result_of("read", id, content, is_error)
}
