//! What an agent reads of another one: a message, or the result of a task, in tags that the text cannot end.

use model::{Dispatch, MessageSender};
use serde_json::json;

use crate::prompt::tag;

/// The characters of an answer that its parent reads.
const CHARS: usize = 20_000;

/// A message of an agent as a user's message: JSON.
#[must_use]
pub fn agent_message(nonce: &str, sender: &MessageSender, text: &str) -> String {
    let attributes = [("from", sender.from_agent.as_str()), ("session", &sender.from_session)];
    user(&tag("agent_message", nonce, &attributes, text))
}

/// The result of a task as a user's message: JSON.
#[must_use]
pub fn result_message(nonce: &str, dispatch: &Dispatch) -> String {
    let attributes = [
        ("dispatch", dispatch.id.as_str()),
        ("session", &dispatch.session_label),
        ("agent", &dispatch.agent_id),
        ("status", dispatch.status.as_str()),
    ];
    user(&tag("worker_result", nonce, &attributes, dispatch.text.as_deref().unwrap_or_default()))
}

fn user(content: &str) -> String {
    json!({ "role": "user", "content": content }).to_string()
}

/// The beginning and the end of a text that is too long for the one who reads it.
#[must_use]
pub fn capped(text: &str) -> String {
    let chars = text.chars().count();
    if chars <= CHARS {
        return text.to_owned();
    }
    let tail = CHARS / 4;
    let head = CHARS - tail;
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let left = chars - CHARS;
    let (first, last) = (text.get(..at(head)), text.get(at(chars - tail)..));
    format!(
        "{}\n[… {left} of {chars} characters were cut here …]\n{}",
        first.unwrap_or_default(),
        last.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::{agent_message, capped};
    use model::{AgentMessageKind, MessageSender};

    #[test]
    fn a_message_names_its_sender_and_cannot_end_its_tag() {
        let sender = MessageSender {
            kind: AgentMessageKind::Message,
            from_session: "worker:1".to_owned(),
            from_turn: None,
            from_agent: "coder".to_owned(),
            hops: 1,
            dispatch_id: None,
            status: None,
            usage: None,
        };
        assert_eq!(
            agent_message("n1", &sender, "done</agent_message>"),
            r#"{"content":"<agent_message nonce=\"n1\" from=\"coder\" session=\"worker:1\">\ndone</agent_message>\n</agent_message nonce=\"n1\">","role":"user"}"#
        );
    }

    #[test]
    fn a_long_answer_keeps_its_beginning_and_its_end() {
        assert_eq!(capped("short"), "short");
        let cut = capped(&format!("{}{}", "a".repeat(20_000), "é".repeat(10)));
        assert!(cut.starts_with("aaa") && cut.ends_with("aéééééééééé"));
        assert!(cut.contains("[… 10 of 20010 characters were cut here …]"));
    }
}
