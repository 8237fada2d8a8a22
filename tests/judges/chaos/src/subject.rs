//! The provider under test: how it is opened, for a runtime and for the driver.
//!
//! Everything else is the same for all of them: the orchestrations, the settings of the runtime,
//! the faults, the judgement.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig, MembershipConfig};
use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::effects::{Documents, messaging, transactional};
use crate::runtime::{CONCURRENCY, CONTAINER, DATABASE, RuntimeArgs};

/// The pause between two searches for messages that another process has left.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The purpose of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// For a runtime.
    Works,
    /// For the driver, which starts orchestrations and queries their ends, and must not do a
    /// runtime's work.
    LooksOn,
}

/// An opened provider.
pub struct Opened {
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The activities that belong to this provider: the transactional ones of ours.
    pub activities: ActivityRegistry,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("activities", &self.activities.list_names())
            .finish_non_exhaustive()
    }
}

/// A provider that is being opened.
pub type Opening = BoxFuture<'static, Result<Opened, String>>;

/// A provider under test. It must keep its documents in the container [`CONTAINER`] of the database
/// [`DATABASE`], in the form that ours reads, because the judgement reads them.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Its name in the table.
    pub name: &'static str,
    /// Opens it.
    pub open: fn(RuntimeArgs, Role) -> Opening,
}

impl Subject {
    /// The provider of this workspace.
    pub const OURS: Self = Self {
        name: "cdb-provider",
        open: |args, role| open_ours(args, role).boxed(),
    };
}

async fn open_ours(args: RuntimeArgs, role: Role) -> Result<Opened, String> {
    let concurrency = u32::try_from(CONCURRENCY).unwrap_or(u32::MAX);
    let mut config = CosmosDBProviderConfig {
        endpoint: args.endpoint,
        key: args.key,
        database: DATABASE.to_owned(),
        container: CONTAINER.to_owned(),
        orch_concurrency: concurrency,
        worker_concurrency: concurrency,
        ..CosmosDBProviderConfig::default()
    };
    if role == Role::Works {
        config.membership = args.members.then(MembershipConfig::default);
    } else {
        config.reconciler_interval = Duration::from_secs(24 * 60 * 60);
    }
    let opened = CosmosDBProvider::open::<Documents>(config).await;
    let (provider, documents) = opened.map_err(|error| error.to_string())?;
    Ok(Opened {
        activities: match role {
            Role::Works => transactional(&provider, &messaging(&documents, POLL_INTERVAL)),
            Role::LooksOn => ActivityRegistry::builder().build(),
        },
        provider: Arc::new(provider),
    })
}
