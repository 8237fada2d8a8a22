//! Handlers of messages, by type and name. The inbox and ordered work have the same.

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;

use derive_where::derive_where;
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};

use super::context::MessageContext;
use super::envelope::Message;

/// The failure of a handler. Any error and any text converts into a temporary failure with `?`.
///
/// ```
/// use cdb_coordination::HandlerError;
///
/// /// Called by a handler.
/// fn cents(text: &str) -> Result<u64, HandlerError> {
///     match text.parse()? { // an error is a temporary failure
///         0 => Err(HandlerError::permanently("there is nothing to pay")), // a dead letter at once
///         1 => Err(format!("the fee of {text} cent is unknown"))?, // so is a text
///         cents => Ok(cents),
///     }
/// }
/// assert_eq!(cents("0"), Err(HandlerError::permanently("there is nothing to pay")));
/// assert_eq!(cents("1"), Err(HandlerError::temporarily("the fee of 1 cent is unknown")));
/// assert_eq!(cents("x"), Err(HandlerError::temporarily("invalid digit found in string")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerError {
    pub(crate) reason: String,
    pub(crate) is_final: bool,
    /// Whether the attempt counts towards the last one.
    pub(crate) counts: bool,
}

impl HandlerError {
    /// The message is retried, as often as the policy says.
    pub fn temporarily(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            is_final: false,
            counts: true,
        }
    }

    /// The message becomes a dead letter at once: no attempt can succeed.
    pub fn permanently(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            is_final: true,
            counts: true,
        }
    }

    /// A document could not be read. The attempt counts unless the service is away.
    pub(crate) fn unread(error: &cdb_client::Error) -> Self {
        Self {
            reason: error.to_string(),
            is_final: false,
            counts: !error.is_transient() && !error.is_denied(),
        }
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Whether no attempt can succeed.
    pub fn is_permanent(&self) -> bool {
        self.is_final
    }
}

/// What `?` accepts elsewhere: any error, a text, a boxed error.
impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::temporarily(error.into().to_string())
    }
}

/// A message as its handler gets it, before the payload is read.
#[doc(hidden)]
pub trait Delivered: Send + 'static {
    /// The stored name of the message type.
    fn message_type(&self) -> &str;

    /// The message as JSON text.
    fn payload(&self) -> &str;

    /// Headers and scope.
    fn context(&self) -> &MessageContext;
}

type Handler<D, R> = Box<dyn Fn(D) -> BoxFuture<'static, Result<R, HandlerError>> + Send + Sync>;

/// Handlers that return `R`, by message type and name. The handler of a type without a name has the
/// empty one.
#[doc(hidden)]
#[derive_where(Default)]
pub struct Handlers<D, R> {
    by_name: HashMap<(String, String), Handler<D, R>>,
    otherwise: Option<Handler<D, R>>,
}

impl<D, R> fmt::Debug for Handlers<D, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl<D: Delivered, R: Send + 'static> Handlers<D, R> {
    /// Registers a handler. A second handler of a type and name replaces the first.
    pub fn on<M, F, Fut>(&mut self, name: String, handler: F)
    where
        M: Message,
        F: Fn(M, D) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
    {
        let typed = move |delivered: D| match serde_json::from_str(delivered.payload()) {
            Ok(message) => handler(message, delivered).boxed(),
            Err(error) => {
                let reason = format!("`{}` cannot be read: {error}", M::TYPE);
                ready(Err(HandlerError::permanently(reason))).boxed()
            }
        };
        let key = (M::TYPE.to_owned(), name);
        self.by_name.insert(key, Box::new(typed));
    }

    /// Registers the handler of all other messages.
    pub fn otherwise<F, Fut>(&mut self, handler: F)
    where
        F: Fn(D) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
    {
        self.otherwise = Some(Box::new(move |delivered| handler(delivered).boxed()));
    }

    /// Returns `true` without any handler.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.otherwise.is_none()
    }

    /// Runs the handler of a message. A panic counts as a temporary failure.
    ///
    /// # Errors
    /// The failure of the handler, or a permanent one without a handler.
    pub async fn handle(&self, delivered: D) -> Result<R, HandlerError> {
        let context = delivered.context().clone();
        let name = context.handler();
        let key = (
            delivered.message_type().to_owned(),
            name.unwrap_or_default().to_owned(),
        );
        let Some(handler) = self.by_name.get(&key).or(self.otherwise.as_ref()) else {
            let named = name.map(|name| format!(" `{name}`")).unwrap_or_default();
            return Err(HandlerError::permanently(format!(
                "there is no handler{named} for messages of type `{}`; register one and redrive the message",
                key.0
            )));
        };
        // The messages that the handler sends inherit the context.
        let result = catch_panic(context.run(async { handler(delivered).await })).await;
        result.unwrap_or_else(|panic| Err(HandlerError::temporarily(panic)))
    }
}

/// Runs a handler.
///
/// # Errors
/// The text of a panic. State that the handler shares with other calls may be inconsistent then.
pub(crate) async fn catch_panic<T>(handler: impl Future<Output = T>) -> Result<T, String> {
    let result = AssertUnwindSafe(handler).catch_unwind().await;
    result.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_else(|| "no panic message".to_owned());
        format!("the handler panicked: {text}")
    })
}
