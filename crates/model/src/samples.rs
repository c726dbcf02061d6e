//! For tests: the messages that tests of wires, projections and compactions use. It must never be built into the engine.

use crate::{Block, Message, Role};

/// A message with this role.
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

/// A complete call of `name`.
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

/// The result of `name`.
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
