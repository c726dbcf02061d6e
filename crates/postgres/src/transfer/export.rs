//! `export`: one snapshot of the server, written to a new file. It must never leave an incomplete file under its name, nor
//! replace one.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use base::clock::Clock;
use model::{LedgerExport, LedgerFormat, StorageError, StorageErrorKind};
use portable::Export;

use crate::connect::error::Stored;
use crate::connect::server::Server;
use crate::journal::history;
use crate::reading::sessions;
use crate::rows::turn_read::get;
use crate::transfer::rows::{self, ServerRows};

/// Writes a session, or all of them without a label, to a new file.
pub(crate) async fn export(
    server: &Server,
    to: &Path,
    (format, label): (LedgerFormat, Option<&str>),
    clock: &Clock,
) -> Stored<LedgerExport> {
    let writing = |error: io::Error| file(to, &error);
    if fs::symlink_metadata(to).is_ok() {
        return Err(exists(to));
    }
    let name = to.file_name().ok_or_else(|| writing(io::ErrorKind::IsADirectory.into()))?;
    let folder = to.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let to = folder.canonicalize().map_err(writing)?.join(name);
    let mut draft = to.clone().into_os_string();
    draft.push(format!(".new-{}", clock.new_id()));
    let draft = PathBuf::from(draft);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&draft).map_err(writing)?;
    let written = write(server, &draft, (format, label), clock).await;
    let named = written.and_then(|report| {
        OpenOptions::new()
            .write(true)
            .open(&draft)
            .and_then(|it| it.sync_all())
            .map_err(writing)?;
        match fs::hard_link(&draft, &to) {
            Ok(()) => Ok(report),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(&to)),
            Err(error) => Err(writing(error)),
        }
    });
    // Best effort: a remaining draft is harmless.
    let _ = fs::remove_file(&draft);
    Ok(LedgerExport { path: to.to_string_lossy().into_owned(), ..named? })
}

async fn write(
    server: &Server,
    draft: &Path,
    (format, label): (LedgerFormat, Option<&str>),
    clock: &Clock,
) -> Stored<LedgerExport> {
    // Before the snapshot, which holds a connection: the turns of a context never change.
    let thread = match (format, label) {
        (LedgerFormat::Myclaw, Some(label)) => {
            let head = sessions::session(server, label).await?.and_then(|it| it.thread_id);
            match head {
                Some(head) => {
                    let history = history::session_history(server, "", Some(&head), None).await?;
                    history.turns.into_iter().map(|turn| turn.id).collect()
                }
                None => Vec::new(),
            }
        }
        (LedgerFormat::Ledger | LedgerFormat::Pi | LedgerFormat::Myclaw, _) => Vec::new(),
    };
    let id = server.row("read the ledger", "select id from @ledger", &[]).await?;
    let id: Option<String> = id.map(|row| get(&row, "id")).transpose()?;
    let ledger_id = id.as_deref().unwrap_or_default();
    let of = Export { format, label, ledger_id, now: clock.now_ms() };
    let exported = rows::reading(server, "export the ledger", async |client| {
        let rows = ServerRows::new(server, client, clock, &thread);
        let done = portable::export(&rows, draft, of).await;
        rows.outcome(done)
    });
    exported.await
}

fn file(path: &Path, error: &io::Error) -> StorageError {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            StorageErrorKind::ReadOnly
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StorageErrorKind::Full,
        _ => StorageErrorKind::Io,
    };
    let message = format!("could not write `{}`: {error}; check the folder", path.display());
    StorageError::new(kind, message)
}

fn exists(path: &Path) -> StorageError {
    StorageError::new(
        StorageErrorKind::Exists,
        format!("`{}` exists already; pass a path where nothing is", path.display()),
    )
}
