//! The limit of the work of checking one value, counted in steps and not in time: the same value has the same outcome on
//! every machine, however busy it is.
//!
//! It must never let a check continue that has used up its steps, or whose run has ended.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tokio_util::sync::CancellationToken;

/// Steps between two checks of the token.
const SLICE: u64 = 1 << 16;

/// Why a check has no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stopped {
    /// Its steps are used up.
    Spent,
    /// It was cancelled.
    Cancelled,
    /// The validator panicked.
    Panicked,
}

struct Meter {
    /// Steps until the next check of the token.
    slice: Cell<u64>,
    /// Steps after that.
    left: Cell<u64>,
    cancel: RefCell<Option<CancellationToken>>,
}

thread_local! {
    static METER: Meter =
        const { Meter { slice: Cell::new(0), left: Cell::new(0), cancel: RefCell::new(None) } };
}

/// Does `work` within `steps`. The validator cannot be stopped otherwise, so a stop unwinds through it, without the panic
/// hook.
///
/// # Errors
/// See [`Stopped`].
pub(super) fn metered<T>(
    steps: u64,
    cancel: Option<&CancellationToken>,
    work: impl FnOnce() -> T,
) -> Result<T, Stopped> {
    METER.with(|meter| {
        meter.slice.set(0);
        meter.left.set(steps);
        meter.cancel.replace(cancel.cloned());
    });
    let done = catch_unwind(AssertUnwindSafe(work));
    METER.with(|meter| drop(meter.cancel.take()));
    done.map_err(|payload| payload.downcast_ref::<Stopped>().copied().unwrap_or(Stopped::Panicked))
}

/// Counts steps before they are done.
pub(super) fn charge(steps: u64) {
    METER.with(|meter| match meter.slice.get().checked_sub(steps) {
        Some(slice) => meter.slice.set(slice),
        None => refill(meter, steps),
    });
}

/// The remaining steps.
pub(super) fn left() -> u64 {
    METER.with(|meter| meter.slice.get().saturating_add(meter.left.get()))
}

/// Ends the check as one that has used up its steps.
pub(super) fn spend() -> ! {
    resume_unwind(Box::new(Stopped::Spent))
}

#[cold]
fn refill(meter: &Meter, steps: u64) {
    if meter.cancel.borrow().as_ref().is_some_and(CancellationToken::is_cancelled) {
        resume_unwind(Box::new(Stopped::Cancelled));
    }
    let all = meter.slice.get().saturating_add(meter.left.get());
    let Some(rest) = all.checked_sub(steps) else { spend() };
    let slice = rest.min(SLICE);
    meter.slice.set(slice);
    meter.left.set(rest - slice);
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::{SLICE, Stopped, charge, left, metered};

    #[test]
    fn a_check_without_steps_or_cancelled_is_stopped_and_leaves_no_state() {
        assert_eq!(metered(10, None, || charge(10)), Ok(()));
        assert_eq!(metered(10, None, || charge(11)), Err(Stopped::Spent));
        assert_eq!(metered(SLICE * 3, None, || (0..SLICE * 3).for_each(|_| charge(1))), Ok(()));
        assert_eq!(
            metered(SLICE * 3, None, || (0..=SLICE * 3).for_each(|_| charge(1))),
            Err(Stopped::Spent)
        );
        let cancel = CancellationToken::new();
        let stopped = metered(u64::MAX, Some(&cancel), || {
            cancel.cancel();
            loop {
                charge(1);
            }
        });
        assert_eq!(stopped.map(|(): ()| ()), Err(Stopped::Cancelled));
        assert_eq!(metered(5, None, left), Ok(5));
    }
}
