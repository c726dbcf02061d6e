//! Options of one turn's requests beside the conversation: tool choice, format, caching, metadata.
//!
//! Independent of the API: each wire writes what its API supports. It must never hold a key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Whether the model must, may or may not call tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(untagged))]
pub enum ToolChoice {
    /// The model decides.
    #[cfg_attr(feature = "testing", ts(type = "'auto'"))]
    Auto,
    /// No tool.
    #[cfg_attr(feature = "testing", ts(type = "'none'"))]
    None,
    /// At least one tool.
    #[cfg_attr(feature = "testing", ts(type = "'required'"))]
    Required,
    /// This tool.
    Tool {
        /// Its name.
        name: String,
    },
}

impl<'de> Deserialize<'de> for ToolChoice {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Word {
            Auto,
            None,
            Required,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Named {
            name: String,
        }
        struct ChoiceVisitor;
        impl<'de> serde::de::Visitor<'de> for ChoiceVisitor {
            type Value = ToolChoice;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("`auto`, `none`, `required` or `{ name }`")
            }

            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<ToolChoice, E> {
                let word = Word::deserialize(serde::de::value::StrDeserializer::new(word))?;
                Ok(match word {
                    Word::Auto => ToolChoice::Auto,
                    Word::None => ToolChoice::None,
                    Word::Required => ToolChoice::Required,
                })
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<ToolChoice, A::Error> {
                let named = Named::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(ToolChoice::Tool { name: named.name })
            }
        }
        deserializer.deserialize_any(ChoiceVisitor)
    }
}

/// The format of the answer's text, where the API can enforce one.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseFormat {
    /// Any JSON object.
    JsonObject,
    /// JSON of this schema.
    JsonSchema {
        /// `[A-Za-z0-9_-]{1,64}`; `answer` where left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The JSON Schema.
        #[cfg_attr(feature = "testing", ts(type = "unknown"))]
        schema: Box<RawValue>,
        /// Whether the provider must enforce the schema exactly; true where left out.
        #[serde(skip_serializing_if = "Option::is_none")]
        strict: Option<bool>,
    },
}

/// Written by hand: an internally tagged enum of serde cannot hold raw JSON.
impl<'de> Deserialize<'de> for ResponseFormat {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Kind {
            JsonObject,
            JsonSchema,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            r#type: Kind,
            #[serde(default)]
            name: Option<String>,
            #[serde(default)]
            schema: Option<Box<RawValue>>,
            #[serde(default)]
            strict: Option<bool>,
        }
        let Fields { r#type, name, schema, strict } = Fields::deserialize(deserializer)?;
        match (r#type, schema) {
            (Kind::JsonSchema, Some(schema)) => Ok(Self::JsonSchema { name, schema, strict }),
            (Kind::JsonSchema, None) => Err(serde::de::Error::missing_field("schema")),
            (Kind::JsonObject, None) if name.is_none() && strict.is_none() => Ok(Self::JsonObject),
            (Kind::JsonObject, _) => Err(serde::de::Error::custom(
                "is a `json_object`, which takes nothing more; pass a `json_schema`",
            )),
        }
    }
}

/// How long the provider may cache the prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
pub enum CacheTtl {
    /// No breakpoints, and no key.
    #[serde(rename = "off")]
    Off,
    /// Five minutes, or what the provider does by itself.
    #[default]
    #[serde(rename = "5m")]
    Minutes,
    /// An hour, where the provider supports it; writing costs more then.
    #[serde(rename = "1h")]
    Hour,
}

/// The provider's prompt cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptCache {
    /// How long it is cached; default `5m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<CacheTtl>,
    /// The routing key of requests that share a prefix, for APIs that use one; derived from the session where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The request options of a context.
#[derive(Debug, Clone, Default)]
pub struct RequestOptions {
    /// Whether the model must call tools; the provider's default (`auto`) where `None`.
    pub tool_choice: Option<ToolChoice>,
    /// False: at most one tool call per answer, where the API has such a setting.
    pub parallel_tool_calls: Option<bool>,
    /// The format of the answer's text.
    pub response_format: Option<ResponseFormat>,
    /// How often the model repairs an answer that does not fit the schema of `response_format`; `None` is the default.
    pub output_retries: Option<u32>,
    /// Texts at which the answer stops.
    pub stop_sequences: Vec<String>,
    /// The provider's prompt cache.
    pub prompt_cache: PromptCache,
    /// What the provider stores with the request; `user_id` is sent in the API's field for the user.
    pub metadata: BTreeMap<String, String>,
    /// Headers for this turn's requests, besides the provider's.
    pub headers: BTreeMap<String, String>,
    /// Tools that the provider runs, as its API writes them: JSON objects, passed through in order.
    pub provider_tools: Vec<Box<RawValue>>,
}
