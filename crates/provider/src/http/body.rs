//! The request's body: pieces sent one after the other, with an exact length. It must never copy a piece.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// The pieces that are still to be sent.
struct Pieces {
    left: VecDeque<Bytes>,
    bytes: u64,
}

/// Makes a body of the pieces; a single piece needs no queue.
pub(super) fn request_body(mut pieces: Vec<Bytes>) -> reqwest::Body {
    pieces.retain(|piece| !piece.is_empty());
    if pieces.len() <= 1 {
        return pieces.pop().unwrap_or_default().into();
    }
    let bytes = pieces.iter().map(|piece| u64::try_from(piece.len()).unwrap_or(u64::MAX)).sum();
    reqwest::Body::wrap(Pieces { left: pieces.into(), bytes })
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.left.pop_front().map(|piece| {
            self.bytes = self.bytes.saturating_sub(u64::try_from(piece.len()).unwrap_or(u64::MAX));
            Ok(Frame::data(piece))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes)
    }
}
