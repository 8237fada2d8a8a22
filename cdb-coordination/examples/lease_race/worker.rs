//! One process: leases documents of this round, works, and releases them. Prints a line per lease,
//! because it may be killed at any time.

use std::error::Error;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_coordination::Leases;
use cdb_coordination::lease::LeaseGuard;
use cdb_model::operation::Lease;
use cdb_model::{Container, Document, Patch, Query};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};

/// How many documents a process leases at once.
const BATCH: usize = 20;

/// The duration of the work on a batch.
const WORK: Duration = Duration::from_millis(50);

const VARIABLE: &str = "LEASE_RACE_TASK";

/// A document of the race.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "job", id = "{lane}:{number}")]
pub(crate) struct Job {
    #[document(partition_key)]
    pub(crate) lane: String,
    pub(crate) number: u64,
    /// The last round in which it was worked on.
    #[document(index)]
    pub(crate) round: u64,
    /// How often it was worked on.
    #[document(index)]
    pub(crate) times: u64,
    #[document(lease)]
    pub(crate) lease: Lease,
}

#[derive(Container, Clone, Debug)]
pub(crate) enum Jobs {
    Job(Job),
}

/// The task of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) endpoint: String,
    pub(crate) key: String,
    pub(crate) holder: String,
    pub(crate) round: u64,
    pub(crate) lease: Duration,
}

impl Task {
    /// Reads the task from the environment; `None` in the parent process.
    pub(crate) fn from_env() -> Result<Option<Self>, serde_json::Error> {
        std::env::var(VARIABLE)
            .ok()
            .map(|text| serde_json::from_str(&text))
            .transpose()
    }

    /// Passes the task to a process before it starts.
    pub(crate) fn hand_to(&self, process: &mut Command) -> Result<(), serde_json::Error> {
        process.env(VARIABLE, serde_json::to_string(self)?);
        Ok(())
    }

    /// Opens the container of documents.
    pub(crate) async fn open(
        &self,
        mode: Bootstrap,
    ) -> Result<ContainerClient<Jobs>, cdb_client::Error> {
        let client = CosmosClient::builder(&self.endpoint)
            .credential(MasterKey::new(&self.key)?)
            .build()?;
        client.database("race").bootstrap("jobs", mode).await
    }
}

/// Works until the round has no free documents.
pub(crate) async fn work(task: &Task) -> Result<(), Box<dyn Error>> {
    let jobs = task.open(Bootstrap::Skip).await?;
    let leases = Leases::<Jobs, Job>::new(&jobs, &*task.holder).with_duration(task.lease);
    let open = || Query::<Job>::across_partitions().filter(Job::ROUND.lt(task.round));
    loop {
        let taken = leases.take_next(open(), BATCH).await?;
        if taken.is_empty() {
            if jobs.query(open().count()).first().await?.unwrap_or(0) == 0 {
                return Ok(());
            }
            // Other processes hold the rest, or held it when they were killed.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        taken.iter().try_for_each(say)?;
        tokio::time::sleep(WORK).await;
        try_join_all(taken.into_iter().map(|guard| finish(guard, task.round))).await?;
    }
}

async fn finish(guard: LeaseGuard<Jobs, Job>, round: u64) -> Result<(), Box<dyn Error>> {
    let done = Patch::new().set(Job::ROUND, round).incr(Job::TIMES, 1);
    match guard.release_with(done).await {
        // Another process has the document and does the work.
        Err(error) if error.is_lost() => Ok(()),
        finished => Ok(finished?),
    }
}

/// Prints one line in one write, so that a killed process leaves whole lines.
fn say(guard: &LeaseGuard<Jobs, Job>) -> std::io::Result<()> {
    let (number, token) = (guard.document().number, guard.token());
    let line = format!("leased {number} {token}\n");
    std::io::stdout().write_all(line.as_bytes())
}
