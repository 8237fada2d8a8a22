//! A judge: what it observes while a cluster runs, and what it says in the end.
//!
//! A new one is a file in `judges/` and an entry of its list.

use async_trait::async_trait;
use cdb_chaos::{DATABASE, Documents, keep_trying};
use cdb_client::{Bootstrap, ContainerClient, CosmosClient};
use cdb_provider::documents::Durable;

use crate::caller::{Caller, Seen};
use crate::cluster::Cluster;
use crate::network::Outside;
use crate::node::client;

/// The most problems that a judge keeps.
pub(crate) const MOST_PROBLEMS: usize = 20;

/// A judge of a run.
#[async_trait]
pub(crate) trait Judge: Send + Sync {
    /// Returns its name, for the case that it fails.
    fn name(&self) -> &'static str;

    /// Observes the cluster until the faults have ended.
    async fn watch(&self, _cluster: &Cluster) {}

    /// Notes that a node is killed.
    fn killed(&self, _node: u32) {}

    /// Returns what is wrong, when the workloads and the faults have ended. Fails if the store
    /// cannot be read.
    async fn judge(&self, caller: &Caller, seen: &Seen) -> Result<Vec<String>, String>;
}

/// Returns a client for a judge, which is not part of the cluster.
pub(crate) fn outside_client(cluster: &Cluster) -> CosmosClient {
    client(&cluster.network, &Outside(cluster.network.clone()))
}

/// Opens an existing container, without a request.
pub(crate) async fn open_existing(
    client: &CosmosClient,
    container: &str,
) -> ContainerClient<Durable> {
    let database = client.database(DATABASE);
    let opened = keep_trying(|| database.bootstrap::<Documents>(container, Bootstrap::Skip));
    opened.await.expect("it sends no request").view()
}
