//! Detects the kind of an answer without a content type from its first bytes, for any chunking.
//!
//! Some servers send event streams without the header. It must never be used for an answer with a type: a proxy's page is
//! no answer, whatever it begins with.

use crate::Framing;

/// The kind of the first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Too few bytes to decide.
    Unknown,
    Stream,
    Json,
    /// Neither.
    Other,
}

/// The maximum bytes of blank lines at the start.
const MOST_BLANK: usize = 4_096;

pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The names of an event's fields, and the beginning of a comment.
const FIELDS: [&[u8]; 5] = [b"event:", b"data:", b"id:", b"retry:", b":"];

/// The kind of an answer by its first bytes.
pub(super) fn beginning(head: &[u8], framing: Framing) -> Beginning {
    if framing == Framing::AwsEventStream {
        // A frame begins with its length, whose first byte is zero up to 16 MiB.
        match head.first() {
            None => return Beginning::Unknown,
            Some(0) => return Beginning::Stream,
            Some(_) => {}
        }
    }
    let text = match head.strip_prefix(BYTE_ORDER_MARK) {
        Some(text) => text,
        None if BYTE_ORDER_MARK.starts_with(head) => return Beginning::Unknown,
        None => head,
    };
    let text = text.trim_ascii_start();
    match text.first() {
        None if head.len() >= MOST_BLANK => Beginning::Other,
        None => Beginning::Unknown,
        Some(b'{' | b'[') => Beginning::Json,
        Some(_) if framing == Framing::AwsEventStream => Beginning::Other,
        Some(_) if FIELDS.iter().any(|field| text.starts_with(field)) => Beginning::Stream,
        Some(_) if FIELDS.iter().any(|field| field.starts_with(text)) => Beginning::Unknown,
        Some(_) => Beginning::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(head: &[u8]) -> Beginning {
        beginning(head, Framing::EventSource)
    }

    #[test]
    fn an_event_stream_begins_with_a_field_or_a_comment_after_a_mark_and_blank_lines() {
        for head in ["event: a\n", "data:{", "data: {", ": comment", ":", "id: 7", "retry: 3"] {
            for before in ["", "\u{feff}", "\n", "\r\n\r\n", "\u{feff}\n\n"] {
                assert_eq!(of(format!("{before}{head}").as_bytes()), Beginning::Stream, "{head}");
            }
        }
    }

    #[test]
    fn json_begins_with_an_object_or_a_list() {
        for head in ["{", "[", " {\"id\"", "\u{feff}\r\n{"] {
            assert_eq!(of(head.as_bytes()), Beginning::Json, "{head}");
        }
    }

    #[test]
    fn a_prefix_is_undecided_and_never_another_kind() {
        for whole in ["\u{feff}\n\nevent: a", "data: {}", "retry: 1", "\r\n: x", "\u{feff}{"] {
            let end = of(whole.as_bytes());
            for at in 0..whole.len() {
                let found = of(&whole.as_bytes()[..at]);
                assert!(
                    found == Beginning::Unknown || found == end,
                    "{whole:?} at {at}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn anything_else_is_neither() {
        for head in ["<html>", "data", "event", "database: x", "evil", "\"text\"", "null", "\u{1}"]
        {
            let found = of(format!("{head} ").as_bytes());
            assert_eq!(found, Beginning::Other, "{head}");
        }
        assert_eq!(of(&[b'\n'; MOST_BLANK]), Beginning::Other);
    }

    #[test]
    fn a_binary_stream_begins_with_the_length_of_a_frame() {
        let of = |head| beginning(head, Framing::AwsEventStream);
        assert_eq!(of(b""), Beginning::Unknown);
        assert_eq!(of(b"\0"), Beginning::Stream);
        assert_eq!(of(b"{\"message\""), Beginning::Json);
        assert_eq!(of(b"data: {}"), Beginning::Other);
    }
}
