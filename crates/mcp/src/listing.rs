//! The lists of a server, page by page. It must never follow pages without an end.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::frame::Params;
use super::session::{McpError, Session};

/// The bounds of a list.
const MAX_PAGES: usize = 100;
const MAX_ITEMS: usize = 1_000;
const MAX_BYTES: usize = 8 << 20;

/// Requests a list: `method` has pages, each with the items in `field`.
///
/// # Errors
/// The server's error, or the bound that the list passes.
pub(crate) async fn list(
    session: &Session,
    method: &str,
    field: &str,
) -> Result<Vec<Box<RawValue>>, McpError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cursor {
        #[serde(default)]
        next_cursor: Option<String>,
    }
    let mut items = Vec::new();
    let (mut bytes, mut seen) = (0, HashSet::new());
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params = match &cursor {
            None => Params::default(),
            Some(cursor) => Params::default().with("cursor", cursor),
        };
        let page = session.request(method, params, None).await?;
        bytes += page.get().len();
        items.append(&mut page_items(&page, field)?);
        if items.len() > MAX_ITEMS || bytes > MAX_BYTES {
            let why = format!("lists too much: at most {MAX_ITEMS} {field} in {MAX_BYTES} bytes");
            return Err(McpError::Failed(why));
        }
        let next: Result<Cursor, _> = serde_json::from_str(page.get());
        match next.ok().and_then(|next| next.next_cursor) {
            None => return Ok(items),
            Some(next) if !seen.insert(next.clone()) => break,
            Some(next) => cursor = Some(next),
        }
    }
    Err(McpError::Failed(format!("lists {field} without an end")))
}

fn page_items(page: &RawValue, field: &str) -> Result<Vec<Box<RawValue>>, McpError> {
    let fields: HashMap<String, &RawValue> = serde_json::from_str(page.get())
        .map_err(|_| McpError::Failed(format!("answered no list of {field}")))?;
    let list = fields.get(field).map(|raw| serde_json::from_str(raw.get()));
    match list {
        Some(Ok(items)) => Ok(items),
        Some(Err(_)) | None => Err(McpError::Failed(format!("answered no list of {field}"))),
    }
}
