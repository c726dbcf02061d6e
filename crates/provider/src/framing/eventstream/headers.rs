//! The headers of a frame: typed values, of which four are read. It must never copy one.

/// The headers of a frame; empty where it has no such header.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Headers<'a> {
    /// `:message-type`: `event`, `exception` or `error`.
    pub message_type: &'a str,
    /// `:event-type`.
    pub event_type: &'a str,
    /// `:exception-type`, of an exception.
    pub exception_type: &'a str,
    /// `:content-type` of the payload.
    pub content_type: &'a str,
    /// `:error-code`, of an error, which has no payload.
    pub error_code: &'a str,
    /// `:error-message`, of an error.
    pub error_message: &'a str,
}

impl<'a> Headers<'a> {
    /// Reads the headers; `None` where the format is invalid. The first of a name counts.
    pub(super) fn read(mut bytes: &'a [u8]) -> Option<Self> {
        let mut headers = Self::default();
        while let Some((length, rest)) = bytes.split_first() {
            let (name, rest) = rest.split_at_checked(usize::from(*length))?;
            let (kind, rest) = rest.split_first()?;
            let (value, rest) = value(*kind, rest)?;
            bytes = rest;
            let name = std::str::from_utf8(name).ok()?;
            let Some(text) = value.filter(|_| !name.is_empty()) else {
                if name.is_empty() {
                    return None;
                }
                continue;
            };
            let field = match name {
                ":message-type" => &mut headers.message_type,
                ":event-type" => &mut headers.event_type,
                ":exception-type" => &mut headers.exception_type,
                ":content-type" => &mut headers.content_type,
                ":error-code" => &mut headers.error_code,
                ":error-message" => &mut headers.error_message,
                _ => continue,
            };
            if field.is_empty() {
                *field = text;
            }
        }
        Some(headers)
    }
}

/// The value of a type: its text, if it is a text, and the rest of the bytes.
fn value(kind: u8, bytes: &[u8]) -> Option<(Option<&str>, &[u8])> {
    let fixed = match kind {
        // True and false have no bytes.
        0 | 1 => 0,
        // Byte, short, integer, long, timestamp, UUID.
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        9 => 16,
        // Bytes and text begin with their length.
        6 | 7 => {
            let (length, rest) = bytes.split_first_chunk()?;
            let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
            let text = if kind == 7 { Some(std::str::from_utf8(value).ok()?) } else { None };
            return Some((text, rest));
        }
        _ => return None,
    };
    bytes.split_at_checked(fixed).map(|(_, rest)| (None, rest))
}
