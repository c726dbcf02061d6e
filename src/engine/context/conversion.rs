//! Long conversions of histories, on blocking threads: on the engine's one thread, the projection and encoding of a long
//! history would delay the deltas of all other runs.
//!
//! It must never move a short one: a switch to another thread costs more.

use std::panic::resume_unwind;

use model::{Block, Message};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// The bytes of messages from which a conversion is long: about a millisecond.
pub(crate) const LONG: usize = 128 << 10;
/// Bytes that a message counts in addition to its texts.
const MESSAGE_BYTES: usize = 320;

/// The long conversions of the whole process that run at once: they compute all the time.
static SLOTS: Semaphore = Semaphore::const_new(2);

/// Converts messages of `bytes` bytes: on this thread, or on a blocking thread if that takes long. A panic of `work` is
/// passed on to this task. If the future is dropped, the work still runs to its end.
pub(crate) async fn convert<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    if bytes < LONG { work() } else { Box::pin(on_another_thread(work)).await }
}

async fn on_another_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    // The semaphore is never closed, so this cannot fail.
    let slot = SLOTS.acquire().await;
    let done = spawn_blocking(move || {
        let converted = work();
        drop(slot);
        converted
    });
    match done.await.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(converted) => converted,
        Err(Ok(panic)) => resume_unwind(panic),
        // The runtime is shutting down, and this task with it.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// The approximate bytes of messages.
pub(crate) fn message_bytes<'a>(messages: impl IntoIterator<Item = &'a Message>) -> usize {
    messages.into_iter().map(|message| MESSAGE_BYTES + block_bytes(&message.blocks)).sum()
}

fn block_bytes(blocks: &[Block]) -> usize {
    let bytes = |block: &Block| match block {
        Block::Text { text, .. } => text.len(),
        Block::Image { data, .. } | Block::RedactedThinking { data, .. } => data.len(),
        Block::Thinking { thinking, signature, .. } => {
            thinking.len() + signature.as_ref().map_or(0, String::len)
        }
        Block::ToolCall { arguments_json, .. } => arguments_json.len(),
        Block::ToolResult { content, .. } => block_bytes(content),
        Block::Opaque { raw_json } => raw_json.len(),
    };
    blocks.iter().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;
    use std::thread;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn only_a_long_conversion_leaves_the_thread_of_the_runs() {
        let here = thread::current().id();
        assert_eq!(convert(LONG - 1, || thread::current().id()).await, here);
        assert_ne!(convert(LONG, || thread::current().id()).await, here);
    }

    #[tokio::test]
    async fn a_conversion_that_panics_ends_its_own_task_and_gives_its_slot_back() {
        for bytes in [0, LONG, LONG, LONG] {
            let broken = convert(bytes, || -> u8 { panic!("broken") });
            let panicked = AssertUnwindSafe(broken).catch_unwind().await.unwrap_err();
            assert_eq!(panicked.downcast_ref(), Some(&"broken"));
        }
        assert_eq!(convert(LONG, || 7).await, 7);
    }
}
