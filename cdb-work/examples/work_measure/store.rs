//! An embedded emulator with a container of ordered work.

use std::sync::Arc;
use std::time::Duration;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_coordination::membership::InMemoryLeaseProvider;
use cdb_emulator::Emulator;
use cdb_model::Container;
use cdb_work::{Work, WorkConfig, WorkCoordinator};

use crate::Failure;

pub(crate) struct Store<C> {
    pub(crate) emulator: Emulator,
    pub(crate) container: ContainerClient<C>,
}

impl<C: Container> Store<C> {
    /// Starts an emulator that delays every response by `round_trip`.
    pub(crate) async fn start(round_trip: Duration) -> Result<Self, Failure> {
        let mut builder = Emulator::builder();
        if !round_trip.is_zero() {
            builder = builder.latency(round_trip);
        }
        let emulator = builder.start().await?;
        let client = CosmosClient::builder(emulator.endpoint())
            .credential(MasterKey::new(emulator.key())?)
            .build()?;
        let database = client.database("measure");
        let container = database.bootstrap("work", Bootstrap::CreateIfMissing);
        Ok(Self {
            container: container.await?,
            emulator,
        })
    }
}

impl Store<Work> {
    /// Opens the coordinators of `members` members with equal shares.
    pub(crate) async fn open(
        &self,
        members: u32,
        config: &WorkConfig,
    ) -> Result<Vec<WorkCoordinator>, Failure> {
        let mut works = Vec::new();
        for index in 0..members {
            let share = Arc::new(InMemoryLeaseProvider::share(index, members));
            works.push(WorkCoordinator::open(self.container.clone(), share, config.clone()).await?);
        }
        Ok(works)
    }
}
