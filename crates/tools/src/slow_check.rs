//! Slow checks, on separate threads. Their number is small, so that cores and threads remain for the runs.
//!
//! It must never run more checks in parallel than there are slots, nor continue one whose result is not needed.

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::meter::Stopped;

/// The slots of the whole process. Acquired in the order of the calls; a run has one check at a time.
static SLOTS: Semaphore = Semaphore::const_new(2);

/// Runs `check` outside the threads of the runs, once a slot is free. Dropping the future cancels the check.
///
/// # Errors
/// The check's own, or [`Stopped::Panicked`].
pub(super) async fn run<T, E>(
    check: impl FnOnce(&CancellationToken) -> Result<T, E> + Send + 'static,
) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Stopped> + Send + 'static,
{
    // Never closed; without a slot the check would not be bounded in number.
    let Ok(slot) = SLOTS.acquire().await else { return Err(Stopped::Panicked.into()) };
    let cancel = CancellationToken::new();
    let _unwanted = cancel.clone().drop_guard();
    let checked = tokio::task::spawn_blocking(move || {
        let checked = check(&cancel);
        drop(slot);
        checked
    });
    checked.await.unwrap_or_else(|_| Err(Stopped::Panicked.into()))
}
