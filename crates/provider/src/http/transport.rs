//! One exchange: sends the request and reads the pieces of the answer, each wait with its limit.
//!
//! One timer per attempt: it is set again only when it fires or must fire earlier, never per piece. It must never interpret
//! the bytes.

use std::future::Future as _;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::{Client, Request, Response};
use tokio::time::{Instant, Sleep, sleep_until};

use super::errors::{body_failure, request_failure, timeout};
use super::limits::Timeouts;
use super::sniff::{Beginning, beginning};
use crate::{Failure, Framing};
use base::clock::Clock;

/// A deadline that moves.
struct Watch {
    sleep: Pin<Box<Sleep>>,
}

impl Watch {
    fn poll_passed(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if deadline < self.sleep.deadline() {
            self.sleep.as_mut().reset(deadline);
        }
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            if self.sleep.deadline() >= deadline {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(deadline);
        }
    }
}

/// The answer, once its headers were received.
pub(super) struct Exchange<'a> {
    pub(super) response: Response,
    watch: Watch,
    clock: &'a Clock,
    origin: &'a str,
    timeouts: Timeouts,
    last_piece: Instant,
    last_delta: Instant,
    /// Bytes that were read to detect the kind; they are read again first.
    unread: Option<Bytes>,
}

/// Sends the request and waits for the headers.
pub(super) async fn send<'a>(
    client: &Client,
    request: Request,
    origin: &'a str,
    timeouts: Timeouts,
    clock: &'a Clock,
) -> Result<Exchange<'a>, Failure> {
    let deadline = clock.instant() + timeouts.headers;
    let mut watch = Watch { sleep: Box::pin(sleep_until(deadline)) };
    let mut pending = pin!(client.execute(request));
    let response = std::future::poll_fn(|cx| {
        if let Poll::Ready(outcome) = pending.as_mut().poll(cx) {
            return Poll::Ready(outcome.map_err(|error| request_failure(error, origin)));
        }
        ready!(watch.poll_passed(deadline, cx));
        let limit = timeouts.headers.as_millis();
        let message = format!("`{origin}` did not begin to answer within `{limit}` ms");
        Poll::Ready(Err(timeout("header_timeout", message)))
    })
    .await?;
    let now = clock.instant();
    let (last_piece, last_delta, unread) = (now, now, None);
    Ok(Exchange { response, watch, clock, origin, timeouts, last_piece, last_delta, unread })
}

impl Exchange<'_> {
    /// The next piece of the body; `None` at its end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        if let Some(unread) = self.unread.take() {
            return Ok(Some(unread));
        }
        let idle = self.last_piece + self.timeouts.idle;
        let no_progress = self.last_delta + self.timeouts.no_progress;
        let deadline = idle.min(no_progress);
        let piece = std::future::poll_fn(|cx| {
            // A new `chunk()` at each poll is correct: it has no state between polls.
            if let Poll::Ready(outcome) = pin!(self.response.chunk()).poll(cx) {
                return Poll::Ready(outcome.map_err(|error| body_failure(error, self.origin)));
            }
            ready!(self.watch.poll_passed(deadline, cx));
            Poll::Ready(Err(self.stalled(idle <= no_progress)))
        })
        .await?;
        self.last_piece = self.clock.instant();
        Ok(piece)
    }

    /// Frees the headers. They are slices of the connection's first read buffer, which could otherwise not be used for the
    /// body: 8 KiB more for as long as a stream lasts.
    pub(super) fn drop_headers(&mut self) {
        std::mem::take(self.response.headers_mut());
    }

    /// Reads until the kind of the answer is known, or it ends; the bytes are read again later.
    pub(super) async fn sniff(&mut self, framing: Framing) -> Result<Beginning, Failure> {
        let mut head = BytesMut::new();
        loop {
            let Some(piece) = self.next().await? else {
                self.unread = Some(head.freeze());
                return Ok(Beginning::Other);
            };
            head.extend_from_slice(&piece);
            match beginning(&head, framing) {
                Beginning::Unknown => {}
                known => {
                    self.unread = Some(head.freeze());
                    return Ok(known);
                }
            }
        }
    }

    /// Records whether the last piece had a delta.
    ///
    /// # Errors
    /// `no_progress` after only pings for too long.
    pub(super) fn progressed(&mut self, delta: bool) -> Result<(), Failure> {
        if delta {
            self.last_delta = self.last_piece;
        } else if self.last_piece >= self.last_delta + self.timeouts.no_progress {
            return Err(self.stalled(false));
        }
        Ok(())
    }

    /// Excludes the time in which the reader made the transport wait.
    pub(super) fn resumed(&mut self) {
        let now = self.clock.instant();
        self.last_piece = now;
        self.last_delta = now;
    }

    /// Reads up to `cap` bytes of the body within `limit`; it is partial if either was not enough.
    pub(super) async fn collect(
        &mut self,
        cap: usize,
        limit: Option<Duration>,
    ) -> Result<Collected, Failure> {
        let mut body = Vec::new();
        let deadline = limit.map(|limit| self.clock.instant() + limit);
        loop {
            let next = match deadline {
                None => self.next().await,
                Some(deadline) => match tokio::time::timeout_at(deadline, self.next()).await {
                    Ok(next) => next,
                    Err(_) => return Ok(Collected { body, whole: false }),
                },
            };
            let Some(piece) = next? else { return Ok(Collected { body, whole: true }) };
            let remaining = cap.saturating_sub(body.len());
            body.extend_from_slice(piece.get(..remaining).unwrap_or(&piece));
            if piece.len() > remaining {
                return Ok(Collected { body, whole: false });
            }
        }
    }

    fn stalled(&self, idle: bool) -> Failure {
        let origin = self.origin;
        if idle {
            let limit = self.timeouts.idle.as_millis();
            timeout("idle_timeout", format!("`{origin}` sent nothing for `{limit}` ms"))
        } else {
            let limit = self.timeouts.no_progress.as_millis();
            timeout("no_progress", format!("`{origin}` sent no part of an answer for `{limit}` ms"))
        }
    }
}

/// A body, whole or partial.
pub(super) struct Collected {
    pub(super) body: Vec<u8>,
    pub(super) whole: bool,
}

/// Answers with a received terminal event, but without their last byte.
///
/// The connection can be used again only after that byte, which often arrives a packet later. A wait would delay the
/// result; closing the connection would cost the next call a handshake, or count as a reset stream in HTTP/2. So the answer
/// is stored until the next call.
#[derive(Default)]
pub(super) struct Remainders {
    held: Mutex<Vec<(Response, Instant)>>,
}

impl Remainders {
    const MOST: usize = 256;
    const HELD_FOR: Duration = Duration::from_secs(10);

    /// Stores an answer whose rest is not needed.
    pub(super) fn finish(&self, exchange: Exchange<'_>) {
        let Exchange { mut response, clock, .. } = exchange;
        if ended(&mut response) {
            return;
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() < Self::MOST {
            held.push((response, clock.instant()));
        }
    }

    /// Drops the answers: a connection is reused if its answer has ended, and closed otherwise.
    pub(super) fn sweep(&self, now: Instant) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain_mut(|(response, since)| now < *since + Self::HELD_FOR && !ended(response));
    }
}

/// Whether the body has ended, after reading the bytes already received, at most a few pieces.
fn ended(response: &mut Response) -> bool {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    for _ in 0..8 {
        match pin!(response.chunk()).poll(&mut cx) {
            Poll::Ready(Ok(Some(_))) => {}
            Poll::Ready(Ok(None) | Err(_)) => return true,
            Poll::Pending => return false,
        }
    }
    // The server is still sending: close the connection.
    true
}
