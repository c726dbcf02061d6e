//! Every ledger that is open in this process, by the identity of its file: two engines on one path share one.
//!
//! Two sets of connections on one file would be safe within one SQLite library, but two writers would compete for the lock,
//! and the check for a second SQLite library must know this engine's descriptors. It must never open a file twice.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use crate::events::command_rows::OpenCommand;
use crate::events::commands;
use crate::events::poller::{Poller, PollerTasks};
use crate::events::runs::Runs;
use crate::journal_rows::archive_rows;
use crate::lease::claim::Claim;
use crate::lease::heartbeat::Heartbeat;
use crate::lease::held::Held;
use crate::lease::owner::Owner;
use crate::memory_rows::code_cache::CodeCache;
use crate::open::options::LedgerOptions;
use crate::open::{draft, new_ledger};
use crate::reading::query;
use crate::rows::blobs;
use crate::search::search_indexer;
use crate::sqlite::connection::{self, Purpose};
use crate::sqlite::error::{self, Stored};
use crate::sqlite::file::{self, FileId};
use crate::sqlite::guard::{self, Guard, Reads};
use crate::sqlite::readers::Readers;
use crate::sqlite::schema;
use crate::sqlite::writer::Writer;
use base::clock::Clock;
use model::{Retention, StorageError, StorageErrorKind};

/// Connections for our own reads.
const READERS: usize = 4;
/// Connections for the host's SQL.
const QUERIES: usize = 2;

/// An open ledger: its writer and its readers.
pub(crate) struct OpenLedger {
    id: FileId,
    /// Its path, with links and folders resolved.
    pub(crate) path: PathBuf,
    pub(crate) ledger_id: String,
    pub(crate) writer: Arc<Writer>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) queries: Arc<Readers>,
    pub(crate) claim: Claim,
    pub(crate) heartbeat: Arc<Heartbeat>,
    pub(crate) runs: Arc<Runs>,
    pub(crate) poller: Arc<Poller>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) reads: Arc<Reads>,
    /// How long events are stored; `None` if none are.
    pub(crate) retention: Option<Retention>,
    /// The codes of the memory's vectors; empty until the first search for one.
    pub(crate) codes: CodeCache,
}

impl OpenLedger {
    /// Waits for the submitted jobs, and closes the files.
    pub(crate) fn stop(&self) {
        self.heartbeat.stop();
        self.poller.stop();
        // Readers first: the writer's last checkpoint then empties the log.
        self.readers.stop();
        self.queries.stop();
        self.runs.archive_last();
        self.writer.stop();
    }
}

impl PollerTasks for OpenLedger {
    fn flush_events(&self) {
        self.runs.flush();
    }

    fn index_slice(&self) {
        let poller = Arc::downgrade(&self.poller);
        search_indexer::begin(&self.writer, move |more| {
            if let Some(poller) = poller.upgrade().filter(|_| more) {
                poller.index_soon();
            }
        });
    }

    fn carry_out(&self, command: OpenCommand) -> bool {
        commands::carry_out(&self.runs, &self.claim, &self.writer, command)
    }
}

struct Entry {
    core: Arc<OpenLedger>,
    handles: usize,
}

/// Opening and closing are serialized, so that a partly open or partly closed ledger is never visible.
static OPEN: LazyLock<Mutex<HashMap<FileId, Entry>>> = LazyLock::new(Mutex::default);

/// Opens the ledger at `path`, or shares the one that is open. Each call needs one [`release`].
pub(crate) fn acquire(options: &LedgerOptions, clock: &Clock) -> Stored<Arc<OpenLedger>> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let path = file::resolve(&options.path)?;
    guard::check_file_system(&path)?;
    check_not_replaced(&open, &path)?;
    draft::sweep(&path, clock);
    let found = match file::identify(&path)? {
        Some(found) => Some(found),
        None => {
            new_ledger::create(&path, clock)?;
            file::identify(&path)?
        }
    };
    let Some((id, length)) = found else {
        return Err(crate::sqlite::error::damaged(&format!(
            "the ledger `{}` vanished while it was opened",
            path.display()
        )));
    };
    if let Some(entry) = open.get_mut(&id) {
        entry.handles += 1;
        return Ok(Arc::clone(&entry.core));
    }
    file::check_not_held(&path)?;
    file::check_writable(&path)?;
    file::check_header(&path, length)?;
    let core = open_file(&path, id.clone(), options, clock)?;
    open.insert(id, Entry { core: Arc::clone(&core), handles: 1 });
    Ok(core)
}

/// Opens a ledger that is open already, for tests with several processes; it is not registered.
#[cfg(test)]
pub(crate) fn open_separately(options: &LedgerOptions, clock: &Clock) -> Stored<Arc<OpenLedger>> {
    let path = file::resolve(&options.path)?;
    let (id, _) = file::identify(&path)?.ok_or_else(error::closed)?;
    open_file(&path, id, options, clock)
}

/// The connections and threads of a ledger whose file was checked.
fn open_file(
    path: &Path,
    id: FileId,
    options: &LedgerOptions,
    clock: &Clock,
) -> Stored<Arc<OpenLedger>> {
    let guard = Guard::new(path, id.clone(), clock);
    let reads = Reads::new(options.log_bound);
    let watches = (&guard, &reads);
    let connection = connection::open(path, Purpose::Write(options.synchronous))?;
    guard.opened();
    let ledger_id = schema::stamp_of(&connection)?.ledger_id;
    // If a damaged page hides it, the search returns the error, not the open.
    let unindexed =
        search_indexer::waiting(&connection).is_ok_and(|it| it > search_indexer::WAITING);
    let unarchived = archive_rows::is_due(&connection).is_ok_and(|due| due);
    let (reader, watched) = (path.to_owned(), path.to_owned());
    let claim = Claim {
        owner: Arc::new(Owner::this(clock)),
        held: Arc::new(Held::default()),
        clock: clock.clone(),
        lease_ms: i64::try_from(options.lease.as_millis()).unwrap_or(i64::MAX),
    };
    let writer = Arc::new(Writer::start(connection, options.synchronous, watches)?);
    let readers = Readers::new(READERS, watches, move || connection::open(&reader, Purpose::Read));
    let (located, path) = (path.to_owned(), path.to_owned());
    let queries = Readers::new(QUERIES, watches, move || {
        let connection = connection::open(&path, Purpose::Read)?;
        let large = path.clone();
        blobs::add_whole_text(&connection, move || connection::open(&large, Purpose::Read))?;
        query::guard(connection)
    });
    let core = Arc::new_cyclic(|open: &Weak<OpenLedger>| {
        let tasks: Weak<dyn PollerTasks> = Weak::<OpenLedger>::clone(open);
        let watch = move || connection::open(&watched, Purpose::Read);
        let poller = Poller::new(tasks, claim.clone(), Arc::clone(&guard), watch);
        let events = options.events.is_some();
        OpenLedger {
            id,
            path: located,
            ledger_id,
            readers,
            queries,
            heartbeat: Heartbeat::new(claim.clone(), Arc::clone(&writer)),
            runs: Runs::new(claim.clone(), Arc::clone(&writer), Arc::clone(&poller), events),
            writer,
            claim,
            poller,
            retention: options.events.clone(),
            guard: Arc::clone(&guard),
            reads: Arc::clone(&reads),
            codes: CodeCache::default(),
        }
    });
    if unindexed {
        core.poller.index_soon();
    }
    if unarchived {
        core.runs.archive_ended();
    }
    Ok(core)
}

/// Refuses a path whose ledger was removed while an engine of this process had it open, and whose log still exists: the log
/// would be replayed into the new file at the path.
fn check_not_replaced(open: &HashMap<FileId, Entry>, path: &Path) -> Stored<()> {
    let there = file::id_at(path).ok().flatten();
    let replaced = open.iter().any(|(id, entry)| {
        entry.core.guard.path() == path
            && there.as_ref() != Some(id)
            && entry.core.guard.log_is_ours()
    });
    if replaced {
        return Err(StorageError::new(
            StorageErrorKind::Replaced,
            format!(
                "the ledger `{}` was deleted or replaced while an engine of this process had it open; close that \
                 engine first",
                path.display()
            ),
        ));
    }
    Ok(())
}

/// Copies a ledger with its log while it is not open in this process and cannot be opened: closing a descriptor of an open
/// one would drop its locks (docs/rules/faults.md#no-second-sqlite).
pub(crate) fn copy_closed(from: &Path, to: &Path) -> Stored<()> {
    let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let path = file::resolve(from)?;
    if let Some((id, _)) = file::identify(&path)?
        && open.contains_key(&id)
    {
        return Err(StorageError::new(
            StorageErrorKind::InUse,
            format!("the ledger `{}` is open in this process; close its engine", path.display()),
        ));
    }
    file::check_not_held(&path)?;
    for suffix in ["", "-wal"] {
        let (from, to) = (file::companion(&path, suffix), file::companion(to, suffix));
        if suffix.is_empty() || from.exists() {
            let copying = |error| error::file(&format!("copy `{}`", from.display()), &error);
            file::create_private(&to).map_err(copying)?;
            std::fs::copy(&from, &to).map_err(copying)?;
        }
    }
    Ok(())
}

/// Releases a handle; the last one waits for pending jobs, checkpoints and closes the files.
pub(crate) fn release(core: &Arc<OpenLedger>) {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(entry) = open.get_mut(&core.id).filter(|entry| Arc::ptr_eq(&entry.core, core)) {
        entry.handles -= 1;
        if entry.handles == 0 {
            core.stop();
            open.remove(&core.id);
        }
    }
}
