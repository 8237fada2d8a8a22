//! Opens everything that a process needs to handle messages, and stops it in the right order.

use std::sync::Arc;

use cdb_client::CosmosClient;
use cdb_coordination::Membership;
use cdb_coordination::membership::{MemberState, MembershipConfig};
use tokio::time::timeout;

use super::handler::WorkHandlers;
use super::processor::{RunConfig, WorkRun};
use crate::config::WorkConfig;
use crate::coordinator::handle::WorkCoordinator;
use crate::error::WorkError;
use crate::streams::documents::{Work, WorkMember};

/// A member that handles messages, from [`Work::start`].
#[derive(Debug)]
pub struct StartedWork {
    run: WorkRun,
    coordinator: WorkCoordinator,
    members: Arc<Membership>,
}

impl Work {
    /// Opens a container, which is created if it is missing, shares its work with the other members,
    /// and runs handlers, all with the default configurations. Any number of processes may do so.
    /// [`WorkCoordinator::open`] and [`WorkCoordinator::run`] are the parts of it.
    ///
    /// ```no_run
    /// use cdb_client::CosmosClient;
    /// use cdb_work::{NewWork, Work, WorkError, WorkHandlers};
    ///
    /// async fn start(client: &CosmosClient) -> Result<(), WorkError> {
    ///     let handlers = WorkHandlers::new().otherwise(async |work| Ok(work.done()));
    ///     let work = Work::start(client, "shop", "work", handlers).await?;
    ///     let paid = NewWork::inbox("order-7", "paid-1");
    ///     work.coordinator().immediate().store(paid).await?;
    ///     work.stop().await
    /// }
    /// ```
    ///
    /// # Errors
    /// When the container cannot be opened; otherwise as [`WorkCoordinator::open`].
    pub async fn start(
        client: &CosmosClient,
        database: &str,
        container: &str,
        handlers: WorkHandlers,
    ) -> Result<StartedWork, WorkError> {
        let container = client.open::<Self>(database, container).await?;
        let config = MembershipConfig::default();
        let members = Membership::start::<WorkMember, Self>(container.clone(), config);
        let members = Arc::new(members);
        let work = WorkConfig::default();
        // A member that is not on the roster yet would take partitions and release them again. One
        // that cannot reach the roster works alone.
        let mut views = members.watch();
        let joined = views.wait_for(|view| view.state() != MemberState::Joining);
        let _late = timeout(work.lease, joined).await;
        let coordinator = WorkCoordinator::open(container, members.clone(), work).await?;
        Ok(StartedWork {
            run: coordinator.run(RunConfig::default(), handlers),
            coordinator,
            members,
        })
    }
}

impl StartedWork {
    /// The coordinator, to store messages.
    pub fn coordinator(&self) -> &WorkCoordinator {
        &self.coordinator
    }

    /// Waits for running handlers, writes their results, and gives the work to the other members.
    ///
    /// # Errors
    /// When results could not be written. Their messages are handed out again.
    pub async fn stop(self) -> Result<(), WorkError> {
        let stopped = self.run.stop().await;
        let shut_down = self.coordinator.shutdown().await;
        self.members.leave().await;
        stopped.and(shut_down)
    }
}
