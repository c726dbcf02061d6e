//! Checks that take long, on threads of their own: few, so that they leave cores and threads to the runs, and each check
//! ends by its steps, so that one that waits gets its turn.
//!
//! It must never run more checks at once than there are slots, nor go on with one that nobody waits for.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::explain;
use super::meter::Stopped;
use super::set::{Prepared, ToolSet};

/// Checks at once, in the whole process. Acquired in the order of the calls; a run has one check at a time.
static SLOTS: Semaphore = Semaphore::const_new(2);

/// Steps of one check: a tenth of a second on a slow machine.
pub(super) const STEPS: u64 = 10_000_000;

const TOO_LONG: &str = "checking the arguments against the tool's schema takes too long; shorter or simpler values may pass";
const FAILED: &str = "the arguments could not be checked against the tool's schema";

/// [`ToolSet::prepare`], off the threads of the runs.
pub(super) async fn prepare(
    set: &Arc<ToolSet>,
    name: &str,
    arguments_json: &str,
) -> Result<Prepared, String> {
    // Never closed; without a slot the check would not be bounded in number.
    let Ok(slot) = SLOTS.acquire().await else {
        return Err(explain::unusable(name, FAILED, arguments_json));
    };
    let cancel = CancellationToken::new();
    let _unwanted = cancel.clone().drop_guard();
    let (set, tool, text) = (Arc::clone(set), name.to_owned(), arguments_json.to_owned());
    let checked = tokio::task::spawn_blocking(move || {
        let checked = set.check(&tool, &text, STEPS, Some(&cancel));
        drop(slot);
        checked
    });
    match checked.await {
        Ok(Ok(done)) => done,
        Ok(Err(Stopped::Spent | Stopped::Cancelled)) => {
            Err(explain::unusable(name, TOO_LONG, arguments_json))
        }
        Ok(Err(Stopped::Panicked)) | Err(_) => Err(explain::unusable(name, FAILED, arguments_json)),
    }
}
