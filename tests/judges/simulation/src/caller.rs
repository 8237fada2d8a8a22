//! The clients of a run: they run its workloads, and collect what these have seen.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use cdb_chaos::{CONTAINER, DATABASE, Documents, Ended, Ledger, keep_trying};
use cdb_client::{Bootstrap, ContainerClient, CosmosClient};
use cdb_provider::CosmosDBProvider;
use duroxide::{Client, OrchestrationStatus};
use futures::future::join_all;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::cluster::Cluster;
use crate::faults::{Fault, Weather};
use crate::node::{client, open_for_clients};
use crate::random::Random;
use crate::run::RunConfig;

/// The longest time that due work may wait, while a healthy node lives.
pub(crate) const BOUND: Duration = Duration::from_secs(1800);

/// The time after a fault in which its delays may go on: backoffs and locks end.
const RECOVERY: Duration = Duration::from_secs(60);

/// The node number of the clients in the trace.
const CLIENTS: u32 = 100;

/// Access to the cluster from outside, and what a run does.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) client: Arc<Client>,
    pub(crate) provider: Arc<CosmosDBProvider>,
    pub(crate) ledger: Ledger,
    pub(crate) documents: ContainerClient<Documents>,
    pub(crate) outside: CosmosClient,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) seed: u64,
    /// The name of the only workload; all if `None`.
    pub(crate) only: Option<String>,
    /// The virtual time with faults.
    pub(crate) time: Duration,
    pub(crate) began: Instant,
    pub(crate) until: Instant,
    /// The times when faults can delay all nodes, since the start of the work. `None` if late
    /// orchestrations are no problem.
    pub(crate) delays: Option<Arc<[Range<Duration>]>>,
}

/// What the clients of a run have seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The orchestrations that are judged by their histories and bookings.
    pub(crate) ended: Vec<Ended>,
    /// The number of other orchestrations.
    pub(crate) others: usize,
    pub(crate) problems: Vec<String>,
}

impl Caller {
    /// Opens what clients of the cluster need, and prepares the workloads.
    pub(crate) async fn connect(
        config: &RunConfig,
        cluster: &Arc<Cluster>,
        faults: &[Fault],
    ) -> Result<Self, String> {
        let (network, shared) = (&cluster.network, &cluster.shared);
        let outside = client(network, &network.connect(CLIENTS));
        let provider = Arc::new(keep_trying(|| open_for_clients(&outside)).await?);
        let ledger = keep_trying(|| Ledger::on(&outside)).await?;
        let database = outside.database(DATABASE);
        let documents = keep_trying(|| database.bootstrap(CONTAINER, Bootstrap::Skip)).await?;
        for workload in &shared.workloads {
            workload.prepare(&outside).await?;
        }
        let delays = faults.iter().filter_map(|fault| {
            let until = fault.delays_until(cluster.profile.nodes)?;
            Some(fault.at..until + RECOVERY)
        });
        let is_calm = cluster.profile.weather == Weather::Calm;
        Ok(Self {
            client: Arc::new(Client::new(shared.recorded(provider.clone(), None))),
            provider,
            ledger,
            documents,
            outside,
            seed: config.seed,
            only: config.only.clone(),
            time: config.time,
            began: Instant::now(),
            until: Instant::now() + config.time,
            delays: is_calm.then(|| delays.collect()),
            cluster: cluster.clone(),
        })
    }

    /// Runs the workloads, and waits for the ends of what they started.
    pub(crate) async fn work(&self) -> Seen {
        let works = self.cluster.shared.workloads.iter();
        let works = works.filter(|workload| match &self.only {
            Some(only) => only == workload.about().name,
            None => workload.is_drawn(self.seed, self.time),
        });
        let all = join_all(works.map(|workload| workload.run(self))).await;
        all.into_iter().collect()
    }

    /// Returns whether the time has not ended.
    pub(crate) fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// Waits for a drawn time, until the end of all time at most.
    pub(crate) async fn rest(&self, random: &mut Random, pause: Range<Duration>) {
        self.rest_for(random.duration(pause)).await;
    }

    /// Waits for a time, until the end of all time at most.
    pub(crate) async fn rest_for(&self, pause: Duration) {
        sleep_until(self.until.min(Instant::now() + pause)).await;
    }

    /// Returns the output of an instance, or the message of its failure. `None` if it does not end
    /// in time.
    pub(crate) async fn end(&self, instance: &str) -> Option<String> {
        self.end_after(instance, Duration::ZERO).await
    }

    /// Waits until an instance is due, and returns its output likewise.
    pub(crate) async fn end_after(&self, instance: &str, due: Duration) -> Option<String> {
        sleep(due).await;
        let deadline = Instant::now() + BOUND;
        while Instant::now() < deadline {
            let status = keep_trying(|| self.client.get_orchestration_status(instance)).await;
            match status {
                Ok(OrchestrationStatus::Completed { output, .. }) => return Some(output),
                Ok(OrchestrationStatus::Failed { details, .. }) => {
                    return Some(details.display_message());
                }
                _ => sleep(Duration::from_secs(5)).await,
            }
        }
        None
    }

    /// Returns what is wrong with the end of an instance.
    pub(crate) async fn misses(&self, instance: &str, expected: &str) -> Option<String> {
        differs(instance, self.end(instance).await.as_deref(), expected)
    }
}

/// Compares the end of an instance with the expected one.
pub(crate) fn differs(instance: &str, end: Option<&str>, expected: &str) -> Option<String> {
    (end != Some(expected)).then(|| format!("{instance}: {end:?}"))
}

impl Seen {
    pub(crate) fn of(problems: Vec<String>) -> Self {
        Self {
            problems,
            ..Self::default()
        }
    }

    /// Starts an orchestration.
    pub(crate) async fn start(&mut self, caller: &Caller, instance: &str, name: &str, input: &str) {
        let start = || caller.client.start_orchestration(instance, name, input);
        self.others += 1;
        if let Err(error) = keep_trying(start).await {
            self.problems
                .push(format!("{instance}: it cannot start: {error}"));
        }
    }

    /// Waits for tasks, and adds their problems.
    pub(crate) async fn gather<P>(mut self, mut following: JoinSet<P>) -> Self
    where
        P: IntoIterator<Item = String> + 'static,
    {
        while let Some(one) = following.join_next().await {
            self.problems.extend(one.expect("a client does not panic"));
        }
        self
    }
}

impl FromIterator<Self> for Seen {
    fn from_iter<I: IntoIterator<Item = Self>>(all: I) -> Self {
        let mut sum = Self::default();
        for seen in all {
            sum.ended.extend(seen.ended);
            sum.others += seen.others;
            sum.problems.extend(seen.problems);
        }
        sum
    }
}
