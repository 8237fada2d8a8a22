//! The context of a message: headers and scope, which messages inherit from the message that is
//! being handled.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The headers of W3C Trace Context and W3C Baggage, which new messages inherit.
const TRACE_HEADERS: [&str; 3] = ["traceparent", "tracestate", "baggage"];

tokio::task_local! {
    static CURRENT: MessageContext;
}

/// Headers and scope of a message. Messages that a handler sends inherit the trace headers
/// (`traceparent`, `tracestate`, `baggage`) and the whole scope.
///
/// ```
/// use cdb_coordination::message::MessageContext;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let mut request = MessageContext::default();
/// request.headers.insert("traceparent".into(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into());
/// request.headers.insert("content-type".into(), "application/json".into());
/// request.scope.insert("tenant".into(), "acme".into());
/// request.run(async {
///     let inherited = MessageContext::current(); // what a message sent here begins with
///     assert_eq!(inherited.scope["tenant"], "acme");
///     assert!(inherited.headers.contains_key("traceparent"));
///     assert!(!inherited.headers.contains_key("content-type"));
/// }).await;
/// # }
/// ```
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageContext {
    /// Metadata of the message, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The tenant, user or other subject that the message belongs to, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scope: BTreeMap<String, String>,
}

impl MessageContext {
    /// The header with the name of the handler.
    pub const HANDLER: &str = "handler";

    /// The name of the handler that the sender has chosen: the header [`HANDLER`](Self::HANDLER).
    /// `None` for the handler of the message type.
    pub fn handler(&self) -> Option<&str> {
        self.headers.get(Self::HANDLER).map(String::as_str)
    }

    /// The context that a message sent by the current task begins with: inherited from the message
    /// that is being handled, or empty.
    pub fn current() -> Self {
        CURRENT.try_with(Self::clone).unwrap_or_default()
    }

    /// Runs a future in which new messages inherit from this context.
    pub async fn run<F: Future>(&self, future: F) -> F::Output {
        CURRENT.scope(self.inherited(), future).await
    }

    /// Whether there are no headers and no scope.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.scope.is_empty()
    }

    /// The size of names and values in bytes, each pair with the quotes, colon and comma of its JSON (6).
    pub fn size_bytes(&self) -> usize {
        let all = self.headers.iter().chain(&self.scope);
        all.map(|(name, value)| name.len() + value.len() + 6).sum()
    }

    fn inherited(&self) -> Self {
        let trace = |(name, _): &(&String, &String)| TRACE_HEADERS.contains(&name.as_str());
        let headers = self.headers.iter().filter(trace);
        Self {
            headers: headers
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            scope: self.scope.clone(),
        }
    }
}
