//! A process that can be killed between any two requests: a Tokio runtime with all state of the
//! process, and a credential that stops signing requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cdb_client::credential::{Authorization, Credential, SigningContext};
use cdb_client::{CosmosClient, DatabaseClient, MasterKey};
use cdb_coordination::Messaging;
use cdb_coordination::messaging::MessagingConfig;
use cdb_coordination::retry::RetryPolicy;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::shop::{self, Shop};

/// Counts the requests of a process, and stops it before one of them.
#[derive(Debug, Default)]
pub(crate) struct RequestLimit {
    sent: AtomicU64,
    /// How many requests the process may send; `None` for any number.
    granted: Option<u64>,
    died: Notify,
}

impl RequestLimit {
    /// How many requests the process has started.
    pub(crate) fn wanted(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct Counted {
    key: MasterKey,
    limit: Arc<RequestLimit>,
}

#[async_trait]
impl Credential for Counted {
    async fn authorize(&self, context: &SigningContext<'_>) -> cdb_client::Result<Authorization> {
        let number = self.limit.sent.fetch_add(1, Ordering::SeqCst);
        if self.limit.granted.is_some_and(|granted| number >= granted) {
            self.limit.died.notify_one();
            std::future::pending::<()>().await;
        }
        self.key.authorize(context).await
    }
}

/// The account and the container of all processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) endpoint: String,
    pub(crate) key: String,
    pub(crate) database: String,
    pub(crate) container: String,
}

impl Account {
    /// The database, through a new client.
    pub(crate) fn database(
        &self,
        credential: impl Credential,
    ) -> cdb_client::Result<DatabaseClient> {
        let client = CosmosClient::builder(&self.endpoint)
            .credential(credential)
            .build()?;
        Ok(client.database(&self.database))
    }
}

/// A process that runs `Messaging`.
pub(crate) struct Process {
    runtime: tokio::runtime::Runtime,
    pub(crate) limit: Arc<RequestLimit>,
    pub(crate) messaging: Messaging<Shop>,
}

impl Process {
    /// Starts a process with this poll interval that sends at most `granted` requests.
    pub(crate) fn start(
        account: &Account,
        interval: Duration,
        granted: Option<u64>,
    ) -> cdb_client::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("the machine has a thread");
        let limit = Arc::new(RequestLimit {
            granted,
            ..RequestLimit::default()
        });
        let credential = Counted {
            key: MasterKey::new(&account.key)?,
            limit: limit.clone(),
        };
        let container = account.database(credential)?.container(&account.container);
        let config = MessagingConfig::default()
            .with_claims(Duration::from_millis(200), Duration::from_millis(400))
            .with_poll_interval(interval)
            .with_retry(
                RetryPolicy::default()
                    .with_delays(Duration::from_millis(20), Duration::from_millis(100)),
            );
        let entered = runtime.enter();
        let messaging = shop::messaging(container).config(config).start();
        drop(entered);
        Ok(Self {
            runtime,
            limit,
            messaging: messaging.expect("the durations fit"),
        })
    }

    /// Runs a task inside the process.
    pub(crate) fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Waits until the process has used up its requests.
    pub(crate) async fn died(&self) {
        self.limit.died.notified().await;
    }

    /// Kills the process: stops its tasks and drops its state.
    pub(crate) fn kill(self) {
        self.runtime.shutdown_background();
    }
}
