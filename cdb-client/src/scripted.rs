//! A transport that plays a script and keeps a log, for tests (feature `test-support`).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::transport::{Delivery, HttpRequest, HttpResponse, Transport, TransportError};

/// What happens to one request.
///
/// ```
/// use cdb_client::{Delivery, Script, Step};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{OrderKey, order, shop_over};
/// # tokio::runtime::Runtime::new()?.block_on(async {
///
/// // A create whose answer is lost, and the read that tells what became of it.
/// let script = Script::new([Step::NoAnswer(Delivery::Unknown), Step::refusal(404, 0)]);
/// let orders = shop_over(script)?;
/// assert!(orders.create(&order(1)).await.unwrap_err().is_ambiguous());
/// assert!(orders.read(&OrderKey::new("ann", 1_u64)).await?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub enum Step {
    /// It is answered.
    Answer(HttpResponse),
    /// It gets no answer.
    NoAnswer(Delivery),
    /// It never ends.
    Hang,
}

impl Step {
    /// An answer without a body.
    pub fn status(code: u16) -> Self {
        Self::Answer(HttpResponse {
            status: code,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        })
    }

    /// A refusal with status and sub-status, in the service's form.
    pub fn refusal(code: u16, sub: u32) -> Self {
        Self::status(code)
            .header("x-ms-substatus", &sub.to_string())
            .body(format!(
                r#"{{"code":"{code}","message":"refused for a test"}}"#
            ))
    }

    /// A success with a JSON body.
    pub fn json(body: &impl serde::Serialize) -> Self {
        let body = serde_json::to_string(body).unwrap_or_else(|error| panic!("no JSON: {error}"));
        Self::status(200).body(body)
    }

    /// Adds a header to an answer.
    ///
    /// # Panics
    /// When it is no header, or the step no answer.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name: HeaderName = name
            .parse()
            .unwrap_or_else(|_| panic!("`{name}` is no header"));
        let value: HeaderValue = value
            .parse()
            .unwrap_or_else(|_| panic!("`{value}` is no value"));
        self.answer().headers.insert(name, value);
        self
    }

    /// Gives an answer its body.
    ///
    /// # Panics
    /// When the step is no answer.
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
/// use cdb_client::{CosmosClient, MasterKey, Script, Step};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{OrderKey, Shop};
/// # let key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
/// # tokio::runtime::Runtime::new()?.block_on(async {
///
/// let script = Script::new([Step::refusal(404, 0)]);
/// let client = CosmosClient::builder("http://localhost:8081")
///     .credential(MasterKey::new(key)?)
///     .transport(script.clone())
///     .build()?;
/// let orders = client.database("shop").container::<Shop>("orders");
/// assert!(orders.read(&OrderKey::new("ann", 1_u64)).await?.is_none());
/// assert_eq!(script.requests().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Script {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    steps: VecDeque<Step>,
    requests: Vec<HttpRequest>,
}

impl Script {
    /// Of these steps.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let script = Self::default();
        script.extend(steps);
        script
    }

    /// Adds steps at the end.
    pub fn extend(&self, steps: impl IntoIterator<Item = Step>) {
        self.lock().steps.extend(steps);
    }

    /// Every request so far, in the order they came.
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.lock().requests.clone()
    }

    /// The value that each request so far gave a header.
    pub fn sent_header(&self, name: &str) -> Vec<Option<String>> {
        let text =
            |request: &HttpRequest| Some(request.headers.get(name)?.to_str().ok()?.to_owned());
        self.lock().requests.iter().map(text).collect()
    }

    /// Steps that were not played yet.
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
    /// When the script is over: the program sent a request that the test did not expect.
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let step = {
            let mut state = self.lock();
            let shown = format!("{} {}", request.method, request.url);
            state.requests.push(request);
            let step = state.steps.pop_front();
            drop(state);
            step.unwrap_or_else(|| panic!("script is over, but there came {shown}"))
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
}
