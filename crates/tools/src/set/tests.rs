//! Sets of tools: lookup, strict parsing, coercion as in pi, errors, and hostile schemas.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json, value::RawValue};

use super::{Prepared, STEPS, ToolSet, Unchecked};
use model::{ExecutionMode, InputError, ReplayClass, ToolDefinition};

fn tool(name: &str, schema: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        parameters: RawValue::from_string(schema.to_owned()).unwrap(),
        execution_mode: ExecutionMode::default(),
        timeout_ms: None,
        replay: ReplayClass::default(),
        max_result_chars: None,
        retries: 0,
        permission: model::ToolPermission::Allow,
        external: false,
    }
}

/// A check with all its steps, on this thread.
trait Checked {
    fn prepared(&self, name: &str, arguments_json: &str) -> Result<Prepared, String>;
}

impl Checked for ToolSet {
    fn prepared(&self, name: &str, arguments_json: &str) -> Result<Prepared, String> {
        self.check(name, arguments_json, STEPS, None).map_err(|unchecked| match unchecked {
            Unchecked::Refused(refusal) => refusal,
            Unchecked::Stopped(why) => format!("{why:?}"),
        })
    }
}

fn set(schema: &Value) -> Arc<ToolSet> {
    ToolSet::compile(&[tool("t", &schema.to_string())]).unwrap()
}

/// The arguments of the tool for `{"v": given}` and a schema for `v`.
fn coerced(schema: Value, given: Value) -> Result<Value, String> {
    let set = set(&json!({"type": "object", "properties": {"v": schema}, "required": ["v"]}));
    set.prepared("t", &json!({"v": given}).to_string()).map(|prepared| {
        serde_json::from_str::<Value>(&prepared.arguments_json).unwrap()["v"].clone()
    })
}

#[test]
fn values_are_coerced_as_pi_does() {
    for (schema, given, expected) in [
        (json!({"type": "number"}), json!("5"), json!(5)),
        (json!({"type": "number"}), json!("5.5"), json!(5.5)),
        (json!({"type": "number"}), json!("1e3"), json!(1000.0)),
        (json!({"type": "number"}), json!(null), json!(0)),
        (json!({"type": "number"}), json!(true), json!(1)),
        (json!({"type": "integer"}), json!("9007199254740993"), json!(9_007_199_254_740_993_i64)),
        (json!({"type": "integer"}), json!(" 7 "), json!(7)),
        (json!({"type": "boolean"}), json!("true"), json!(true)),
        (json!({"type": "boolean"}), json!("false"), json!(false)),
        (json!({"type": "boolean"}), json!(1), json!(true)),
        (json!({"type": "boolean"}), json!(0), json!(false)),
        (json!({"type": "boolean"}), json!(null), json!(false)),
        (json!({"type": "string"}), json!(7), json!("7")),
        (json!({"type": "string"}), json!(7.0), json!("7")),
        (json!({"type": "string"}), json!(true), json!("true")),
        (json!({"type": "string"}), json!(null), json!("")),
        (json!({"type": "null"}), json!(""), json!(null)),
        (json!({"type": ["integer", "null"]}), json!("5"), json!(5)),
        (json!({"type": "array", "items": {"type": "number"}}), json!(["1", 2]), json!([1, 2])),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"n": {"type": "integer"}}}}}),
            json!({"a": {"n": "3", "other": "x"}}),
            json!({"a": {"n": 3, "other": "x"}}),
        ),
        (json!({"allOf": [{"type": "number"}, {"minimum": 3}]}), json!("4"), json!(4)),
        (json!({"anyOf": [{"type": "number"}, {"type": "null"}]}), json!("4"), json!(4)),
        // Valid under one alternative: unchanged, where ajv would convert it to a string.
        (json!({"anyOf": [{"type": "string"}, {"type": "number"}]}), json!(4), json!(4)),
        (json!({"type": "number", "const": 5}), json!("5"), json!(5)),
        (
            json!({"anyOf": [{"const": 1, "type": "number"}, {"const": 2, "type": "number"}]}),
            json!("2"),
            json!(2),
        ),
        (
            json!({"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "string"}}, "required": ["kind"]},
                {"type": "object", "properties": {"kind": {"const": "b"}, "n": {"type": "integer", "minimum": 2}}, "required": ["kind"]},
            ]}),
            json!({"kind": "b", "n": "5"}),
            json!({"kind": "b", "n": 5}),
        ),
        // A second round: the error inside the alternative appears only once the first value is valid.
        (
            json!({"anyOf": [{"type": "integer", "maximum": 3}, {"type": "integer", "minimum": 10}]}),
            json!("12"),
            json!(12),
        ),
    ] {
        assert_eq!(coerced(schema.clone(), given.clone()), Ok(expected), "{given} under {schema}");
    }
}

#[test]
fn values_that_pi_refuses_are_refused() {
    for (schema, given) in [
        (json!({"type": "number"}), json!("abc")),
        (json!({"type": "number"}), json!("")),
        (json!({"type": "number"}), json!("Infinity")),
        (json!({"type": "integer"}), json!(5.5)),
        (json!({"type": "integer"}), json!("5.5")),
        (json!({"type": "boolean"}), json!("yes")),
        (json!({"type": "boolean"}), json!(2)),
        (json!({"type": "array", "items": {"type": "string"}}), json!("one")),
        (json!({"type": "string"}), json!(["one"])),
        (json!({"type": "string", "enum": ["a", "b"]}), json!("c")),
        (json!({"type": "integer", "minimum": 3}), json!("2")),
        (json!({"anyOf": [{"type": "number"}, {"type": "null"}]}), json!("x")),
    ] {
        assert!(coerced(schema.clone(), given.clone()).is_err(), "{given} under {schema}");
    }
}

#[test]
fn references_inside_the_schema_are_followed() {
    let set = set(&json!({
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        }},
    }));
    let prepared = set.prepared("t", r#"{"tree":{"n":"1","kids":[{"n":"2","kids":[]}]}}"#).unwrap();
    assert_eq!(prepared.arguments_json, r#"{"tree":{"kids":[{"kids":[],"n":2}],"n":1}}"#);
}

#[test]
fn valid_arguments_are_passed_on_byte_for_byte() {
    let set = set(&json!({"type": "object", "properties": {"n": {"type": "number"}}}));
    for text in ["{ \"z\": 1.50,\n \"n\" : 1e2, \"extra\": [ ] }", "{\"n\":5.0}"] {
        assert_eq!(set.prepared("t", text).unwrap().arguments_json, text);
    }
    for empty in ["", " \n", "null"] {
        assert_eq!(set.prepared("t", empty).unwrap().arguments_json, "{}");
    }
}

#[test]
fn lone_surrogates_are_repaired() {
    let set = set(&json!({"type": "object"}));
    let prepared = set.prepared("t", r#"{"a":"\ud83d"}"#).unwrap();
    assert_eq!(prepared.arguments_json, r#"{"a":"\ufffd"}"#);
}

#[test]
fn the_result_of_an_unknown_tool_lists_the_available_tools() {
    let set = ToolSet::compile(&[tool("read", "{}"), tool("write", "{}")]).unwrap();
    assert_eq!(
        set.prepared("raed", "{}"),
        Err("Tool raed not found. Available tools: read, write".to_owned())
    );
    assert_eq!(
        ToolSet::compile(&[]).unwrap().prepared("x", "{}"),
        Err("Tool x not found. There are no tools.".to_owned())
    );
}

#[test]
fn an_error_names_every_path_and_the_expected_value() {
    let set = set(&json!({
        "type": "object",
        "properties": {
            "n": {"type": "number"},
            "mode": {"enum": ["a", "b"]},
            "list": {"type": "array", "items": {"type": "object", "required": ["id"]}},
            "either": {"anyOf": [{"type": "number"}, {"type": "boolean"}]},
        },
        "required": ["path"],
        "additionalProperties": false,
    }));
    let given = r#"{"n":"abc","mode":"c","list":[{}],"either":"x","more":1}"#;
    insta::assert_snapshot!(set.prepared("t", given).unwrap_err());
    let long = format!(r#"{{"path":"{}","n":"x"}}"#, "p".repeat(10_000));
    let refusal = set.prepared("t", &long).unwrap_err();
    assert!(refusal.chars().count() < 800, "{refusal}");
}

#[test]
fn arguments_that_are_no_bounded_json_object_are_refused() {
    let set = set(&json!({"type": "object"}));
    let refusals: Vec<String> = [
        r#"{"a":"#.to_owned(),
        "[1]".to_owned(),
        "\"x\"".to_owned(),
        r#"{"a":1e400}"#.to_owned(),
        format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200)),
        format!("{{\"a\":\"{}\"}}", "x".repeat(4 * 1024 * 1024)),
        format!("{{{}}}", (0..10_001).map(|n| format!("\"{n}\":0")).collect::<Vec<_>>().join(",")),
    ]
    .iter()
    .map(|text| {
        let refusal = set.prepared("t", text).unwrap_err();
        refusal.lines().nth(1).unwrap().to_owned()
    })
    .collect();
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn a_schema_that_cannot_be_checked_is_refused_with_its_path() {
    let error = |schema: &str| {
        let InputError { path, message } =
            ToolSet::compile(&[tool("fine", "{}"), tool("bad", schema)]).unwrap_err();
        assert_eq!(path, "tools[1].parameters");
        message
    };
    let deep = format!("{}{}", "{\"not\":".repeat(200), "{}".to_owned() + &"}".repeat(200));
    let large = format!("{{\"description\":\"{}\"}}", "x".repeat(256 * 1024));
    let messages = [
        error(r#"{"type":"strin"}"#),
        error(r#"{"$ref":"https://example.com/schema.json"}"#),
        error(r#"{"$ref":"file:///etc/passwd"}"#),
        error(r##"{"$ref":"#/$defs/missing"}"##),
        error(r#"{"properties":{"a":{"pattern":"("}}}"#),
        error(r#"{"properties":{"a":{"pattern":"((((a{1,99}){1,99}){1,99}){1,99}){1,99}"}}}"#),
        error(&deep),
        error(&large),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn older_spellings_compile() {
    // TypeBox writes tuples of draft 7; some generators still write flags of draft 4.
    let tuple = json!({"type": "object", "properties": {"v": {
        "type": "array", "items": [{"type": "string"}, {"type": "number"}],
        "additionalItems": false, "minItems": 2, "maxItems": 2,
    }}});
    assert_eq!(
        set(&tuple).prepared("t", r#"{"v":["a","2"]}"#).unwrap().arguments_json,
        r#"{"v":["a",2]}"#
    );
    let flag =
        json!({"properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": true}}});
    assert!(set(&flag).prepared("t", r#"{"n":0}"#).is_err());
}

#[test]
fn patterns_run_in_bounded_time_also_with_look_around() {
    let set = set(&json!({"properties": {
        "linear": {"pattern": "^(a+)+$"},
        "ahead": {"pattern": "^(?=(a+)+$)a+$"},
    }}));
    let hostile = format!("{}b", "a".repeat(5_000));
    assert!(set.prepared("t", &json!({"linear": hostile}).to_string()).is_err());
    assert!(set.prepared("t", &json!({"ahead": hostile}).to_string()).is_err());
    assert!(set.prepared("t", r#"{"linear":"aa","ahead":"aa"}"#).is_ok());
}

#[test]
fn references_cannot_multiply_the_work() {
    // A filter language: every level has alternatives with references back.
    let filter = json!({
        "type": "object",
        "properties": {"v": {"$ref": "#/$defs/f"}},
        "$defs": {"f": {"anyOf": [
            {"type": "object", "properties": {"all": {"$ref": "#/$defs/f"}}, "required": ["all"]},
            {"type": "object", "properties": {"all": {"$ref": "#/$defs/f"}, "some": {}}, "required": ["some"]},
            {"type": "integer"},
        ]}},
    });
    let nested = |levels: usize, leaf: &str| {
        format!("{{\"v\":{}{leaf}{}}}", "{\"all\":".repeat(levels), "}".repeat(levels))
    };
    let set = set(&filter);
    assert!(set.prepared("t", &nested(60, "1")).is_ok());
    assert_eq!(set.prepared("t", &nested(3, "\"7\"")).unwrap().arguments_json, nested(3, "7"));
    let wide = format!("[{}]", vec!["\"x\""; 9_000].join(","));
    assert!(set.prepared("t", &nested(5, &wide)).is_err());
    let refusal = set.prepared("t", &nested(60, "\"x\"")).unwrap_err();
    assert!(refusal.contains("too deep to name the place"), "{refusal}");

    let doubling = |levels: usize| {
        let mut defs = serde_json::Map::new();
        for n in 0..levels {
            let next = json!({"$ref": format!("#/$defs/a{}", n + 1)});
            defs.insert(format!("a{n}"), json!({"allOf": [next, next]}));
        }
        defs.insert(format!("a{levels}"), json!({"type": "string"}));
        json!({"$ref": "#/$defs/a0", "$defs": defs})
    };
    let chain = {
        let mut defs = serde_json::Map::new();
        for n in 0..4_000 {
            defs.insert(format!("a{n}"), json!({"$ref": format!("#/$defs/a{}", n + 1)}));
        }
        defs.insert("a4000".to_owned(), json!({}));
        json!({"$ref": "#/$defs/a0", "$defs": defs})
    };
    for hostile in [doubling(40), chain] {
        let refused = ToolSet::compile(&[tool("t", &hostile.to_string())]);
        assert_eq!(refused.unwrap_err().path, "tools[0].parameters");
    }
    for harmless in [
        json!({"anyOf": [{"$ref": "#"}, {"type": "string"}]}),
        // TypeBox's way of recursion.
        json!({"$id": "Node", "type": "object", "properties": {"nodes": {"type": "array", "items": {"$ref": "Node"}}}}),
        doubling(4),
    ] {
        assert!(ToolSet::compile(&[tool("t", &harmless.to_string())]).is_ok(), "{harmless}");
    }
}

#[test]
fn large_arguments_are_validated_but_not_explained() {
    let set = set(&json!({"properties": {"v": {"items": {"type": "number"}}}}));
    let given = |item: &str, count: usize| format!("{{\"v\":[{}]}}", vec![item; count].join(","));
    assert!(set.prepared("t", &given("1", 1_000_000)).is_ok());
    let refusal = set.prepared("t", &given("\"5\"", 1_000_000)).unwrap_err();
    assert!(refusal.contains("too large or too deep"), "{refusal}");
    assert_eq!(set.prepared("t", &given("\"5\"", 500)).unwrap().arguments_json, given("5", 500));
}

#[test]
fn every_union_in_a_list_is_coerced() {
    let item = json!({"anyOf": [{"type": "number"}, {"type": "array"}]});
    let set = set(&json!({"properties": {"v": {"type": "array", "items": item}}}));
    let given = json!({"v": vec!["5"; 200]}).to_string();
    let expected = json!({"v": vec![5; 200]}).to_string();
    assert_eq!(set.prepared("t", &given).unwrap().arguments_json, expected);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9a-z.]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn the_arguments_of_a_tool_are_always_valid_and_preparing_them_again_changes_nothing(given in any_json()) {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"type": "number"},
                "b": {"anyOf": [{"type": "boolean"}, {"type": "object", "properties": {"a": {"type": "string"}}}]},
                "c": {"type": "array", "items": {"type": ["integer", "null"]}},
                "d": {"$ref": "#"},
            },
        });
        let set = set(&schema);
        let validator = jsonschema::validator_for(&schema).unwrap();
        let text = json!({"a": given, "b": given, "c": [given], "d": {"b": given}}).to_string();
        match set.prepared("t", &text) {
            Ok(prepared) => {
                prop_assert!(validator.is_valid(&serde_json::from_str(&prepared.arguments_json).unwrap()));
                let again = set.prepared("t", &prepared.arguments_json);
                prop_assert_eq!(again, Ok(prepared));
            }
            Err(refusal) => prop_assert!(refusal.chars().count() < 5_000),
        }
    }
}
