//! A transport that plays a script and keeps a log, for tests (feature `test-support`).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::transport::{Delivery, HttpRequest, HttpResponse, Transport, TransportError};

/// The outcome of one request.
#[derive(Clone, Debug)]
pub enum Step {
    /// The request gets this answer.
    Answer(HttpResponse),
    /// The connection is lost.
    NoAnswer(Delivery),
    /// The request never completes.
    Hang,
}

impl Step {
    /// Creates an answer without a body.
    pub fn status(code: u16) -> Self {
        Self::Answer(HttpResponse {
            status: code,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        })
    }

    /// Creates an error answer with status and sub-status, in the service's form.
    pub fn refusal(code: u16, sub: u32) -> Self {
        Self::status(code)
            .header("x-ms-substatus", &sub.to_string())
            .body(format!(
                r#"{{"code":"{code}","message":"refused for a test"}}"#
            ))
    }

    /// Creates a success with a JSON body.
    pub fn json(body: &impl serde::Serialize) -> Self {
        let body = serde_json::to_string(body)
            .unwrap_or_else(|error| panic!("body cannot be serialized: {error}"));
        Self::status(200).body(body)
    }

    /// Adds a header to an answer.
    ///
    /// # Panics
    /// When the header is invalid, or the step is not an answer.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name: HeaderName = name
            .parse()
            .unwrap_or_else(|_| panic!("`{name}` is not a header name"));
        let value: HeaderValue = value
            .parse()
            .unwrap_or_else(|_| panic!("`{value}` is not a header value"));
        self.answer().headers.insert(name, value);
        self
    }

    /// Sets the body of an answer.
    ///
    /// # Panics
    /// When the step is not an answer.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.answer().body = body.into();
        self
    }

    fn answer(&mut self) -> &mut HttpResponse {
        match self {
            Self::Answer(answer) => answer,
            Self::NoAnswer(_) | Self::Hang => panic!("only an answer has headers and a body"),
        }
    }
}

/// Plays its steps in order, one per request. Clones share the script and the log.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_client::transport::{Delivery, Script, Step};
/// use cdb_client::{CosmosClient, MasterKey};
/// use cdb_model::Document as _;
/// use cdb_emulator::WELL_KNOWN_KEY;
/// use cdb_model::Document as _;
/// use shop::{Order, Shop};
///
/// #[tokio::main]
/// async fn main() -> cdb_client::Result<()> {
///     let script = Script::new([Step::NoAnswer(Delivery::Unknown)]);
///     let client = CosmosClient::builder("http://localhost:8081")
///         .credential(MasterKey::new(WELL_KNOWN_KEY)?)
///         .transport(script.clone())
///         .build()?;
///     let orders = client.database("shop").container::<Shop>("orders");
///     let order = Order { customer: "ann".into(), number: 1, status: "open".into() };
///     assert!(orders.run(order.create()).await.unwrap_err().is_ambiguous());
///     assert_eq!(script.requests().len(), 1);
///     Ok(())
/// }
/// ```
#[derive(Clone, Default)]
pub struct Script {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    steps: VecDeque<Step>,
    requests: Vec<HttpRequest>,
    reconnects: usize,
}

impl Script {
    /// Creates a script of these steps.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let script = Self::default();
        script.extend(steps);
        script
    }

    /// Adds steps at the end.
    pub fn extend(&self, steps: impl IntoIterator<Item = Step>) {
        self.lock().steps.extend(steps);
    }

    /// Returns the requests so far, in the order they were sent.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.lock().requests.clone()
    }

    /// Returns the value of a header in each request so far.
    pub fn sent_header(&self, name: &str) -> Vec<Option<String>> {
        let text =
            |request: &HttpRequest| Some(request.headers.get(name)?.to_str().ok()?.to_owned());
        self.lock().requests.iter().map(text).collect()
    }

    /// Returns how often the client dropped its idle connections.
    pub fn reconnects(&self) -> usize {
        self.lock().reconnects
    }

    /// Returns the number of steps not played yet.
    pub fn steps_left(&self) -> usize {
        self.lock().steps.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Script")
            .field("steps_left", &state.steps.len())
            .field("requests", &state.requests.len())
            .finish()
    }
}

#[async_trait]
impl Transport for Script {
    /// # Panics
    /// When no step is left: the program sent a request that the test did not expect.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let step = {
            let mut state = self.lock();
            let shown = format!("{} {}", request.method, request.url);
            state.requests.push(request);
            let step = state.steps.pop_front();
            drop(state);
            step.unwrap_or_else(|| panic!("no step is left for {shown}"))
        };
        match step {
            Step::Answer(answer) => Ok(answer),
            Step::NoAnswer(delivery) => Err(TransportError {
                delivery,
                message: "connection lost for a test".to_owned(),
                source: None,
            }),
            Step::Hang => std::future::pending().await,
        }
    }

    fn reconnect(&self) {
        self.lock().reconnects += 1;
    }
}
