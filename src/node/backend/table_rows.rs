//! What a copy takes beside turns and sessions: what was forgotten, which events are known, and which queues are suspended.

use std::collections::HashSet;

use model::{CopiedTable, CopyStep, LedgerPorts, StorageError};

/// Copies the rows that the other ledger has not. The suspended queues are those of a ledger that moves: until then they change.
pub(super) async fn copy(
    from: &LedgerPorts,
    to: &LedgerPorts,
    moved: bool,
) -> Result<(), StorageError> {
    copy_table(from, to, CopiedTable::Forgotten).await?;
    copy_table(from, to, CopiedTable::Events).await?;
    if !moved {
        return Ok(());
    }
    copy_table(from, to, CopiedTable::Suspensions).await?;
    // An earlier call may have copied suspensions that have ended since.
    let here = suspended(from).await?;
    let stale: HashSet<String> = suspended(to).await?.difference(&here).cloned().collect();
    if stale.is_empty() {
        return Ok(());
    }
    let labels = from.admin.copy_step(CopyStep::Labels).await?.list;
    for label in labels.into_iter().filter(|label| stale.contains(label)) {
        to.queue.suspend(label, false).await?;
    }
    Ok(())
}

/// The tables of which the other ledger lacks a row.
pub(super) async fn differing(
    from: &LedgerPorts,
    to: &LedgerPorts,
) -> Result<Vec<&'static str>, StorageError> {
    let mut differing = Vec::new();
    for table in [CopiedTable::Forgotten, CopiedTable::Events, CopiedTable::Suspensions] {
        let mut pages = Pages { of: from, table, after: Vec::new() };
        while let Some(page) = pages.next().await? {
            if !to.admin.copy_step(CopyStep::MissingRows(table, page)).await?.rows.is_empty() {
                differing.push(table.parts().0);
                break;
            }
        }
    }
    Ok(differing)
}

async fn copy_table(
    from: &LedgerPorts,
    to: &LedgerPorts,
    table: CopiedTable,
) -> Result<(), StorageError> {
    let mut pages = Pages { of: from, table, after: Vec::new() };
    while let Some(page) = pages.next().await? {
        let new = to.admin.copy_step(CopyStep::MissingRows(table, page)).await?.rows;
        if !new.is_empty() {
            to.admin.copy_step(CopyStep::WriteRows(table, new)).await?;
        }
    }
    Ok(())
}

async fn suspended(of: &LedgerPorts) -> Result<HashSet<String>, StorageError> {
    let mut labels = HashSet::new();
    let mut pages = Pages { of, table: CopiedTable::Suspensions, after: Vec::new() };
    while let Some(page) = pages.next().await? {
        labels.extend(page.into_iter().filter_map(|row| row.into_iter().next()));
    }
    Ok(labels)
}

/// All rows of a table, in the order of their keys.
struct Pages<'a> {
    of: &'a LedgerPorts,
    table: CopiedTable,
    after: Vec<String>,
}

impl Pages<'_> {
    async fn next(&mut self) -> Result<Option<Vec<Vec<String>>>, StorageError> {
        let step = CopyStep::Rows(self.table, self.after.clone());
        let page = self.of.admin.copy_step(step).await?.rows;
        let (_, _, keys) = self.table.parts();
        let Some(last) = page.last() else { return Ok(None) };
        self.after = last.iter().take(keys).cloned().collect();
        Ok(Some(page))
    }
}
