//! What a server asks of its client: an input of the user (elicitation), an answer of a model (sampling). The host's functions answer;
//! without one it is declined.
//!
//! It must never keep a connection open because of an answer, or answer a server that asks for more than a few things at once.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, watch};

use super::frame::{Params, answer};

/// What a server may ask at once; more is declined.
const MAX_OPEN: usize = 8;
/// The longest time of an answer: a person may be asked.
const MAX_TIME: Duration = Duration::from_secs(600);
/// The longest parameters of a question.
const MAX_BYTES: usize = 4 << 20;
const ELICITATION: &str = "elicitation/create";
const SAMPLING: &str = "sampling/createMessage";
/// The code of JSON-RPC for a request that was rejected.
const REJECTED: i64 = -1;

/// An answer of the host under way.
pub type ClientAnswer = Pin<Box<dyn Future<Output = Result<Box<RawValue>, String>> + Send>>;

/// The functions of the host that answer servers.
pub trait ClientHost: Send + Sync {
    /// Calls function `number` with a request: its JSON.
    fn answer(&self, number: u32, request: String) -> ClientAnswer;
}

/// The numbers of a server's functions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClientFunctions {
    pub(crate) elicitation: Option<u32>,
    pub(crate) sampling: Option<u32>,
}

/// Answers the requests of a server, on one connection.
#[derive(Clone)]
pub(crate) struct Answerer {
    server: Arc<str>,
    functions: ClientFunctions,
    host: Option<Arc<dyn ClientHost>>,
    open: Arc<Semaphore>,
    /// Its sender is dropped with the connection.
    closing: watch::Receiver<bool>,
}

/// What a function receives.
#[derive(Serialize)]
struct Request<'a> {
    server: &'a str,
    method: &'a str,
    params: &'a RawValue,
}

/// A result that asks for more.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired<'a> {
    result_type: String,
    #[serde(borrow, default)]
    input_requests: BTreeMap<String, Question<'a>>,
    #[serde(borrow, default)]
    request_state: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Question<'a> {
    method: String,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

impl Answerer {
    pub(crate) fn new(
        server: &str,
        functions: ClientFunctions,
        host: Option<Arc<dyn ClientHost>>,
        closing: watch::Receiver<bool>,
    ) -> Self {
        let open = Arc::new(Semaphore::new(MAX_OPEN));
        Self { server: server.into(), functions, host, open, closing }
    }

    /// What it offers, as the protocol names it.
    pub(crate) fn capabilities(&self) -> Value {
        let mut capabilities = serde_json::Map::new();
        if self.functions.elicitation.is_some() {
            capabilities.insert("elicitation".to_owned(), json!({}));
        }
        if self.functions.sampling.is_some() {
            capabilities.insert("sampling".to_owned(), json!({}));
        }
        capabilities.into()
    }

    /// The number of the function that answers a method.
    fn function(&self, method: &str) -> Option<u32> {
        match method {
            ELICITATION => self.functions.elicitation,
            SAMPLING => self.functions.sampling,
            _ => None,
        }
    }

    /// Whether the host has any function.
    pub(crate) fn serves_any(&self) -> bool {
        self.functions.elicitation.is_some() || self.functions.sampling.is_some()
    }

    /// Waits for the end of the connection.
    pub(crate) fn closed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut closing = self.closing.clone();
        async move {
            let _closed = closing.wait_for(|closing| *closing).await;
        }
    }

    /// Whether a function of the host answers a method.
    pub(crate) fn serves(&self, method: &str) -> bool {
        self.function(method).is_some()
    }

    /// The whole message that answers request `id` of a server.
    pub(crate) async fn message(
        self,
        id: Box<RawValue>,
        method: String,
        params: Option<Box<RawValue>>,
    ) -> Vec<u8> {
        let result = self.result(&method, params.as_deref()).await;
        answer(&id, result.as_deref().map_err(|why| (REJECTED, why.as_str())))
    }

    /// The result of a request.
    async fn result(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Box<RawValue>, String> {
        let declined = || "the client declines".to_owned();
        let (Some(number), Some(host)) = (self.function(method), &self.host) else {
            return if method == ELICITATION { declining() } else { Err(declined()) };
        };
        let empty = RawValue::from_string("{}".to_owned()).unwrap_or_default();
        let params = params.unwrap_or(&empty);
        let Ok(_open) = self.open.try_acquire() else { return Err("too many requests".to_owned()) };
        if params.get().len() > MAX_BYTES {
            return Err("the request is too long".to_owned());
        }
        let request = Request { server: &self.server, method, params };
        let request = serde_json::to_string(&request).map_err(|_| declined())?;
        let mut closing = self.closing.clone();
        tokio::select! {
            answer = host.answer(number, request) => answer,
            _ = closing.wait_for(|closing| *closing) => Err(declined()),
            () = tokio::time::sleep(MAX_TIME) => Err(declined()),
        }
    }

    /// The parameters with which a request is made again, if its result asks for more: the answers, and what the server wants back.
    ///
    /// # Errors
    /// It asks for what this client does not have.
    pub(crate) async fn answered(
        &self,
        result: &RawValue,
        params: &Params,
    ) -> Result<Option<Params>, String> {
        // Nearly no result has the word, and those are not read twice.
        if !result.get().contains("input_required") {
            return Ok(None);
        }
        let Ok(asked) = serde_json::from_str::<InputRequired<'_>>(result.get()) else {
            return Ok(None);
        };
        if asked.result_type != "input_required" || self.host.is_none() {
            return Ok(None);
        }
        let InputRequired { input_requests, request_state, .. } = asked;
        if input_requests.is_empty() && request_state.is_none() {
            return Ok(None);
        }
        if input_requests.len() > MAX_OPEN {
            return Err("asks for too many inputs at once".to_owned());
        }
        let mut responses = BTreeMap::new();
        for (key, Question { method, params }) in input_requests {
            if !self.serves(&method) && method != ELICITATION {
                return Ok(None);
            }
            let response = self.result(&method, params).await;
            responses.insert(key, response.map_err(|why| format!("asked for input: {why}"))?);
        }
        let mut next = params.clone().with("inputResponses", &responses);
        if let Some(state) = request_state {
            next = next.with("requestState", state);
        }
        Ok(Some(next))
    }
}

fn declining() -> Result<Box<RawValue>, String> {
    to_raw_value(&json!({ "action": "decline" })).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::value::{RawValue, to_raw_value};
    use tokio::sync::watch;

    use super::{Answerer, ClientAnswer, ClientFunctions, ClientHost};
    use crate::frame::Params;

    /// Answers with what it was asked, or never.
    struct Echo {
        answers: bool,
        asked: AtomicUsize,
    }

    impl ClientHost for Echo {
        fn answer(&self, number: u32, request: String) -> ClientAnswer {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if !self.answers {
                return Box::pin(std::future::pending());
            }
            Box::pin(async move { Ok(to_raw_value(&(number, request)).unwrap()) })
        }
    }

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn answerer(answers: bool) -> (Answerer, Arc<Echo>, watch::Sender<bool>) {
        let host = Arc::new(Echo { answers, asked: AtomicUsize::new(0) });
        let functions = ClientFunctions { elicitation: Some(1), sampling: None };
        let (closing, closed) = watch::channel(false);
        (Answerer::new("s", functions, Some(Arc::clone(&host) as _), closed), host, closing)
    }

    #[tokio::test]
    async fn a_request_is_answered_by_its_function_and_anything_else_is_declined() {
        let (answerer, _, _closing) = answerer(true);
        assert_eq!(answerer.capabilities().to_string(), r#"{"elicitation":{}}"#);
        let message = |method: &str| {
            let (answerer, method) = (answerer.clone(), method.to_owned());
            async move {
                let params = Some(raw("{\"a\":1}"));
                String::from_utf8(answerer.message(raw("7"), method, params).await).unwrap()
            }
        };
        assert_eq!(
            message("elicitation/create").await,
            r#"{"jsonrpc":"2.0","id":7,"result":[1,"{\"server\":\"s\",\"method\":\"elicitation/create\",\"params\":{\"a\":1}}"]}"#
        );
        assert_eq!(
            message("sampling/createMessage").await,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"the client declines"}}"#
        );
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a test waits for its own tasks")]
    async fn an_answer_that_does_not_come_ends_with_the_connection_and_many_questions_are_refused()
    {
        let (answerer, host, closing) = answerer(false);
        let open: Vec<_> = (0..super::MAX_OPEN)
            .map(|_| {
                let answerer = answerer.clone();
                tokio::spawn(async move { answerer.result("elicitation/create", None).await })
            })
            .collect();
        while host.asked.load(Ordering::Relaxed) < super::MAX_OPEN {
            tokio::task::yield_now().await;
        }
        let refused = answerer.result("elicitation/create", None).await;
        assert_eq!(refused.unwrap_err(), "too many requests");
        drop(closing);
        for answer in open {
            assert_eq!(answer.await.unwrap().unwrap_err(), "the client declines");
        }
    }

    #[tokio::test]
    async fn a_result_that_asks_for_input_gives_the_parameters_of_the_next_request() {
        let (answerer, _, _closing) = answerer(true);
        let params = Params::default().with("name", "book");
        let next = |result: &str| {
            let (answerer, params, result) = (answerer.clone(), params.clone(), raw(result));
            async move { answerer.answered(&result, &params).await }
        };
        let asked = r#"{"resultType":"input_required","requestState":"x","inputRequests":{"a":{"method":"elicitation/create"}}}"#;
        let again = next(asked).await.unwrap().unwrap();
        assert_eq!(
            serde_json::to_string(&again).unwrap(),
            r#"{"name":"book","inputResponses":{"a":[1,"{\"server\":\"s\",\"method\":\"elicitation/create\",\"params\":{}}"]},"requestState":"x"}"#
        );
        for result in [
            r#"{"content":[{"type":"text","text":"input_required"}]}"#,
            r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}"#,
            r#"{"resultType":"input_required","inputRequests":{}}"#,
        ] {
            assert!(next(result).await.unwrap().is_none(), "{result}");
        }
    }
}
