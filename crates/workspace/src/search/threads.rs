//! The threads of searches: each search has that of its call, and helpers while the process has some to spare. All searches share their
//! number. What is found is passed on in the order of the walk: it must never depend on which thread was first.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Builder, available_parallelism};

use super::batch::{Batch, Finder, Searched};
use crate::error::ToolError;

/// The most threads that search at once beside those of the calls, plus one.
const MAX_THREADS: usize = 8;
/// So many batches are searched without helpers, each before the next one is made: most searches end there.
const ALONE: usize = 4;

static HELPERS: AtomicUsize = AtomicUsize::new(0);

/// The most helpers: with the thread of a call as many as there are cores, and one at least.
fn most_helpers() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    let cores = || available_parallelism().map_or(1, usize::from).clamp(2, MAX_THREADS) - 1;
    *MOST.get_or_init(cores)
}

/// The right to one thread.
struct Permit;

impl Permit {
    fn take() -> Option<Self> {
        let more = |helpers| (helpers < most_helpers()).then_some(helpers + 1);
        HELPERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok().map(|_| Self)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        HELPERS.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(usize, Batch)>,
    searched: Vec<(usize, Searched)>,
    is_over: bool,
}

/// Ends the helpers of a search, however it ends.
struct Over<'q>(&'q Queue, &'q AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.1.store(true, Ordering::Relaxed);
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

/// A batch under way: it has an outcome even if its thread panics, so that nobody waits for it.
struct UnderWay<'q> {
    queue: &'q Queue,
    number: usize,
    searched: Searched,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let searched = std::mem::take(&mut self.searched);
        self.queue.lock().searched.push((self.number, searched));
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'q>(&'q self, state: MutexGuard<'q, State>) -> MutexGuard<'q, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, number: usize, batch: Batch) {
        self.lock().waiting.push_back((number, batch));
        self.changed.notify_all();
    }

    fn search(&self, finder: &mut Finder<'_>, number: usize, batch: Batch) {
        let mut under_way = UnderWay { queue: self, number, searched: Searched::default() };
        under_way.searched = finder.batch(batch);
    }

    /// What was found in batch `number`. Whoever waits searches.
    fn take(&self, number: usize, finder: &mut Finder<'_>) -> Searched {
        let mut state = self.lock();
        loop {
            if let Some(at) = state.searched.iter().position(|(other, _)| *other == number) {
                return state.searched.swap_remove(at).1;
            }
            state = if let Some((next, batch)) = state.waiting.pop_front() {
                drop(state);
                self.search(finder, next, batch);
                self.lock()
            } else {
                self.wait(state)
            };
        }
    }

    fn help(&self, finder: &mut Finder<'_>) {
        let mut state = self.lock();
        while !state.is_over {
            state = if let Some((next, batch)) = state.waiting.pop_front() {
                drop(state);
                self.search(finder, next, batch);
                self.lock()
            } else {
                self.wait(state)
            };
        }
    }
}

/// Searches the batches that `next` makes, and passes what is found to `take` in their order, until it returns false. `stop` is set at
/// the end: finders look at it.
///
/// # Errors
/// That of `next`.
pub(super) fn in_order<'c>(
    mut next: impl FnMut() -> Result<Option<Batch>, ToolError>,
    finder: &(dyn Fn() -> Finder<'c> + Sync),
    stop: &AtomicBool,
    mut take: impl FnMut(Searched) -> bool,
) -> Result<(), ToolError> {
    let queue = &Queue::default();
    std::thread::scope(|scope| {
        let _over = Over(queue, stop);
        let mut own = finder();
        let (mut made, mut taken, mut is_ended) = (0, 0, false);
        loop {
            let ahead = if made < ALONE { 1 } else { most_helpers() + 2 };
            while !is_ended && made - taken < ahead {
                let Some(batch) = next()? else {
                    is_ended = true;
                    break;
                };
                queue.push(made, batch);
                made += 1;
                if made > ALONE
                    && let Some(permit) = Permit::take()
                {
                    let help = move || {
                        let _permit = permit;
                        queue.help(&mut finder());
                    };
                    // Without a thread more, the call searches alone.
                    drop(Builder::new().name("agent-search".to_owned()).spawn_scoped(scope, help));
                }
            }
            if made == taken {
                return Ok(());
            }
            let searched = queue.take(taken, &mut own);
            taken += 1;
            if !take(searched) {
                return Ok(());
            }
        }
    })
}
