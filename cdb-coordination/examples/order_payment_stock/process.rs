//! A process that can be killed between any two of its requests: a Tokio runtime of its own, with everything that the
//! process remembers, and a credential that at some point lets no request out any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cdb_client::{
    Authorization, CosmosClient, Credential, DatabaseClient, MasterKey, SigningContext,
};
use cdb_coordination::{Messaging, MessagingConfig, RetryPolicy};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::shop::{self, Shop};

/// Counts the requests of a process, and stops it before one of them.
#[derive(Debug, Default)]
pub(crate) struct Lifeline {
    sent: AtomicU64,
    /// How many requests go out before the process dies; none has to when it is `None`.
    granted: Option<u64>,
    died: Notify,
}

impl Lifeline {
    /// How many requests the process wanted to send.
    pub(crate) fn wanted(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }
}

#[derive(Debug)]
struct Counted {
    key: MasterKey,
    lifeline: Arc<Lifeline>,
}

#[async_trait]
impl Credential for Counted {
    async fn authorize(&self, context: &SigningContext<'_>) -> cdb_client::Result<Authorization> {
        let number = self.lifeline.sent.fetch_add(1, Ordering::SeqCst);
        if self
            .lifeline
            .granted
            .is_some_and(|granted| number >= granted)
        {
            self.lifeline.died.notify_one();
            std::future::pending::<()>().await;
        }
        self.key.authorize(context).await
    }
}

/// Where processes run: the account and the container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) endpoint: String,
    pub(crate) key: String,
    pub(crate) database: String,
    pub(crate) container: String,
}

impl Account {
    /// The database, for a process of its own or for who looks on.
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

/// A process with a `Messaging`.
pub(crate) struct Process {
    runtime: tokio::runtime::Runtime,
    pub(crate) lifeline: Arc<Lifeline>,
    pub(crate) messaging: Messaging<Shop>,
}

impl Process {
    /// Starts a process that looks every `interval` for what others have left, and sends at most `granted` requests.
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
        let lifeline = Arc::new(Lifeline {
            granted,
            ..Lifeline::default()
        });
        let credential = Counted {
            key: MasterKey::new(&account.key)?,
            lifeline: lifeline.clone(),
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
            lifeline,
            messaging,
        })
    }

    /// Does something inside the process; nobody waits for it.
    pub(crate) fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Waits until the process wants to send a request more than it may.
    pub(crate) async fn died(&self) {
        self.lifeline.died.notified().await;
    }

    /// Kills it: whatever it was about to do, it does not do any more, and what it knew is gone.
    pub(crate) fn kill(self) {
        self.runtime.shutdown_background();
    }
}
