//! One run: a cluster, its workloads and its faults, and the judgement.

use std::sync::Arc;
use std::time::Duration;

use cdb_chaos::{CONTAINER, DATABASE, Ledger, check, keep_trying};
use cdb_client::Bootstrap;
use cdb_provider::documents::Durable;
use duroxide::Client;
use tokio::time::{Instant, sleep};

use crate::cluster::{Cluster, Profile};
use crate::faults::Fault;
use crate::node::{client, open_for_clients};
use crate::virtual_time;
use crate::workload::waves;

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct RunConfig {
    /// Decides everything.
    pub seed: u64,
    /// The virtual time with faults.
    pub time: Duration,
    /// The numbers of faults that are left out.
    pub without: Vec<usize>,
    /// Whether every request is printed.
    pub trace: bool,
}

/// What a run found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The hash of every request and answer.
    pub hash: u64,
    /// The number of requests.
    pub requests: u64,
    /// The number of orchestrations that clients started.
    pub orchestrations: usize,
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
    virtual_time::enter(config.seed, simulate(config))
}

async fn simulate(config: &RunConfig) -> Result<Outcome, String> {
    let profile = Profile::draw(config.seed);
    let cluster = Cluster::start(config.seed, profile, config.trace).await?;
    let network = &cluster.network;
    let all = Fault::draw(config.seed, profile.nodes, config.time);
    let faults: Vec<Fault> = all
        .into_iter()
        .enumerate()
        .filter(|(number, _)| !config.without.contains(number))
        .map(|(_, fault)| fault)
        .collect();
    let listed = faults.iter().map(Fault::to_string).collect();

    let outside = client(network, &network.connect(100));
    let provider = keep_trying(|| open_for_clients(&outside)).await?;
    let caller = Arc::new(Client::new(Arc::new(provider)));
    let ledger = keep_trying(|| Ledger::on(&outside)).await?;
    let documents = outside
        .database(DATABASE)
        .bootstrap::<Durable>(CONTAINER, Bootstrap::Skip)
        .await
        .map_err(|error| error.to_string())?;

    let until = Instant::now() + config.time;
    let suffering = tokio::spawn(cluster.clone().suffer(faults));
    let ended = waves(caller, config.seed, until).await;
    suffering.await.map_err(|error| error.to_string())?;
    sleep(Duration::from_secs(1)).await;
    let verdict = check(&ledger, &documents, &ended).await?;
    let problems: Vec<String> = verdict.problems().cloned().collect();
    let days = virtual_time::elapsed().as_secs_f64() / 86_400.0;
    let trace = network.trace();
    let words = problems.iter().filter_map(|problem| instance_of(problem));
    Ok(Outcome {
        hash: trace.hash(),
        requests: trace.count(),
        orchestrations: ended.len(),
        node_days: days * f64::from(u32::try_from(profile.nodes).unwrap_or(0)),
        faults: listed,
        decisions: trace.about(&words.collect::<Vec<_>>(), 200),
        problems,
    })
}

/// Returns the instance that a problem names.
fn instance_of(problem: &str) -> Option<String> {
    let word = problem.split([':', ' ']).next()?;
    Some(word.trim_matches('`').to_owned())
}
