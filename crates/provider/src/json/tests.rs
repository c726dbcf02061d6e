//! The shared JSON functions. It must never test a provider.

use std::borrow::Cow;

use super::{Count, Text, is_object, repair_surrogates, write_string};

fn repaired(json: &str) -> String {
    String::from_utf8(repair_surrogates(json.as_bytes()).into_owned()).unwrap()
}

#[test]
fn lone_surrogates_become_replacement_characters() {
    assert_eq!(repaired(r#""a\ud83db""#), r#""a\ufffdb""#);
    assert_eq!(repaired(r#""\ude00""#), r#""\ufffd""#);
    assert_eq!(repaired(r#""\ud83d\ud83d\ude00""#), r#""\ufffd\ud83d\ude00""#);
    assert_eq!(repaired(r#""\ud83d\n\ude00""#), r#""\ufffd\n\ufffd""#);
    assert_eq!(repaired(r#""\uD83D""#), r#""\ufffd""#);
}

#[test]
fn valid_json_is_borrowed() {
    for json in [r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\u00e9\n\"""#, "plain", "", "\\", "\\u12"]
    {
        assert!(matches!(repair_surrogates(json.as_bytes()), Cow::Borrowed(_)), "{json}");
    }
}

#[test]
fn an_object_is_distinguished_from_everything_else() {
    assert!(is_object(" {\"a\":[1,{}]} "));
    for text in ["", "[]", "\"{}\"", "{", "{\"a\":1}}", "{\"a\"", "null"] {
        assert!(!is_object(text), "{text}");
    }
}

#[test]
fn strings_are_borrowed_without_escapes_and_null_is_empty() {
    let text: Text<'_> = serde_json::from_str("\"plain\"").unwrap();
    assert!(matches!(text, Text(Cow::Borrowed("plain"))));
    let text: Text<'_> = serde_json::from_str(r#""a\nb""#).unwrap();
    assert_eq!(text.as_str(), "a\nb");
    assert_eq!(serde_json::from_str::<Text<'_>>("null").unwrap(), Text::default());
    assert!(serde_json::from_str::<Text<'_>>("{}").is_err());
}

#[test]
fn counts_are_read_from_any_number() {
    let read = |json: &str| serde_json::from_str::<Count>(json).unwrap().0;
    assert_eq!(read("7"), Some(7));
    assert_eq!(read("7.0"), Some(7));
    assert_eq!(read("-7"), None);
    assert_eq!(read("-7.5"), None);
    assert_eq!(read("null"), None);
}

#[test]
fn strings_are_written_as_json() {
    let mut out = Vec::new();
    write_string(&mut out, "a\"\\\n\u{1}é");
    assert_eq!(String::from_utf8(out).unwrap(), r#""a\"\\\n\u0001é""#);
}
