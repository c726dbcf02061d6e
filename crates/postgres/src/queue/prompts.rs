//! The files of a workspace as the system prompt of a session has them, from one compaction to the next.
//!
//! It must never read a file.

use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::rows::turn_read::get;

/// The files of a session's prompt, if this request has read them.
pub(crate) async fn files(server: &Server, label: &str, request: &str) -> Stored<Option<String>> {
    let text = "select files from @session_prompts where session_label = $1 and request = $2";
    let of: [Param<'_>; 2] = [(&label, Type::TEXT), (&request, Type::TEXT)];
    let row = server.row("read the files of a prompt", text, &of).await?;
    row.map(|row| get(&row, "files")).transpose()
}

/// Stores the files that a request has read, in place of others.
pub(crate) async fn set(server: &Server, label: &str, request: &str, files: &str) -> Stored<()> {
    let text = "insert into @session_prompts (session_label, request, files, created_at) values ($1, $2, $3, @now_ms())
       on conflict (session_label) do update set request = excluded.request, files = excluded.files,
         created_at = excluded.created_at";
    let params: [Param<'_>; 3] =
        [(&label, Type::TEXT), (&request, Type::TEXT), (&files, Type::TEXT)];
    server.rows("write the files of a prompt", text, &params).await.map(drop)
}
