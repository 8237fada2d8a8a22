//! One run: a cluster, its workloads and its faults, and the judgement.

use std::sync::Arc;
use std::time::Duration;

use cdb_chaos::{CONTAINER, DATABASE, Ledger, check, keep_trying};
use cdb_client::{Bootstrap, CosmosClient};
use cdb_model::{Query, Stored};
use cdb_provider::documents::{Durable, SCHEMA_PARTITION};
use cdb_tests::instance_id;
use duroxide::Client;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use tracing::subscriber::NoSubscriber;

use crate::cluster::{Cluster, Profile};
use crate::faults::Fault;
use crate::node::{client, open_for_clients};
use crate::streams::{Record, StreamClient};
use crate::virtual_time;
use crate::workload::{Caller, WorkPlan, Workload};

/// The time that ended work has to be purged, after its retention.
const PURGE: Duration = Duration::from_secs(3600);

/// Shorter runs end before anything is purged.
const SHORTEST_WITH_PURGE: Duration = Duration::from_secs(3600);

/// Tasks of an idle node.
const TASKS_PER_NODE: usize = 100;

/// The node number of the clients in the trace.
const CLIENTS: u32 = 100;

/// The most requests that a report shows.
const DECISIONS: usize = 200;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Decides everything.
    pub seed: u64,
    /// The virtual time with faults.
    pub time: Duration,
    /// The only workload; all if `None`.
    pub only: Option<Workload>,
    /// The numbers of faults that are left out.
    pub without: Vec<usize>,
    /// Whether every request is printed.
    pub trace: bool,
}

/// What a run found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The hash of every request and answer, as hexadecimal digits.
    pub hash: String,
    /// The number of requests.
    pub requests: u64,
    /// The number of orchestrations that clients started.
    pub orchestrations: usize,
    /// The number of nodes.
    pub nodes: usize,
    /// Virtual days multiplied by nodes.
    pub node_days: f64,
    /// The faults of the run.
    pub faults: Vec<String>,
    /// What is wrong; empty for a good run.
    pub problems: Vec<String>,
    /// The latest requests about the problems.
    pub decisions: Vec<String>,
}

/// Runs a seed in virtual time. Call it once per process.
///
/// # Errors
/// When the cluster cannot start or be judged.
pub fn run(config: &RunConfig) -> Result<Outcome, String> {
    if !config.trace {
        // Otherwise the runtime prints the warnings of every fault.
        let silent = tracing::subscriber::set_global_default(NoSubscriber::default());
        silent.map_err(|error| error.to_string())?;
    }
    virtual_time::enter(config.seed, simulate(config))
}

async fn simulate(config: &RunConfig) -> Result<Outcome, String> {
    let profile = Profile::draw(config.seed, config.time);
    let cluster = Cluster::start(config.seed, profile, config.trace).await?;
    let network = cluster.network.clone();
    let outside = client(&network, &network.connect(CLIENTS));
    let caller = connect(&outside, &cluster.record).await?;
    let drawn = Fault::draw(config.seed, profile.nodes, profile.weather, config.time).into_iter();
    let kept = drawn
        .enumerate()
        .filter(|(number, _)| !config.without.contains(number));
    let faults: Vec<Fault> = kept.map(|(_, fault)| fault).collect();
    let mut outcome = Outcome {
        nodes: profile.nodes,
        faults: faults.iter().map(Fault::to_string).collect(),
        ..Outcome::default()
    };

    let suffering = tokio::spawn(cluster.clone().suffer(faults));
    let plan = WorkPlan {
        seed: config.seed,
        only: config.only,
        until: Instant::now() + config.time,
        retention: profile.node.retention,
        weather: profile.weather,
    };
    let seen = caller.work(&plan).await;
    suffering.await.map_err(|error| error.to_string())?;
    network.heal();
    cluster.healthy().await;
    outcome.orchestrations = seen.ended.len() + seen.others;
    outcome.problems = seen.problems;
    let verdict = check(&caller.ledger, &caller.documents, &seen.ended).await?;
    outcome.problems.extend(verdict.problems().cloned());
    if config.time >= SHORTEST_WITH_PURGE {
        sleep(profile.node.retention + PURGE).await;
        let left = leftovers(&caller, profile.nodes).await?;
        outcome.problems.extend(left);
    }

    let days = virtual_time::elapsed().as_secs_f64() / 86_400.0;
    outcome.node_days = days * f64::from(u32::try_from(profile.nodes).unwrap_or(0));
    let trace = network.trace();
    outcome.hash = format!("{:016x}", trace.hash());
    outcome.requests = trace.count();
    let subjects: Vec<String> = outcome
        .problems
        .iter()
        .filter_map(|it| subject(it))
        .collect();
    outcome.decisions = trace.about(&subjects, DECISIONS);
    Ok(outcome)
}

/// Opens what clients of the cluster need.
async fn connect(outside: &CosmosClient, record: &Record) -> Result<Caller, String> {
    let provider = keep_trying(|| open_for_clients(outside)).await?;
    let database = outside.database(DATABASE);
    let documents = keep_trying(|| database.bootstrap::<Durable>(CONTAINER, Bootstrap::Skip));
    Ok(Caller {
        client: Arc::new(Client::new(Arc::new(provider))),
        ledger: keep_trying(|| Ledger::on(outside)).await?,
        documents: documents.await?,
        streams: StreamClient::connect(outside, record).await?,
    })
}

/// Returns documents and tasks that are left when everything has ended and was purged.
async fn leftovers(caller: &Caller, nodes: usize) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    let all = || {
        caller
            .documents
            .query(Query::<Durable>::across_partitions())
            .all()
    };
    let documents = keep_trying(all).await?;
    let orphans: Vec<&str> = documents
        .iter()
        .filter(|stored| is_orphan(stored))
        .map(|it| it.id.as_str())
        .collect();
    if !orphans.is_empty() {
        let sample = &orphans[..orphans.len().min(20)];
        problems.push(format!(
            "{} documents are left, such as {sample:?}",
            orphans.len()
        ));
    }
    let tasks = Handle::current().metrics().num_alive_tasks();
    if tasks > TASKS_PER_NODE * (nodes + 1) {
        problems.push(format!("{tasks} tasks are left on {nodes} nodes"));
    }
    Ok(problems)
}

/// Returns whether a document belongs to an instance. A session may wait for the next cleanup.
fn is_orphan(stored: &Stored<Durable>) -> bool {
    let instance = instance_id(&stored.document);
    instance.is_some_and(|id| id != SCHEMA_PARTITION)
        && !matches!(stored.document, Durable::Session(_))
}

/// Returns the instance that a problem names.
fn subject(problem: &str) -> Option<String> {
    let word = problem.split([':', ' ']).next()?;
    Some(word.trim_matches('`').to_owned())
}
