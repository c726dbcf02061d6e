//! The result of a call, as blocks that a model reads.
//!
//! Nothing of a result is fetched: a link stays a link. It must never drop a part silently.

use serde::Deserialize;
use serde_json::value::RawValue;

use model::Block;

/// The most blocks of a result.
const MAX_BLOCKS: usize = 1_000;
/// The images that every API accepts.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The result of a call.
#[derive(Debug, Clone)]
pub struct CallResult {
    /// What the model reads.
    pub content: Vec<Block>,
    /// The whole result, as the server sent it.
    pub raw: Box<RawValue>,
    /// Its structured part.
    pub structured: Option<Box<RawValue>>,
    /// The tool failed; the content says why.
    pub is_error: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    #[serde(borrow, default)]
    content: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    structured_content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(default)]
    result_type: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Item {
    #[serde(rename = "type")]
    kind: String,
    text: String,
    data: String,
    mime_type: Option<String>,
    uri: String,
    name: String,
    description: Option<String>,
    resource: Option<Resource>,
}

/// The contents of a resource.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Resource {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
}

impl CallResult {
    /// Reads a result.
    ///
    /// # Errors
    /// Why it is none.
    pub(crate) fn read(raw: Box<RawValue>) -> Result<Self, String> {
        // A list would be read as fields in order.
        if !raw.get().starts_with('{') {
            return Err("answered what is no result".to_owned());
        }
        let wire: Wire<'_> = serde_json::from_str(raw.get())
            .map_err(|error| format!("answered what is no result: {error}"))?;
        match wire.result_type.as_deref() {
            None | Some("complete") => {}
            Some("input_required") => {
                return Err(
                    "asks for input that this client does not give; call the tool with all it needs"
                        .to_owned(),
                );
            }
            Some(_) => return Err("answered with a kind of result that is not known".to_owned()),
        }
        let items = wire.content.unwrap_or_default();
        let mut content: Vec<Block> =
            items.iter().take(MAX_BLOCKS).map(|item| block(item)).collect();
        if let Some(left) = items.len().checked_sub(MAX_BLOCKS).filter(|left| *left > 0) {
            content.push(Block::text(format!("[{left} more parts were left out]")));
        }
        let structured = wire.structured_content.map(ToOwned::to_owned);
        if let (true, Some(structured)) = (content.is_empty(), &structured) {
            content.push(Block::text(structured.get()));
        }
        let is_error = wire.is_error.unwrap_or(false);
        Ok(Self { content, structured, is_error, raw })
    }
}

fn block(item: &RawValue) -> Block {
    let Ok(item) = serde_json::from_str::<Item>(item.get()) else {
        return Block::text("[a part that cannot be read was left out]");
    };
    let Item { kind, text, data, mime_type, uri, name, description, resource } = item;
    match kind.as_str() {
        "text" => Block::text(text),
        "image" => image(mime_type.as_deref(), data),
        "resource_link" => {
            let about = description.map(|text| format!(": {text}")).unwrap_or_default();
            Block::text(format!("[resource {name} at {uri}{about}]"))
        }
        "resource" => embedded(resource.unwrap_or_default()),
        other => {
            let kind: String = other.chars().take(40).collect();
            let mime = mime_type.map(|mime| format!(" of {mime}")).unwrap_or_default();
            Block::text(format!("[a part of kind {kind}{mime} was left out]"))
        }
    }
}

fn image(mime_type: Option<&str>, data: String) -> Block {
    match mime_type.and_then(|mime| IMAGES.into_iter().find(|known| *known == mime)) {
        Some(mime) => Block::Image { mime_type: mime.to_owned(), data },
        None => {
            let mime = mime_type.unwrap_or("an unknown type");
            Block::text(format!("[an image of {mime} was left out]"))
        }
    }
}

fn embedded(resource: Resource) -> Block {
    let Resource { uri, mime_type, text, blob } = resource;
    match (text, blob, mime_type) {
        (Some(text), _, _) => Block::text(format!("[resource {uri}]\n{text}")),
        (None, Some(blob), Some(mime)) if IMAGES.contains(&mime.as_str()) => {
            Block::Image { mime_type: mime, data: blob }
        }
        (None, _, mime) => {
            let mime = mime.unwrap_or_else(|| "an unknown type".to_owned());
            Block::text(format!("[resource {uri} of {mime} was left out: it is no text]"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::CallResult;
    use model::Block;

    fn read(text: &str) -> Result<CallResult, String> {
        CallResult::read(RawValue::from_string(text.to_owned()).unwrap())
    }

    fn shown(text: &str) -> Vec<String> {
        let show = |block: Block| match block {
            Block::Text { text, .. } => text,
            Block::Image { mime_type, data } => format!("{mime_type}:{data}"),
            other => format!("{other:?}"),
        };
        read(text).unwrap().content.into_iter().map(show).collect()
    }

    #[test]
    fn each_part_of_a_result_is_a_block() {
        let text = r#"{"content":[
            {"type":"text","text":"a"},
            {"type":"image","data":"AAAA","mimeType":"image/png"},
            {"type":"image","data":"AAAA","mimeType":"image/tiff"},
            {"type":"audio","data":"AAAA","mimeType":"audio/wav"},
            {"type":"resource_link","uri":"file:///a","name":"a","description":"b"},
            {"type":"resource","resource":{"uri":"file:///a","text":"c"}},
            {"type":"resource","resource":{"uri":"file:///b","mimeType":"image/gif","blob":"BBBB"}},
            {"type":"resource","resource":{"uri":"file:///c","blob":"BBBB"}},
            {"type":7}
        ]}"#;
        assert_eq!(
            shown(text),
            [
                "a",
                "image/png:AAAA",
                "[an image of image/tiff was left out]",
                "[a part of kind audio of audio/wav was left out]",
                "[resource a at file:///a: b]",
                "[resource file:///a]\nc",
                "image/gif:BBBB",
                "[resource file:///c of an unknown type was left out: it is no text]",
                "[a part that cannot be read was left out]",
            ]
        );
    }

    #[test]
    fn a_structured_result_without_parts_is_read_as_its_json() {
        assert_eq!(shown(r#"{"structuredContent":{"n":1}}"#), [r#"{"n":1}"#]);
        assert_eq!(shown(r#"{"content":[],"isError":true}"#), Vec::<String>::new());
        let many = vec![r#"{"type":"text","text":"a"}"#; 1_002].join(",");
        let blocks = shown(&format!(r#"{{"content":[{many}]}}"#));
        assert_eq!((blocks.len(), blocks[1_000].as_str()), (1_001, "[2 more parts were left out]"));
    }

    #[test]
    fn what_is_no_result_is_an_error() {
        assert!(read("[]").unwrap_err().starts_with("answered what is no result"));
        assert!(
            read(r#"{"resultType":"input_required"}"#).unwrap_err().starts_with("asks for input")
        );
        assert!(read(r#"{"resultType":"task"}"#).is_err());
    }
}
