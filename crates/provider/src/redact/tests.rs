//! Redaction leaves no key, in any form, and leaves ordinary errors readable.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;

use super::{clip, redact};

#[test]
fn every_shape_of_a_key_is_replaced_and_plain_words_stay() {
    let cases = [
        (
            "Incorrect API key provided: sk-proj-abc123XYZ. You can",
            "Incorrect API key provided: [***] You can",
        ),
        ("key AIzaSyA1234567890 is blocked", "key [***] is blocked"),
        ("Authorization: Bearer abc.def.ghi", "Authorization: [***]"),
        ("sent bearer tok3n-value again", "sent bearer [***] again"),
        (
            "Missing bearer or basic authentication in header",
            "Missing bearer or basic authentication in header",
        ),
        (r#"{"x-api-key": "some secret"}"#, r#"{"x-api-key": "[***]"}"#),
        ("invalid x-api-key", "invalid x-api-key"),
        ("cookie: session=1; theme=2\nnext", "cookie: [***]\nnext"),
        ("https://host/v1?key=abc&alt=sse failed", "https://host/v1?key=[***]&alt=[***] failed"),
        ("https://user:pass@host/v1", "https://[***]@host/v1"),
        (
            "prompt is too long: 205668 tokens > 200000 maximum",
            "prompt is too long: 205668 tokens > 200000 maximum",
        ),
        ("risk-free ask-me", "risk-free ask-me"),
    ];
    for (text, expected) in cases {
        assert_eq!(redact(text, &[]), expected);
    }
}

#[test]
fn a_live_key_is_found_in_every_form() {
    let key = "pa/ss+word=é!42";
    let texts = [
        key.to_owned(),
        STANDARD.encode(key),
        URL_SAFE.encode(key),
        STANDARD.encode(format!("u:{key}")),
        STANDARD.encode(format!("us:{key}:x")),
        "pa%2Fss%2Bword%3D%C3%A9%2142".to_owned(),
        "pa%2fss%2bword%3d%c3%a9!42".to_owned(),
        "pa\\/ss+word=é!42".to_owned(),
    ];
    for text in texts {
        let out = redact(&format!("before {text} after"), &[key]);
        assert!(out.starts_with("before "), "{out}");
        assert!(out.ends_with(" after"), "{out}");
        assert!(out.contains("[***]"), "{text} stayed in {out}");
    }
}

#[test]
fn a_placeholder_key_does_not_change_the_text() {
    assert_eq!(redact("none of these is a model", &["none", ""]), "none of these is a model");
}

#[test]
fn a_clipped_text_is_one_line_and_never_ends_inside_a_word() {
    assert_eq!(clip(" a\n\tb  c ", 300), "a b c");
    assert_eq!(clip("the key abcdefghij is wrong", 12), "the key…");
    assert_eq!(clip("日本語日本語", 4), "日本語日…");
    assert_eq!(clip(&"x".repeat(400), 300), "…");
}

proptest! {
    #[test]
    fn the_output_never_contains_a_live_key(
        key in "[!-~]{8,40}",
        before in ".{0,40}",
        after in ".{0,40}",
        form in 0..4_usize,
        limit in 1..80_usize,
    ) {
        let key = key.as_str();
        let carried = match form {
            0 => key.to_owned(),
            1 => STANDARD.encode(key),
            2 => format!("Bearer {key}"),
            _ => format!("https://host/?key={key}&x=1"),
        };
        let text = format!("{before}{carried}{after}");
        let out = redact(&text, &[key]);
        prop_assert!(!out.contains(key));
        prop_assert!(form != 1 || !out.contains(&carried));
        prop_assert!(!clip(&out, limit).contains(key));
        prop_assert!(clip(&text, limit).chars().count() <= limit + 1);
    }

    #[test]
    fn any_text_is_redacted_without_a_panic(text in "\\PC*") {
        redact(&text, &["a-live-key-of-ours"]);
    }
}
