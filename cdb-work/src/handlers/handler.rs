//! Handlers of claimed messages, by kind, and hooks for their results.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};

use cdb_coordination::message::{Delivered, Handlers, MessageContext};
use cdb_coordination::{HandlerError, Message};
use cdb_model::container::Extends;
use cdb_model::operation::BatchError;
use cdb_model::{Batch, Container, PartitionKey};

use crate::error::WorkError;
use crate::flush::entry::{ClaimedWork, append_effects};
use crate::memory::inner::Inner;
use crate::memory::settlement::Settlement;
use crate::streams::claim::Claim;
use crate::streams::delivery::DeliveryReason;
use crate::streams::documents::{Work, WorkMessage};
use crate::streams::status::WorkStatus;
use crate::streams::stream::ClaimState;

/// A message as its handler sees it.
#[derive(Debug)]
pub struct WorkContext {
    message: Arc<WorkMessage>,
    delivery: DeliveryReason,
    claim: Claim,
    home: Weak<Inner>,
}

impl WorkContext {
    pub(crate) fn new(claimed: &ClaimedWork) -> Self {
        Self {
            message: claimed.message.clone(),
            delivery: claimed.delivery,
            claim: claimed.guard.claim.clone(),
            home: claimed.guard.home.clone(),
        }
    }

    /// The stored message.
    pub fn message(&self) -> &WorkMessage {
        &self.message
    }

    /// How the message came here: new, retried, or taken over from another coordinator.
    pub fn delivery(&self) -> DeliveryReason {
        self.delivery
    }

    /// The stages that the message still needs.
    pub fn left(&self) -> WorkStatus {
        self.message.needs.without(self.message.status)
    }

    /// Grows whenever the stream's partition changes its owner. Pass it to other systems that can
    /// refuse a smaller one.
    pub fn fencing_token(&self) -> u64 {
        self.claim.fence
    }

    /// Starts the claim's time-out again, for a long task. Returns `false` when the claim is no
    /// longer held.
    pub fn renew(&self) -> bool {
        let inner = self.home.upgrade();
        inner.is_some_and(|inner| inner.renew(&self.claim) == ClaimState::Valid)
    }

    /// An empty batch for documents that are written together with the completion.
    pub fn effects<C: Container>(&self) -> Batch<C> {
        Batch::new(PartitionKey::from(self.message.partition.as_str()))
    }

    /// Completes the message.
    pub fn done(&self) -> Completed {
        Completed::default()
    }

    /// Completes some stages. The message is handed out again for the remaining ones.
    pub fn reached(&self, stages: WorkStatus) -> Completed {
        Completed {
            stages: Some(stages),
            effects: None,
        }
    }
}

impl Delivered for WorkContext {
    fn message_type(&self) -> &str {
        &self.message.kind
    }

    fn payload(&self) -> &str {
        &self.message.body
    }

    fn context(&self) -> &MessageContext {
        &self.message.context
    }
}

/// The success of a handler, with documents that are written together with it.
#[derive(Debug, Default)]
pub struct Completed {
    pub(crate) stages: Option<WorkStatus>,
    pub(crate) effects: Option<Batch<Work>>,
}

impl Completed {
    /// Writes documents together with the completion: all or nothing, and once.
    ///
    /// # Errors
    /// When there are too many for one batch, or they belong to another partition.
    pub fn with_effects<C: Extends<Work>>(
        mut self,
        effects: &Batch<C>,
    ) -> Result<Self, BatchError> {
        append_effects(&mut self.effects, effects)?;
        Ok(self)
    }
}

/// A failed attempt, for the hook [`WorkHandlers::on_failure`].
#[derive(Debug)]
#[non_exhaustive]
pub struct WorkFailure {
    /// The message as it was handed out.
    pub message: Arc<WorkMessage>,
    /// The failure of the handler, or the refusal of its report.
    pub reason: String,
    /// `Retrying`, `Dead` or `Done` (skipped); the error when the result was not written.
    pub settled: Result<Settlement, WorkError>,
}

type CompletionHook = Box<dyn Fn(&WorkMessage) + Send + Sync>;
type FailureHook = Box<dyn Fn(&WorkFailure) + Send + Sync>;

/// The handlers of a [`run`](crate::WorkCoordinator::run), by the kind of the message.
///
/// ```
/// use cdb_coordination::{HandlerError, Message};
/// use cdb_work::WorkHandlers;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Paid { cents: u64 }
///
/// impl Message for Paid {
///     const TYPE: &'static str = "paid";
/// }
///
/// fn handlers() -> WorkHandlers {
///     WorkHandlers::new()
///         .on(async |paid: Paid, work| match paid.cents {
///             0 => Err(HandlerError::permanently("there is nothing to pay")), // a dead letter at once
///             _ => Ok(work.done()),
///         })
///         .on_failure(|failure| eprintln!("{}", failure.reason))
/// }
/// ```
#[derive(Default)]
pub struct WorkHandlers {
    pub(crate) table: Handlers<WorkContext, Completed>,
    on_completion: Option<CompletionHook>,
    on_failure: Option<FailureHook>,
}

impl WorkHandlers {
    /// No handlers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the handler of messages of type `M`, which were stored with
    /// [`NewWork::with_message`](crate::NewWork::with_message). A second handler of a type replaces
    /// the first.
    #[must_use]
    pub fn on<M, F, Fut>(self, handler: F) -> Self
    where
        M: Message,
        F: Fn(M, WorkContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Completed, HandlerError>> + Send + 'static,
    {
        self.on_handler(String::new(), handler)
    }

    /// Registers a handler by name, for messages with
    /// [`NewWork::for_handler`](crate::NewWork::for_handler). Several handlers of one message type
    /// can each have a name.
    #[must_use]
    pub fn on_handler<M, F, Fut>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        M: Message,
        F: Fn(M, WorkContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Completed, HandlerError>> + Send + 'static,
    {
        self.table.on(name.into(), handler);
        self
    }

    /// Registers the handler of all other messages. Without it, a message of another kind or for
    /// another handler becomes dead.
    #[must_use]
    pub fn otherwise<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(WorkContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Completed, HandlerError>> + Send + 'static,
    {
        self.table.otherwise(handler);
        self
    }

    /// Calls `hook` when a completed message is stored.
    #[must_use]
    pub fn on_completion(mut self, hook: impl Fn(&WorkMessage) + Send + Sync + 'static) -> Self {
        self.on_completion = Some(Box::new(hook));
        self
    }

    /// Calls `hook` when an attempt has failed: after an error, a panic, or a refused report.
    #[must_use]
    pub fn on_failure(mut self, hook: impl Fn(&WorkFailure) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Box::new(hook));
        self
    }

    /// Calls the hook for a result. A hook that panics is logged.
    pub(crate) fn tell(&self, told: &Result<Arc<WorkMessage>, WorkFailure>) {
        let hooks = (&self.on_completion, &self.on_failure);
        let called = std::panic::catch_unwind(AssertUnwindSafe(|| match (told, hooks) {
            (Ok(message), (Some(hook), _)) => hook(message),
            (Err(failure), (_, Some(hook))) => hook(failure),
            _ => {}
        }));
        if called.is_err() {
            tracing::error!("a hook of the work handlers panicked");
        }
    }
}

impl fmt::Debug for WorkHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.table.fmt(f)
    }
}
