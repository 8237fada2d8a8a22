//! The state that the parts of messaging share.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use cdb_client::ContainerClient;
use cdb_client::partitions::SharedCall;
use cdb_model::container::MemberOf;
use cdb_model::{Container, Stored};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::config::MessagingConfig;
use super::hints::Hints;
use super::received::Arrival;
use crate::message::{Handlers, Lifetimes, MessageDocument};
use crate::outbox::{Dispatcher, OutboxBatch, Receivers, Route};
use crate::retry::Jitter;

pub(crate) struct Inner<C> {
    pub(crate) container: ContainerClient<C>,
    pub(crate) config: MessagingConfig,
    pub(crate) routes: HashMap<String, Box<dyn Route>>,
    pub(crate) handlers: Handlers<Arrival, OutboxBatch<C>>,
    pub(crate) receivers: Arc<Receivers>,
    pub(crate) dispatcher: Dispatcher<Stored<MessageDocument<C>>>,
    pub(crate) hints: Hints,
    pub(crate) jitter: Jitter,
    /// The id of this instance among all that run on the container.
    pub(crate) me: String,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
    /// Set when the schema version of the container is known to be supported.
    pub(crate) schema_checked: OnceLock<()>,
    pub(crate) agreement: SharedCall,
    pub(crate) myself: Weak<Inner<C>>,
}

impl<C> fmt::Debug for Inner<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messaging")
            .field("container", &self.container)
            .field("handlers", &self.handlers)
            .finish_non_exhaustive()
    }
}

impl<C: Container> Inner<C>
where
    MessageDocument<C>: MemberOf<C>,
{
    pub(crate) fn lifetimes(&self) -> Lifetimes {
        self.config.lifetimes()
    }

    /// Returns `true` with handlers, until it stops. Without handlers, messages are only sent.
    pub(crate) fn receives(&self) -> bool {
        !self.handlers.is_empty() && !self.stop.is_cancelled()
    }

    /// Spawns a background task, unless messaging has stopped.
    pub(crate) fn spawn<F, W>(&self, work: W)
    where
        F: Future<Output = ()> + Send + 'static,
        W: FnOnce(Arc<Self>) -> F,
    {
        if let Some(inner) = self.myself.upgrade()
            && !self.stop.is_cancelled()
        {
            self.tasks.spawn(work(inner));
        }
    }

    /// Delivers messages that were just committed, in the background.
    pub(crate) fn hand_over(&self, messages: Vec<Stored<MessageDocument<C>>>) {
        // While stopping, the messages are left to other processes.
        if !self.stop.is_cancelled() && self.dispatcher.hand_over(messages).must_work {
            self.spawn(|inner| async move { inner.dispatcher.work(&*inner).await });
        }
    }
}
