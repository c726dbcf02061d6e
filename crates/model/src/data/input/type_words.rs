//! serde's names of types in the words of JSON. It must never return the name of a Rust type.

/// What was given, as the kind of an error names it, with its article.
pub(super) fn given(kind: &str) -> String {
    match kind {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "integer" => "a whole number".to_owned(),
        "floating" => "a number with a fraction".to_owned(),
        "null" | "unit" => "null".to_owned(),
        other => format!("a {other}"),
    }
}

/// What was expected.
pub(super) fn expected(name: &str) -> &str {
    let first = name.split(' ').next().unwrap_or_default();
    match name {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number from 0 on",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a map" => "an object",
        "a sequence" => "a list",
        "a borrowed string" | "a character" | "string or map" => "a string",
        _ if name.starts_with("a tuple") || first == "tuple" => "a list",
        _ if name.contains("tagged enum ") || first == "struct" => "an object",
        _ if first == "enum" => "one of its values",
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde::Deserialize;

    use crate::data::input::field::from_json;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "its errors are compared")]
    struct Options {
        #[serde(default)]
        count: u32,
        #[serde(default)]
        change: i64,
        #[serde(default)]
        share: f64,
        #[serde(default)]
        names: Vec<String>,
        #[serde(default)]
        pair: (u8, u8),
        #[serde(default)]
        by_name: HashMap<String, bool>,
        inner: Option<Inner>,
        tagged: Option<Tagged>,
        mode: Option<Mode>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner {}

    #[derive(Debug, Deserialize)]
    #[serde(tag = "type", rename_all = "lowercase")]
    enum Tagged {
        One {},
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Mode {
        Fast,
    }

    #[test]
    fn an_error_names_types_as_json_does() {
        let message = |json: &str| from_json::<Options>(json).unwrap_err().message;
        for (json, expected) in [
            (
                r#"{"count":-1}"#,
                "has a value that cannot be used, expected a whole number from 0 on",
            ),
            (r#"{"count":"1"}"#, "is a string, expected a whole number from 0 on"),
            (r#"{"count":1.5}"#, "is a number with a fraction, expected a whole number from 0 on"),
            (r#"{"change":true}"#, "is a boolean, expected a whole number"),
            (r#"{"share":null}"#, "is null, expected a number"),
            (r#"{"names":{}}"#, "is an object, expected a list"),
            (r#"{"names":[1]}"#, "is a whole number, expected a string"),
            (r#"{"pair":[1]}"#, "has the wrong length, expected a list"),
            (r#"{"by_name":[]}"#, "is a list, expected an object"),
            (r#"{"inner":"x"}"#, "is a string, expected an object"),
            (r#"{"tagged":1}"#, "is a whole number, expected an object"),
            (r#"{"mode":"slow"}"#, "`slow` is not known, expected `fast`"),
        ] {
            assert_eq!(message(json), expected, "{json}");
        }
    }
}
