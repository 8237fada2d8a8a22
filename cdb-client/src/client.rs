//! The entrance: a client of an account, its databases, and handles to their containers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cdb_model::{Container, Timestamp};

use crate::container::{ContainerClient, ContainerContext};
use crate::retry::Pipeline;
use crate::usage::Usage;

/// A client of one account. Cheap to clone; clones share connections, session tokens and clocks.
///
/// ```
/// use cdb_client::{CosmosClient, MasterKey};
/// # let key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
///
/// let client = CosmosClient::builder("https://account.documents.azure.com:443/")
///     .credential(MasterKey::new(key)?)
///     .build()?;
/// assert_eq!(client.usage().total().requests, 0); // nothing is sent before it is needed
/// # Ok::<(), cdb_client::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CosmosClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pipeline: Arc<Pipeline>,
    /// One context per container, whoever asks for it: session tokens and ranges are facts about the container.
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

    /// A database of the account. Sends nothing.
    pub fn database(&self, name: impl Into<String>) -> DatabaseClient {
        DatabaseClient {
            client: self.clone(),
            name: name.into(),
        }
    }

    /// What this client has used so far.
    pub fn usage(&self) -> Usage {
        self.inner.pipeline.meter.snapshot()
    }

    /// The service's time, as its answers show it; the machine's time before the first answer.
    pub fn now(&self) -> Timestamp {
        self.inner.pipeline.clock.now()
    }

    /// How far [`now`](Self::now) can be off. `None` before the first answer.
    pub fn clock_uncertainty(&self) -> Option<std::time::Duration> {
        self.inner.pipeline.clock.uncertainty()
    }

    /// How many milliseconds the service's clock is ahead of this machine's; negative where it is behind. Zero when no
    /// answer has proved the machine's clock wrong, `None` before the first answer.
    pub fn clock_offset_millis(&self) -> Option<i64> {
        self.inner.pipeline.clock.ahead_of_machine()
    }

    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.inner.pipeline
    }

    fn context(&self, database: &str, container: &str) -> Arc<ContainerContext> {
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

    /// Containers that are gone, or created anew under an old name, have other ranges and other sessions. `None` stands
    /// for all containers of the database. Handles to them go on working.
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

/// A database of an account.
///
/// ```
/// use cdb_client::Bootstrap;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
/// # shop::with_client(async |client| {
///
/// let database = client.database("shop");
/// let orders = database.bootstrap::<Shop>("orders", Bootstrap::CreateIfMissing).await?;
/// assert!(database.differences::<Shop>("orders").await?.is_empty());
/// # drop(orders); Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct DatabaseClient {
    client: CosmosClient,
    name: String,
}

impl DatabaseClient {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A container whose documents are those of `C`. Sends nothing and checks nothing: that is what
    /// [`bootstrap`](Self::bootstrap) is for.
    pub fn container<C: Container>(&self, name: &str) -> ContainerClient<C> {
        ContainerClient::new(self.client.context(&self.name, name))
    }

    pub(crate) fn client(&self) -> &CosmosClient {
        &self.client
    }
}
