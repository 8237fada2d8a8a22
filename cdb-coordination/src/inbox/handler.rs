//! Message handlers, by the name of the message type.

use std::collections::HashMap;
use std::fmt;

use cdb_model::{Container, Timestamp};
use futures::FutureExt as _;
use futures::future::{BoxFuture, ready};

use crate::message::{Address, Envelope, Message, MessageContext, MessageId};
use crate::outbox::OutboxBatch;
use crate::panic::catch_panic;

/// A received message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Received<M> {
    /// The message.
    pub message: M,
    /// Its id, the same at every attempt.
    pub id: MessageId,
    /// The partition that sent it.
    pub from: Address,
    /// When it was sent, in the service's time.
    pub sent_at: Timestamp,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// Headers and scope. Messages that the handler sends inherit the trace context and the scope.
    pub context: MessageContext,
}

impl<M> Received<M> {
    /// The name of the handler, for a message of [`OutboxBatch::send_for`].
    pub fn handler(&self) -> Option<&str> {
        self.context.handler()
    }
}

/// The result of a handler: the batch with its effect, or the failure.
pub type Handled<C> = Result<OutboxBatch<C>, Failed>;

/// The failure of a handler. Any error and any text converts into a temporary failure with `?`.
///
/// ```
/// use cdb_coordination::Failed;
///
/// /// Called by a handler.
/// fn cents(text: &str) -> Result<u64, Failed> {
///     match text.parse()? { // an error is a temporary failure
///         0 => Err(Failed::permanently("there is nothing to pay")), // a dead letter at once
///         1 => Err(format!("the fee of {text} cent is unknown"))?, // so is a text
///         cents => Ok(cents),
///     }
/// }
/// assert_eq!(cents("0"), Err(Failed::permanently("there is nothing to pay")));
/// assert_eq!(cents("1"), Err(Failed::temporarily("the fee of 1 cent is unknown")));
/// assert_eq!(cents("x"), Err(Failed::temporarily("invalid digit found in string")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub(crate) reason: String,
    pub(crate) is_final: bool,
}

impl Failed {
    /// The message is retried, as often as the policy says.
    pub fn temporarily(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            is_final: false,
        }
    }

    /// The message becomes a dead letter at once: no attempt can succeed.
    pub fn permanently(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            is_final: true,
        }
    }

    /// The failure of a message that is not of type `M`.
    #[doc(hidden)]
    pub fn unread<M: Message>(error: &serde_json::Error) -> Self {
        Self::permanently(format!("`{}` cannot be read: {error}", M::TYPE))
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
impl<E: Into<Box<dyn std::error::Error + Send + Sync>>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::temporarily(error.into().to_string())
    }
}

type Handler<C> =
    Box<dyn Fn(&Envelope, u32, OutboxBatch<C>) -> BoxFuture<'static, Handled<C>> + Send + Sync>;

/// The handlers of a message type by name. The handler without a name has the empty one.
type ByName<C> = HashMap<String, Handler<C>>;

/// The handlers of all message types.
pub(crate) struct Handlers<C>(HashMap<&'static str, ByName<C>>);

impl<C> Default for Handlers<C> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<C> fmt::Debug for Handlers<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl<C: Container> Handlers<C> {
    /// Adds a handler; `name` is empty for messages without a handler's name. A second handler of a
    /// type and name replaces the first.
    pub(crate) fn add<M, F, Fut>(&mut self, name: String, handler: F)
    where
        M: Message,
        F: Fn(Received<M>, OutboxBatch<C>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Handled<C>> + Send + 'static,
    {
        let typed = move |envelope: &Envelope, attempt, batch| {
            let payload = envelope.payload.as_deref().unwrap_or_default();
            let message = match serde_json::from_str(payload) {
                Ok(message) => message,
                Err(error) => return ready(Err(Failed::unread::<M>(&error))).boxed(),
            };
            let received = Received {
                message,
                id: envelope.id(),
                from: envelope.from.clone(),
                sent_at: envelope.sent_at,
                attempt,
                context: envelope.context.clone(),
            };
            handler(received, batch).boxed()
        };
        let by_name = self.0.entry(M::TYPE).or_default();
        by_name.insert(name, Box::new(typed));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Runs the handler of a message. A panic counts as a temporary failure.
    pub(crate) async fn handle(
        &self,
        envelope: &Envelope,
        attempt: u32,
        batch: OutboxBatch<C>,
    ) -> Handled<C> {
        let name = envelope.context.handler();
        let by_name = self.0.get(&*envelope.message_type);
        let Some(handler) = by_name.and_then(|named| named.get(name.unwrap_or_default())) else {
            let named = name.map(|name| format!(" `{name}`")).unwrap_or_default();
            return Err(Failed::permanently(format!(
                "there is no handler{named} for messages of type `{}`; register one and redrive the message",
                envelope.message_type
            )));
        };
        let running = async {
            // The batch begins with the context of the message.
            let batch = batch.with_context(MessageContext::current());
            handler(envelope, attempt, batch).await
        };
        let result = catch_panic(envelope.context.run(running)).await;
        result.unwrap_or_else(|panic| Err(Failed::temporarily(panic)))
    }
}
