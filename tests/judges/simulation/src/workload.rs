//! A workload: what nodes run for it, what clients do, and what they expect in the end.
//!
//! A new one is a file in `workloads/` and an entry of its list.

use std::any::Any;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cdb_chaos::{DATABASE, Documents, keep_trying};
use cdb_client::{Bootstrap, ContainerClient, CosmosClient};
use cdb_model::query::QueriedIn;
use cdb_model::{Container, Query};
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::Durable;
pub(crate) use duroxide::OrchestrationRegistryBuilder as Orchestrations;
pub(crate) use duroxide::runtime::registry::ActivityRegistryBuilder as Activities;
use futures::future::BoxFuture;

use crate::caller::{Caller, Seen};
use crate::excuses::Excuses;
use crate::judges::Handling;
use crate::node::NodeConfig;
use crate::profile::Profile;
use crate::random::Random;
use crate::virtual_time::elapsed;

/// What the files of workloads have in common.
pub(crate) mod prelude {
    pub(crate) use std::sync::Arc;
    pub(crate) use std::time::Duration;

    pub(crate) use async_trait::async_trait;
    pub(crate) use cdb_chaos::keep_trying;
    pub(crate) use cdb_provider::documents::Durable;
    pub(crate) use duroxide::{ActivityContext, OrchestrationContext, OrchestrationStatus};
    pub(crate) use tokio::task::JoinSet;
    pub(crate) use tokio::time::{Instant, sleep};

    pub(crate) use super::{
        About, Activities, Gate, Joining, Orchestrations, Part, StartingNode, Workload, number,
        open, read_all,
    };
    pub(crate) use crate::caller::{BOUND, Caller, Seen};
    pub(crate) use crate::guarded::Guarded;
    pub(crate) use crate::random::Random;
    pub(crate) use crate::virtual_time::elapsed;

    pub(crate) const SECOND: Duration = Duration::from_secs(1);
}

/// A part of the work of a run, with its state on all nodes and clients.
#[async_trait(?Send)]
pub(crate) trait Workload: Send + Sync {
    /// Returns what the command says about it.
    fn about(&self) -> About;

    /// Returns whether a run of this time has it, unless it is the only one.
    fn is_drawn(&self, seed: u64, _time: Duration) -> bool {
        self.about().is_drawn(seed)
    }

    /// Returns the cluster of a run of this workload alone.
    fn profile(&self, seed: u64, time: Duration) -> Profile {
        Profile::draw(seed, time)
    }

    /// Returns the container of its own, if it has one.
    fn container(&self) -> Option<&'static str> {
        None
    }

    /// Creates what it needs, before the nodes work on it.
    async fn prepare(&self, _outside: &CosmosClient) -> Result<(), String> {
        Ok(())
    }

    /// Starts its part of a node besides the runtime, which ends when it is dropped.
    fn join<'a>(&'a self, _node: &'a StartingNode<'a>) -> Joining<'a> {
        Box::pin(ready(Ok(None)))
    }

    /// Adds the activities that a node runs.
    fn activities(&self, all: Activities, _node: &StartingNode<'_>) -> Activities {
        all
    }

    /// Adds the orchestrations that nodes run after so many deployments.
    fn orchestrations(&self, all: Orchestrations, _deployed: u32) -> Orchestrations {
        all
    }

    /// Notes that a node is killed.
    fn killed(&self, _node: u32) {}

    /// Runs until the end of the time, and judges.
    async fn run(&self, caller: &Caller) -> Seen;

    /// Returns whether a due document of an instance waits for something that only the workload
    /// knows. It then judges itself that the instance ends.
    fn explains_wait(&self, _instance: &str, _due: &Durable) -> bool {
        false
    }

    /// Returns whether an instance has many messages, which wait for one another.
    fn has_backlog(&self, _instance: &str) -> bool {
        false
    }
}

/// What the command says about a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// Whether half of the seeds have it, because it makes runs long.
    is_half: bool,
}

impl About {
    pub(crate) const fn always(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            help,
            is_half: false,
        }
    }

    pub(crate) const fn half(name: &'static str, help: &'static str) -> Self {
        Self {
            is_half: true,
            ..Self::always(name, help)
        }
    }

    fn is_drawn(self, seed: u64) -> bool {
        // In the form that recorded seeds were drawn with: `HeldStreams`.
        let words = self.name.split('-').map(|word| {
            let (first, rest) = word.split_at(1);
            first.to_uppercase() + rest
        });
        let purpose = format!("{} is drawn", words.collect::<String>());
        !self.is_half || Random::new(seed, &purpose).chance(50)
    }
}

/// What a workload runs on a node, if anything; it ends when it is dropped.
pub(crate) type Part = Option<Box<dyn Any + Send>>;

/// The start of a workload's part of a node.
pub(crate) type Joining<'a> = BoxFuture<'a, Result<Part, String>>;

/// A node that starts.
pub(crate) struct StartingNode<'a> {
    pub(crate) number: u32,
    pub(crate) config: NodeConfig,
    pub(crate) client: &'a CosmosClient,
    pub(crate) provider: &'a CosmosDBProvider,
    pub(crate) documents: &'a ContainerClient<Documents>,
    pub(crate) handling: &'a Handling,
    pub(crate) excuses: &'a Excuses,
}

impl StartingNode<'_> {
    /// Returns a name that is unique among all nodes so far.
    pub(crate) fn name(&self) -> String {
        format!("node-{}-{}", self.number, elapsed().as_millis())
    }

    /// Opens the node's container for a workload: an idle node has another one, without work.
    pub(crate) async fn open<C: Container>(
        &self,
        name: &str,
    ) -> Result<ContainerClient<C>, String> {
        if self.config.idle {
            return open(self.client, &format!("idle-{name}")).await;
        }
        open(self.client, name).await
    }
}

/// Whether the nodes work for a workload that runs on them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gate(Arc<AtomicBool>);

impl Gate {
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Lets the nodes work until the end of the time, and waits for it.
    pub(crate) async fn open_until_end(&self, caller: &Caller) {
        self.0.store(true, Ordering::Relaxed);
        tokio::time::sleep_until(caller.until).await;
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Opens a container of a workload, and creates it if it is missing.
pub(crate) async fn open<C: Container>(
    client: &CosmosClient,
    name: &str,
) -> Result<ContainerClient<C>, String> {
    let database = client.database(DATABASE);
    keep_trying(|| database.bootstrap(name, Bootstrap::CreateIfMissing)).await
}

/// Returns all documents of a type.
pub(crate) async fn read_all<C: Container, T: QueriedIn<C>>(
    container: &ContainerClient<C>,
) -> Result<Vec<T>, cdb_client::Error> {
    let found = container.query(Query::<T>::across_partitions()).all();
    let found = found.await?.into_iter();
    Ok(found.map(|stored| stored.document).collect())
}

/// Reads a number from an input.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}
