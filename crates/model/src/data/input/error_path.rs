//! The path of the value that a JSON error is about, from the error's position in the text.
//!
//! It reads the text only after an error, so that reading a value costs nothing for it; and it must never fail: of a text that is no JSON it
//! gives the path up to where that shows.

use std::fmt::Write;
use std::ops::Range;

use serde::de::DeserializeOwned;

/// A container that is open at the position.
enum Open {
    /// An object, with the key (with its quotes) whose value is read.
    Object(Option<Range<usize>>),
    /// An array, with the index of the element that is read.
    Array(Option<usize>),
}

/// The path at which reading `text` as a `T` fails with `error`, as `history[3].content`; `.` is the whole.
///
/// A check of a value's own has no position: the reader gives it that of what it has read last, which is the end of the container where the
/// value is the last one there. So the text is read again with a container that does not end there: the same error is about that value.
pub fn error_path<T: DeserializeOwned>(text: &str, error: &serde_json::Error) -> String {
    let read = consumed(text, error);
    if let Some((before, rest)) = read.checked_sub(1).and_then(|end| text.split_at_checked(end))
        && rest.starts_with(['}', ']'])
    {
        let open_ended = format!("{before} x{rest}");
        if let Err(again) = serde_json::from_str::<T>(&open_ended)
            && reason(&again) == reason(error)
        {
            return position_path(&open_ended, &again);
        }
    }
    position_path(text, error)
}

/// The message of an error without its position, which is last: a text that it quotes may itself contain " at line ".
pub(super) fn reason(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.rsplit_once(" at line ").map_or(message.as_str(), |(reason, _)| reason).to_owned()
}

/// The path of what had been read when an error was found, for a type that borrows from the text.
pub(super) fn position_path(text: &str, error: &serde_json::Error) -> String {
    let read = consumed(text, error);
    let mut open = open_at(text.as_bytes(), read);
    let message = error.to_string();
    // A container where another type is expected is refused before its first byte is read.
    let is_unread = message.starts_with("invalid type")
        && matches!(text.as_bytes().get(read), Some(b'{' | b'['));
    let is_behind_comma =
        || text.get(..read).is_some_and(|before| before.trim_end().ends_with(','));
    match open.last_mut() {
        Some(Open::Array(index @ None)) if is_unread => *index = Some(0),
        // A check of an element's own fails when the comma behind it has been read.
        Some(Open::Array(Some(index))) if !is_unread && is_behind_comma() => {
            *index = index.saturating_sub(1);
        }
        _ => {}
    }
    // What is found when a key has been read is about its object, unless the key itself is wrong.
    if !message.starts_with("unknown field")
        && let Some(Open::Object(key)) = open.last_mut()
        && key.as_ref().is_some_and(|key| text.as_bytes().get(key.end..read).is_some_and(is_blank))
    {
        *key = None;
    }
    render(text, &open)
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

/// How many bytes of the text had been read.
fn consumed(text: &str, error: &serde_json::Error) -> usize {
    let Some(lines_before) = error.line().checked_sub(1) else { return 0 };
    let line_start = match lines_before.checked_sub(1) {
        None => 0,
        Some(last) => text.match_indices('\n').nth(last).map_or(text.len(), |(at, _)| at + 1),
    };
    (line_start + error.column()).min(text.len())
}

/// The containers around the value, or the key, that has the last of `consumed` bytes.
fn open_at(bytes: &[u8], consumed: usize) -> Vec<Open> {
    let mut open: Vec<Open> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at).filter(|_| at < consumed) {
        let begins_value =
            !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':' | b'}' | b']');
        if begins_value && let Some(Open::Array(index @ None)) = open.last_mut() {
            *index = Some(0);
        }
        let end = if byte == b'"' { string_end(bytes, at) } else { at + 1 };
        match byte {
            b'{' => open.push(Open::Object(None)),
            b'[' => open.push(Open::Array(None)),
            b'}' | b']' => {
                open.pop();
            }
            b',' => match open.last_mut() {
                Some(Open::Object(key)) => *key = None,
                Some(Open::Array(index)) => *index = index.map(|index| index + 1),
                None => {}
            },
            b'"' => {
                if let Some(Open::Object(key @ None)) = open.last_mut() {
                    *key = Some(at..end);
                }
            }
            _ => {}
        }
        at = end;
    }
    open
}

/// The end of the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn render(text: &str, open: &[Open]) -> String {
    let mut path = String::new();
    for each in open {
        match each {
            Open::Object(Some(key)) => {
                let quoted = text.get(key.clone()).unwrap_or_default();
                let key = serde_json::from_str::<String>(quoted)
                    .unwrap_or_else(|_| quoted.trim_matches('"').to_owned());
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&key);
            }
            Open::Array(Some(index)) => {
                let _ = write!(path, "[{index}]");
            }
            Open::Object(None) | Open::Array(None) => {}
        }
    }
    if path.is_empty() { ".".to_owned() } else { path }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;

    use super::error_path;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    #[expect(dead_code, reason = "only whether it can be read counts")]
    struct Whole {
        text: String,
        number: Option<u32>,
        list: Vec<Part>,
        map: BTreeMap<String, i64>,
        tagged: Option<Tagged>,
        nested: Option<Box<Whole>>,
        even: Option<Even>,
        evens: Option<Vec<Even>>,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only whether it can be read counts")]
    struct Part {
        kind: Kind,
        values: Vec<(bool, f64)>,
    }

    /// A value with a check of its own.
    #[derive(Debug, Deserialize)]
    #[serde(try_from = "u32")]
    struct Even;

    impl TryFrom<u32> for Even {
        type Error = &'static str;

        fn try_from(number: u32) -> Result<Self, Self::Error> {
            if number.is_multiple_of(2) { Ok(Self) } else { Err("is odd") }
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        One,
        Two,
    }

    #[derive(Debug, Deserialize)]
    #[serde(tag = "type")]
    #[expect(dead_code, reason = "only whether it can be read counts")]
    enum Tagged {
        A { value: u8 },
        B { other: String },
    }

    /// The path that a reader finds which tracks every field.
    fn tracked(text: &str) -> Option<String> {
        let mut reader = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize::<_, Whole>(&mut reader)
            .err()
            .map(|error| error.path().to_string())
    }

    fn found(text: &str) -> Option<String> {
        serde_json::from_str::<Whole>(text).err().map(|error| error_path::<Whole>(text, &error))
    }

    fn value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i16>().prop_map(Into::into),
            (0_u8..4).prop_map(Into::into),
            "[a\" {}\\[\\],:\n\\\\é]{0,6}".prop_map(Into::into),
            Just("one".into()),
            Just("A".into()),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let key = prop_oneof![
                Just("text".to_owned()),
                Just("number".to_owned()),
                Just("list".to_owned()),
                Just("map".to_owned()),
                Just("tagged".to_owned()),
                Just("nested".to_owned()),
                Just("kind".to_owned()),
                Just("values".to_owned()),
                Just("type".to_owned()),
                Just("value".to_owned()),
                "[a\"\\\\é,]{1,3}",
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                prop::collection::btree_map(key, inner, 0..6)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// A value that can be read.
    fn sound() -> serde_json::Value {
        serde_json::json!({
            "text": "a", "number": 7,
            "list": [{ "kind": "one", "values": [[true, 1.5], [false, 2]] }, { "kind": "two", "values": [] }],
            "map": { "k\"ey": 5, "": -1 },
            "tagged": { "type": "A", "value": 5 },
            "nested": { "text": "{", "list": [], "map": {}, "even": 4 },
            "evens": [2, 4],
        })
    }

    /// The places of a value, each as a JSON pointer.
    fn places(value: &serde_json::Value, at: &str, into: &mut Vec<String>) {
        into.push(at.to_owned());
        match value {
            serde_json::Value::Array(list) => {
                for (index, each) in list.iter().enumerate() {
                    places(each, &format!("{at}/{index}"), into);
                }
            }
            serde_json::Value::Object(map) => {
                for (key, each) in map {
                    places(each, &format!("{at}/{key}"), into);
                }
            }
            _ => {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_wrong_value_anywhere_is_found_where_a_tracking_reader_finds_it(
            which in any::<prop::sample::Index>(),
            wrong in value(),
            pretty in any::<bool>(),
        ) {
            let mut whole = sound();
            let mut all = Vec::new();
            places(&whole, "", &mut all);
            if let Some(place) = whole.pointer_mut(&all[which.index(all.len())]) {
                *place = wrong;
            }
            let text = if pretty {
                serde_json::to_string_pretty(&whole).unwrap()
            } else {
                whole.to_string()
            };
            let (found, tracked) = (found(&text), tracked(&text));
            // One value too many: this path names the value, the other one its list.
            let is_surplus = |error: serde_json::Error| error.to_string().contains("trailing characters");
            if serde_json::from_str::<Whole>(&text).is_err_and(is_surplus) {
                let (found, list) = (found.unwrap_or_default(), tracked.unwrap_or_default());
                prop_assert_eq!(found.rsplit_once('[').map(|(list, _)| list), Some(list.as_str()));
            } else {
                prop_assert_eq!(found, tracked, "{}", text);
            }
        }

        #[test]
        fn any_text_has_a_path(text in "\\PC{0,40}|[\\[\\]{}:,\"a1 \\\\\n]{0,40}") {
            let _ = found(&text);
        }
    }

    #[test]
    fn paths_name_the_value_or_the_key() {
        let path = |text: &str| found(text).unwrap_or_default();
        assert_eq!(path(r#"{"text": 5}"#), "text");
        assert_eq!(path(r#"{"text": "a", "list": [{"kind": "three"}]}"#), "list[0].kind");
        assert_eq!(path("{\n \"text\": \"a\",\n \"list\": [\n  {\"kind\": \"one\"}]}"), "list[0]");
        assert_eq!(path(r#"{"tex": "a"}"#), "tex");
        assert_eq!(path(r#"{"text": "a"}"#), ".");
        assert_eq!(path(r#"{"even": 3, "text": "a"}"#), "even");
        assert_eq!(path(r#"{"even": 3}"#), "even");
        assert_eq!(path(r#"{"evens": [2, 3]}"#), "evens[1]");
        assert_eq!(path("{\n \"nested\": {\n  \"even\": 3\n } }"), "nested.even");
    }
}
