//! Sequential calls use one connection, also when the last bytes of an answer are late.

use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;

use super::server::{Server, WHOLE, chat, chunked, completion, read_request, stream_text};

#[tokio::test]
async fn sequential_calls_share_a_connection() {
    let server = Server::start(|mut socket| async move {
        while !read_request(&mut socket).await.is_empty() {
            let bytes = format!("{}0\r\n\r\n", chunked(WHOLE));
            socket.write_all(bytes.as_bytes()).await.unwrap();
        }
    })
    .await;
    let provider = chat(&server, "");
    for _ in 0..5 {
        assert_eq!(stream_text(&provider).await, (Ok(completion()), "hello".to_owned()));
        settle().await;
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_late_end_of_an_answer_neither_delays_the_result_nor_closes_the_connection() {
    let (answered, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (wait, notifier) = (Arc::clone(&answered), Arc::clone(&ended));
    let server = Server::start(move |mut socket| {
        let (wait, notifier) = (Arc::clone(&wait), Arc::clone(&notifier));
        async move {
            while !read_request(&mut socket).await.is_empty() {
                socket.write_all(chunked(WHOLE).as_bytes()).await.unwrap();
                wait.notified().await;
                socket.write_all(b"0\r\n\r\n").await.unwrap();
                notifier.notify_one();
            }
        }
    })
    .await;
    let provider = chat(&server, "");
    for _ in 0..3 {
        // The result was returned before the answer has ended.
        assert_eq!(stream_text(&provider).await, (Ok(completion()), "hello".to_owned()));
        answered.notify_one();
        ended.notified().await;
        settle().await;
    }
    assert_eq!(server.connections(), 1);
}

/// Lets the connection's task read the bytes in the socket; it gives no signal when it has.
async fn settle() {
    for _ in 0..256 {
        tokio::task::yield_now().await;
    }
}
