//! Network faults: each has its kind and code, delivers the partial text, and ends in bounded time and memory.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::server::{
    Captured, KEY, STREAM, Server, WHOLE, chat, chunked, completion, credential, fails, provider,
    read_request, request, stream_text, unbounded,
};
use crate::{Api, Provider as _};
use model::FailureKind::{self, Network, ServerError};

fn failed_with(
    kind: FailureKind,
    code: &str,
    text: &str,
) -> (FailureKind, String, Option<u16>, Option<bool>, String) {
    (kind, code.to_owned(), None, None, text.to_owned())
}

fn reported_for_good(
    kind: FailureKind,
    code: &str,
    status: Option<u16>,
) -> (FailureKind, String, Option<u16>, Option<bool>, String) {
    (kind, code.to_owned(), status, Some(false), String::new())
}

#[tokio::test]
async fn a_whole_stream_completes_and_every_wait_for_the_reader_is_respected() {
    let server = Server::answering(unbounded(WHOLE)).await;
    let mut sink = Captured::default();
    let provider = chat(&server, "");
    let outcome = provider.stream(&request(), Some(&credential()), &mut sink).await;
    let text = sink.text.lock().unwrap().clone();
    assert_eq!((outcome, text.as_str()), (Ok(completion()), "hello"));
}

#[tokio::test]
async fn the_transport_waits_for_the_reader_before_it_reads_on() {
    let server = Server::start(|mut socket| async move {
        read_request(&mut socket).await;
        let _ = socket.write_all(unbounded("event: text\ndata: a\n\n").as_bytes()).await;
        let _ = socket.write_all(b"event: last\ndata: stop\n\n").await;
    })
    .await;
    let mut sink = Captured::default();
    let provider = chat(&server, "");
    let outcome = provider.stream(&request(), None, &mut sink).await;
    assert_eq!((outcome, sink.waits), (Ok(completion()), 1));
}

#[tokio::test]
async fn a_closed_port_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(
        fails(&provider(&base, Api::OpenaiChat, "")).await,
        failed_with(Network, "connect", "")
    );
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_a_dns_failure() {
    let provider = provider("https://nonexistent.invalid", Api::OpenaiChat, "");
    assert_eq!(fails(&provider).await, failed_with(Network, "dns", ""));
}

#[tokio::test]
async fn missing_headers_end_at_the_header_limit() {
    let server =
        Server::start(
            |mut socket| async move { while !read_request(&mut socket).await.is_empty() {} },
        )
        .await;
    let provider = chat(&server, r#","headerTimeoutMs":80"#);
    assert_eq!(fails(&provider).await, failed_with(FailureKind::Timeout, "header_timeout", ""));
}

#[tokio::test]
async fn a_stall_in_mid_stream_ends_at_the_idle_limit_with_the_partial_text() {
    let server = Server::start(|mut socket| async move {
        read_request(&mut socket).await;
        let _ = socket.write_all(unbounded("event: text\ndata: hel\n\n").as_bytes()).await;
        read_request(&mut socket).await;
    })
    .await;
    let provider = chat(&server, r#","idleTimeoutMs":80"#);
    assert_eq!(fails(&provider).await, failed_with(FailureKind::Timeout, "idle_timeout", "hel"));
}

#[tokio::test]
async fn endless_pings_end_at_the_progress_limit() {
    let server = Server::start(|mut socket| async move {
        read_request(&mut socket).await;
        let _ = socket.write_all(unbounded("event: text\ndata: hel\n\n").as_bytes()).await;
        let mut ticks = tokio::time::interval(Duration::from_millis(5));
        while socket.write_all(b"event: ping\ndata: {}\n\n").await.is_ok() {
            ticks.tick().await;
        }
    })
    .await;
    let provider = chat(&server, r#","noProgressTimeoutMs":150,"idleTimeoutMs":60000"#);
    assert_eq!(fails(&provider).await, failed_with(FailureKind::Timeout, "no_progress", "hel"));
}

#[tokio::test]
async fn a_reset_before_the_headers_is_a_network_failure() {
    let server = Server::start(|mut socket| async move {
        read_request(&mut socket).await;
        socket.set_zero_linger().unwrap();
    })
    .await;
    assert_eq!(fails(&chat(&server, "")).await, failed_with(Network, "reset", ""));
}

#[tokio::test]
async fn a_reset_in_the_middle_of_an_event_is_a_network_failure() {
    let seen = Arc::new(Notify::new());
    let reset = Arc::clone(&seen);
    let server = Server::start(move |mut socket| {
        let reset = Arc::clone(&reset);
        async move {
            read_request(&mut socket).await;
            let part = unbounded("event: text\ndata: hel\n\nevent: te");
            socket.write_all(part.as_bytes()).await.unwrap();
            reset.notified().await;
            socket.set_zero_linger().unwrap();
        }
    })
    .await;
    let provider = chat(&server, "");
    let mut sink = Captured::default();
    let text = Arc::clone(&sink.text);
    let (request, credential) = (request(), credential());
    let watch = async {
        while text.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        seen.notify_one();
    };
    let requested = provider.stream(&request, Some(&credential), &mut sink);
    let (outcome, ()) = tokio::join!(requested, watch);
    let failure = outcome.unwrap_err();
    assert_eq!((failure.kind, failure.code.as_deref()), (Network, Some("reset")));
}

#[tokio::test]
async fn a_clean_end_before_the_terminal_event_is_not_success() {
    let server = Server::answering(unbounded("event: text\ndata: hel\n\nevent: te")).await;
    assert_eq!(fails(&chat(&server, "")).await, failed_with(Network, "stream_truncated", "hel"));
}

#[tokio::test]
async fn a_cut_between_chunks_or_in_one_is_a_truncated_stream() {
    let event = "event: text\ndata: hel\n\n";
    let in_a_chunk = format!("{STREAM}transfer-encoding: chunked\r\n\r\nff\r\n{event}");
    let in_a_length = format!("{STREAM}content-length: 999\r\n\r\n{event}");
    for bytes in [chunked(event), in_a_chunk, in_a_length] {
        let server = Server::answering(bytes).await;
        assert_eq!(
            fails(&chat(&server, "")).await,
            failed_with(Network, "stream_truncated", "hel")
        );
    }
}

#[tokio::test]
async fn a_cut_after_the_terminal_event_is_success() {
    let server =
        Server::answering(chunked("event: text\ndata: hi\n\nevent: last\ndata: x\n\n")).await;
    assert_eq!(stream_text(&chat(&server, "")).await, (Ok(completion()), "hi".to_owned()));
}

#[tokio::test]
async fn a_page_or_nothing_instead_of_a_stream_is_an_error() {
    let page = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>";
    let empty = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let binary = "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\nconnection: close\r\n\r\n\0\u{1}";
    for bytes in [page, empty, binary] {
        let server = Server::answering(bytes).await;
        let (outcome, text) = stream_text(&chat(&server, "")).await;
        let failure = outcome.unwrap_err();
        assert_eq!(
            (failure.kind, failure.status, text.as_str()),
            (ServerError, Some(200), ""),
            "{failure:?}"
        );
    }
}

#[tokio::test]
async fn a_json_answer_is_read_whole() {
    let bytes = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    let server = Server::answering(bytes).await;
    assert_eq!(stream_text(&chat(&server, "")).await, (Ok(completion()), "{}".to_owned()));
}

#[tokio::test]
async fn a_json_answer_over_16_mib_is_refused() {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n".to_vec();
    bytes.resize(bytes.len() + 17 * 1024 * 1024, b' ');
    let server = Server::answering(bytes).await;
    let expected = reported_for_good(ServerError, "response_too_large", None);
    assert_eq!(fails(&chat(&server, "")).await, expected);
}

#[tokio::test]
async fn a_content_encoding_is_refused_at_the_headers() {
    let server =
        Server::answering(format!("{STREAM}content-encoding: gzip\r\n\r\n\u{1f}\u{8b}")).await;
    let expected = reported_for_good(ServerError, "content_encoding", Some(200));
    assert_eq!(fails(&chat(&server, "")).await, expected);
    let plain = format!("{STREAM}content-encoding: identity\r\nconnection: close\r\n\r\n{WHOLE}");
    let server = Server::answering(plain).await;
    assert_eq!(stream_text(&chat(&server, "")).await, (Ok(completion()), "hello".to_owned()));
}

#[tokio::test]
async fn a_redirect_is_refused_and_its_target_gets_nothing() {
    let thief = Server::answering("").await;
    let moved =
        format!("HTTP/1.1 307 Moved\r\nlocation: {}/x\r\ncontent-length: 0\r\n\r\n", thief.url());
    let server = Server::answering(moved).await;
    let expected = reported_for_good(FailureKind::Format, "redirect_refused", Some(307));
    assert_eq!(fails(&chat(&server, "")).await, expected);
    assert_eq!((server.connections(), thief.connections()), (1, 0));
}

#[tokio::test]
async fn headers_over_the_limits_are_refused() {
    let long = format!("{STREAM}x-long: {}\r\n\r\n", "x".repeat(1024 * 1024));
    let many = format!("{STREAM}{}\r\n", "x-one: 1\r\n".repeat(101));
    let noise = "\u{1}\u{2}\u{3} not http\r\n\r\n".to_owned();
    for bytes in [long, many, noise] {
        let server = Server::answering(bytes).await;
        let expected = reported_for_good(ServerError, "bad_response", None);
        assert_eq!(fails(&chat(&server, "")).await, expected);
    }
}

#[tokio::test]
async fn one_endless_event_is_cut_at_16_mib_and_the_socket_closed() {
    let server = Server::start(|mut socket| async move {
        read_request(&mut socket).await;
        let _ = socket.write_all(unbounded("event: text\ndata: ").as_bytes()).await;
        let piece = vec![b'x'; 1024 * 1024];
        while socket.write_all(&piece).await.is_ok() {}
    })
    .await;
    let (outcome, text) = stream_text(&chat(&server, "")).await;
    let failure = outcome.unwrap_err();
    assert_eq!((failure.code.as_deref(), text.as_str()), (Some("event_too_large"), ""));
}

#[tokio::test]
async fn an_endless_stream_is_cut_at_the_total_cap() {
    let server = Server::start(|mut socket| async move {
        read_request(&mut socket).await;
        let _ = socket.write_all(unbounded("").as_bytes()).await;
        let event = format!("event: ping\ndata: {}\n\n", "x".repeat(1024 * 1024));
        while socket.write_all(event.as_bytes()).await.is_ok() {}
    })
    .await;
    let (outcome, _) = stream_text(&chat(&server, "")).await;
    assert_eq!(outcome.unwrap_err().code.as_deref(), Some("stream_too_large"));
}

#[tokio::test]
async fn an_error_has_its_status_and_not_the_key_it_quotes() {
    let body = format!("no such key: {KEY}");
    let bytes = format!("HTTP/1.1 401 No\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let server = Server::answering(bytes).await;
    let (kind, _, status, _, text) = fails(&chat(&server, "")).await;
    assert_eq!((kind, status, text.as_str()), (FailureKind::Auth, Some(401), ""));
}

#[tokio::test]
async fn an_error_whose_body_never_ends_is_classified_by_its_status() {
    let sent = Arc::new(Notify::new());
    let notifier = Arc::clone(&sent);
    let server = Server::start(move |mut socket| {
        let notifier = Arc::clone(&notifier);
        async move {
            read_request(&mut socket).await;
            let part = "HTTP/1.1 503 Busy\r\ncontent-length: 999\r\n\r\nbus";
            socket.write_all(part.as_bytes()).await.unwrap();
            notifier.notify_one();
            read_request(&mut socket).await;
        }
    })
    .await;
    let provider = chat(&server, r#","headerTimeoutMs":86400000,"connectTimeoutMs":86400000"#);
    let later = async {
        sent.notified().await;
        // From here on the clock moves to the next timer whenever no task has work.
        tokio::time::pause();
    };
    let ((outcome, _), ()) = tokio::join!(stream_text(&provider), later);
    assert_eq!(outcome.unwrap_err().status, Some(503));
}

#[tokio::test]
async fn dropping_the_attempt_closes_the_socket() {
    for head in ["", &unbounded("event: text\ndata: hel\n\n")] {
        let head = head.to_owned();
        let (requested, closed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (notify_requested, notify_closed) = (Arc::clone(&requested), Arc::clone(&closed));
        let server = Server::start(move |mut socket| {
            let (head, requested, closed) =
                (head.clone(), Arc::clone(&notify_requested), Arc::clone(&notify_closed));
            async move {
                read_request(&mut socket).await;
                socket.write_all(head.as_bytes()).await.unwrap();
                requested.notify_one();
                let end = socket.read(&mut [0; 64]).await;
                assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
                closed.notify_one();
            }
        })
        .await;
        let provider = chat(&server, "");
        tokio::select! {
            _ = stream_text(&provider) => panic!("the server never ends its answer"),
            () = requested.notified() => {}
        }
        closed.notified().await;
    }
}
