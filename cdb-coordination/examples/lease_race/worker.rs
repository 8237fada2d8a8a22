//! One of the processes: takes documents that were not worked on in this round, works, gives them back, and says so line by
//! line, because it may be killed at any moment.

use std::error::Error;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_coordination::{LeaseGuard, Leases};
use cdb_model::{Container, Document, Lease, Patch, Query};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};

/// Documents that a process takes at a time.
const BATCH: usize = 20;

/// What the work on a batch takes.
const WORK: Duration = Duration::from_millis(50);

const VARIABLE: &str = "LEASE_RACE_TASK";

/// What is competed for.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "job", id = "{lane}:{number}")]
pub(crate) struct Job {
    #[document(partition_key)]
    pub(crate) lane: String,
    pub(crate) number: u64,
    /// The last round in which somebody worked on it.
    #[document(index)]
    pub(crate) round: u64,
    /// How often somebody did.
    #[document(index)]
    pub(crate) times: u64,
    #[document(lease)]
    pub(crate) lease: Lease,
}

#[derive(Container, Clone, Debug)]
#[container(partition_key = "/lane")]
pub(crate) enum Jobs {
    Job(Job),
}

/// What a process is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) endpoint: String,
    pub(crate) key: String,
    pub(crate) holder: String,
    pub(crate) round: u64,
    pub(crate) lease: Duration,
}

impl Task {
    /// The task that this process was started for, if it was.
    pub(crate) fn from_env() -> Result<Option<Self>, serde_json::Error> {
        std::env::var(VARIABLE)
            .ok()
            .map(|text| serde_json::from_str(&text))
            .transpose()
    }

    /// Gives the task to a process that is about to start.
    pub(crate) fn hand_to(&self, process: &mut Command) -> Result<(), serde_json::Error> {
        process.env(VARIABLE, serde_json::to_string(self)?);
        Ok(())
    }

    /// The documents, as this process sees them.
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

/// Works until nothing of the round is left.
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
            // What is left is in the hands of others, or of the dead.
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
        // Somebody else has it, and does what was to be done.
        Err(error) if error.is_lost() => Ok(()),
        finished => Ok(finished?),
    }
}

/// One line, in one write: a process that is killed leaves whole ones.
fn say(guard: &LeaseGuard<Jobs, Job>) -> std::io::Result<()> {
    let (number, token) = (guard.document().number, guard.token());
    let line = format!("leased {number} {token}\n");
    std::io::stdout().write_all(line.as_bytes())
}
