//! The client of an account, and what its handles share of each container.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cdb_model::Timestamp;

use crate::container::ContainerContext;
use crate::error::Result;
use crate::protocol::Request;
use crate::regions::Account;
use crate::retry::Pipeline;
use crate::throughput::Usage;

/// A client of one account. Cheap to clone; clones share connections, session tokens and the clock.
///
/// Start with [`CosmosClient::from_env`], [`CosmosClient::builder`] or a
/// [`ConnectionString`](crate::ConnectionString).
#[derive(Clone, Debug)]
pub struct CosmosClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pipeline: Arc<Pipeline>,
    /// One context per container, shared by all its handles: session tokens and ranges belong to
    /// the container.
    contexts: Mutex<HashMap<(String, String), Arc<ContainerContext>>>,
}

impl CosmosClient {
    pub(crate) fn new(pipeline: Pipeline) -> Self {
        Self {
            inner: Arc::new(Inner {
                pipeline: Arc::new(pipeline),
                contexts: Mutex::new(HashMap::new()),
            }),
        }
    }

    /// Reads the account document.
    ///
    /// # Errors
    /// When the identity may not read the account's metadata, or the service does not answer.
    pub async fn account(&self) -> Result<Account> {
        let request = Request::for_account();
        let accepted = self.pipeline().send(&request, None).await?;
        let account = accepted.metadata()?;
        self.pipeline().learn(&account);
        Ok(account)
    }

    /// Returns the requests, request units and bytes that this client has used so far.
    pub fn usage(&self) -> Usage {
        self.inner.pipeline.meter.snapshot()
    }

    /// Returns the service's time, estimated from its answers. Before the first answer, this is the
    /// machine's time.
    pub fn now(&self) -> Timestamp {
        self.inner.pipeline.clock.now()
    }

    /// Returns the largest possible error of [`now`](Self::now). `None` before the first answer.
    pub fn clock_uncertainty(&self) -> Option<std::time::Duration> {
        self.inner.pipeline.clock.uncertainty()
    }

    /// Returns by how many milliseconds the service's clock is ahead of this machine's; negative if
    /// it is behind. Zero while the answers agree with the machine's clock, `None` before the first
    /// answer.
    pub fn clock_offset_millis(&self) -> Option<i64> {
        self.inner.pipeline.clock.ahead_of_machine()
    }

    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.inner.pipeline
    }

    /// Returns the context of a container, which all its handles share.
    pub(crate) fn context(&self, database: &str, container: &str) -> Arc<ContainerContext> {
        let mut contexts = self
            .inner
            .contexts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        contexts
            .entry((database.to_owned(), container.to_owned()))
            .or_insert_with(|| {
                Arc::new(ContainerContext::new(
                    self.inner.pipeline.clone(),
                    database,
                    container,
                ))
            })
            .clone()
    }

    /// Forgets the ranges and session tokens of a deleted or re-created container. `None` stands
    /// for all containers of the database. Existing handles keep working.
    pub(crate) fn forget(&self, database: &str, container: Option<&str>) {
        self.inner
            .contexts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .filter(|((of, name), _)| of == database && container.is_none_or(|c| c == name))
            .for_each(|(_, context)| context.forget());
    }
}
