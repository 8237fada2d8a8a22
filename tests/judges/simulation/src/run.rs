//! One run: a cluster, its workloads and its faults, and the judgement.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cdb_chaos::{CONTAINER, DATABASE, Documents, Ledger, check, keep_trying};
use cdb_client::{Bootstrap, CosmosClient};
use cdb_model::{Query, Stored};
use cdb_provider::documents::{Durable, SCHEMA_PARTITION};
use cdb_provider::record::Recorder;
use cdb_tests::instance_id;
use clap::ValueEnum;
use duroxide::Client;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};
use tracing::subscriber::NoSubscriber;

use crate::bank::BankClient;
use crate::cluster::Cluster;
use crate::counted::HandOvers;
use crate::equal::EqualClient;
use crate::faults::{Fault, Weather};
use crate::invariants::Invariants;
use crate::network::Network;
use crate::node::{client, open_for_clients};
use crate::profile::{FixedProfile, Profile};
use crate::stall::Watch;
use crate::streams::StreamClient;
use crate::virtual_time;
use crate::waiting::Judge;
use crate::workload::{Caller, WorkPlan, Workload};

/// The time that ended work has to be purged, after its retention.
const PURGE: Duration = Duration::from_secs(3600);

/// Shorter runs end before anything is purged.
const SHORTEST_WITH_PURGE: Duration = Duration::from_secs(3600);

/// The longest virtual time from the last fault to the end, besides retention: of every run, and of
/// a run with eternal orchestrations in addition. A run that takes longer never ends.
const OVERTIME: [Duration; 2] = [Duration::from_secs(7200), Duration::from_secs(10_800)];

/// The time after a fault in which its delays may go on: backoffs and locks end.
const RECOVERY: Duration = Duration::from_secs(60);

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
    /// The cluster and the load instead of those drawn from the seed.
    pub profile: Option<FixedProfile>,
    /// Whether every request is printed.
    pub trace: bool,
    /// The real time without progress after which the run has failed.
    pub stall: Duration,
    /// How the run hangs, if it shall.
    pub hang: Option<Hang>,
    /// The folder for the record of all calls.
    pub record: Option<PathBuf>,
}

/// What a run found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The hash of every request and answer, as hexadecimal digits.
    pub hash: String,
    /// The number of requests.
    pub requests: u64,
    /// The number of messages that turns consumed before they were stored.
    pub handed_over: u64,
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

/// How a run hangs, to test how that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Hang {
    /// No virtual time passes.
    Spinning,
    /// Virtual time passes without end.
    Waiting,
}

/// Runs a seed in virtual time. Call it once per process. Calls `stalled` in another thread if the
/// run stands still; this call then does not return.
///
/// # Errors
/// When the cluster cannot start or be judged.
pub fn run(
    config: &RunConfig,
    stalled: impl FnOnce(Outcome) + Send + 'static,
) -> Result<Outcome, String> {
    if !config.trace {
        // Otherwise the runtime prints the warnings of every fault.
        let silent = tracing::subscriber::set_global_default(NoSubscriber::default());
        silent.map_err(|error| error.to_string())?;
    }
    virtual_time::enter(config.seed, simulate(config, stalled))
}

async fn simulate(
    config: &RunConfig,
    stalled: impl FnOnce(Outcome) + Send + 'static,
) -> Result<Outcome, String> {
    let drawn = || match config.only {
        Some(Workload::Limited) => Profile::draw_limited(config.seed, config.time),
        _ => Profile::draw(config.seed, config.time),
    };
    let profile = config.profile.map_or_else(drawn, FixedProfile::profile);
    let folder = config.record.as_deref();
    let recorder = folder.map(|folder| recorder(folder, config.seed));
    let recorder = recorder.transpose().map_err(|error| error.to_string())?;
    let cluster = Cluster::start(config, profile, recorder.clone()).await?;
    let faults = faults(config, &profile);
    let mut outcome = Outcome {
        nodes: profile.nodes,
        faults: faults.iter().map(Fault::to_string).collect(),
        ..Outcome::default()
    };
    let hand_overs = HandOvers::record()?;
    let network = cluster.network.clone();
    let partial = outcome.clone();
    let _watch = Watch::start(network.clone(), config.stall, move |network, problem| {
        stalled(partial.ended(network, vec![problem]));
    });
    let overtime = OVERTIME[0] + OVERTIME[1].min(config.time * 3);
    let longest = config.time + profile.node.retention + overtime;
    let living = Box::pin(live(config, &cluster, faults));
    let judged = timeout(longest, living).await;
    let problems = match judged {
        Ok(judged) => {
            let (orchestrations, problems) = judged?;
            outcome.orchestrations = orchestrations;
            problems
        }
        Err(_) => vec![format!(
            "the run has not ended after {} s of virtual time",
            longest.as_secs()
        )],
    };
    if let Some(recorder) = recorder {
        recorder.finish().map_err(|error| error.to_string())?;
    }
    outcome.handed_over = hand_overs.count();
    Ok(outcome.ended(&network, problems))
}

/// Creates the record of a seed. The recorders of nodes follow the same virtual clock.
fn recorder(folder: &Path, seed: u64) -> std::io::Result<Recorder> {
    std::fs::create_dir_all(folder)?;
    let file = folder.join(format!("seed-{seed}.jsonl"));
    if file.exists() {
        std::fs::remove_file(&file)?;
    }
    let recorder = Recorder::with_clock(file, "clients", "simulated")?;
    recorder.retention();
    Ok(recorder)
}

/// Returns the faults of a run.
fn faults(config: &RunConfig, profile: &Profile) -> Vec<Fault> {
    let (seed, nodes, weather) = (config.seed, profile.nodes, profile.weather);
    let mut drawn = Fault::draw(seed, nodes, weather, config.time);
    if config.profile.is_none() {
        drawn.extend(Fault::draw_long(seed, nodes, weather, config.time));
    }
    drawn.extend(Fault::draw_sorts(seed, weather, config.time));
    if profile.partition_failover {
        drawn.extend(Fault::draw_partition_failovers(seed, weather, config.time));
    }
    let kept = drawn.into_iter().enumerate();
    let kept = kept.filter(|(number, _)| !config.without.contains(number));
    let mut faults: Vec<Fault> = kept.map(|(_, fault)| fault).collect();
    faults.sort_by_key(|fault| fault.at);
    faults
}

/// Runs the workloads under faults and judges them. Returns the number of orchestrations, and the
/// problems.
async fn live(
    config: &RunConfig,
    cluster: &Arc<Cluster>,
    faults: Vec<Fault>,
) -> Result<(usize, Vec<String>), String> {
    let (network, profile) = (&cluster.network, cluster.profile);
    let outside = client(network, &network.connect(CLIENTS));
    let caller = connect(&outside, cluster).await?;
    let delays = faults.iter().filter_map(|fault| {
        let until = fault.delays_until(profile.nodes)?;
        Some(fault.at..until + RECOVERY)
    });
    let delays = delays.collect();
    let suffering = tokio::spawn(cluster.clone().suffer(faults));
    let judge = Judge::new(cluster);
    let watching = tokio::spawn(judge.clone().watch());
    let invariants = Invariants::new(cluster);
    let checking = tokio::spawn(invariants.clone().watch());
    let plan = WorkPlan {
        seed: config.seed,
        only: config.only,
        until: Instant::now() + config.time,
        nodes: profile.nodes,
        outside,
        retention: profile.node.retention,
        wave: profile.wave,
        delays: (profile.weather == Weather::Calm).then_some(delays),
    };
    let seen = Box::pin(caller.work(&plan)).await;
    suffering.await.map_err(|error| error.to_string())?;
    network.heal();
    cluster.healthy().await;
    match config.hang {
        #[expect(clippy::empty_loop, reason = "the test of a run that stands still")]
        Some(Hang::Spinning) => loop {},
        Some(Hang::Waiting) => std::future::pending().await,
        None => {}
    }
    watching.abort();
    checking.abort();
    let problems = seen.problems.iter();
    let problems = problems.filter_map(|problem| without_late_starts(network, problem));
    let mut problems: Vec<String> = problems.collect();
    problems.extend(judge.problems());
    problems.extend(invariants.problems());
    problems.extend(cluster.shared.handling.problems());
    if let Some(recorder) = &cluster.shared.recorder {
        recorder.rest();
    }
    let verdict = check(&caller.ledger, &caller.documents, &seen.ended).await?;
    let found = verdict.problems();
    problems.extend(found.filter_map(|problem| without_late_writes(network, problem)));
    if config.time >= SHORTEST_WITH_PURGE {
        sleep(profile.node.retention + PURGE).await;
        problems.extend(leftovers(&caller, profile.nodes).await?);
    }
    Ok((seen.ended.len() + seen.others, problems))
}

impl Outcome {
    /// Completes the outcome of a run that has ended or stands still.
    fn ended(mut self, network: &Network, problems: Vec<String>) -> Self {
        let trace = network.trace();
        let days = trace.reached().as_secs_f64() / 86_400.0;
        self.node_days = days * f64::from(u32::try_from(self.nodes).unwrap_or(0));
        self.hash = format!("{:016x}", trace.hash());
        self.requests = trace.count();
        if !problems.is_empty() {
            let subjects: Vec<String> = problems.iter().filter_map(|it| subject(it)).collect();
            self.decisions = trace.about(&subjects, DECISIONS);
            if self.decisions.is_empty() {
                self.decisions = trace.about(&[], DECISIONS);
            }
        }
        self.problems = problems;
        self
    }
}

/// Opens what clients of the cluster need.
async fn connect(outside: &CosmosClient, cluster: &Arc<Cluster>) -> Result<Caller, String> {
    let shared = &cluster.shared;
    let provider = keep_trying(|| open_for_clients(outside)).await?;
    let database = outside.database(DATABASE);
    let documents = keep_trying(|| database.bootstrap::<Documents>(CONTAINER, Bootstrap::Skip));
    let provider = Arc::new(provider);
    Ok(Caller {
        client: Arc::new(Client::new(shared.recorded(provider.clone(), None))),
        provider,
        limited: shared.limited.clone(),
        pauses: shared.pauses.clone(),
        ledger: keep_trying(|| Ledger::on(outside)).await?,
        documents: documents.await?,
        streams: StreamClient::connect(outside, shared).await?,
        bank: BankClient::connect(outside, &shared.bank).await?,
        equal: EqualClient::connect(outside, &shared.equal, cluster.network.clone()).await?,
        sent: shared.sent.clone(),
        cluster: cluster.clone(),
    })
}

/// Returns the problem of an instance that is started again and again, unless a start of it arrived
/// a second time, after the deletion of its life: duroxide ignores the next start (docs/errors.md,
/// "Not covered").
fn without_late_starts(network: &Network, problem: &str) -> Option<String> {
    let name = problem.strip_suffix(" has not ended");
    let name = name
        .and_then(|name| name.split_once(": life-"))
        .map(|it| it.0);
    let is_explained = name.is_some_and(|name| {
        let start = format!(r#"{{\"StartOrchestration\":{{\"instance\":\"{name}\""#);
        network.wrote_late(|body| body.contains(&start))
    });
    (!is_explained).then(|| problem.to_owned())
}

/// Returns a problem of an instance without what a creation explains that arrived a second time,
/// after its document was deleted (docs/errors.md, "Not covered").
fn without_late_writes(network: &Network, problem: &str) -> Option<String> {
    let Some((instance, found)) = problem.split_once("`: ") else {
        return Some(problem.to_owned());
    };
    let id = instance.trim_start_matches('`');
    // The creation of an instance is a request of its own, those of chunks are in batches.
    let created = format!("{{\"id\":\"{id}:instance\"");
    let is_created = network.wrote_late(|body| body.starts_with(&created));
    let left = found.split("; ").filter(|problem| {
        let Some(part) = problem.strip_prefix("nothing refers to chunk ") else {
            return !is_created;
        };
        let part = format!("\"part\":\"{part}\"");
        !network.wrote_late(|body| body.contains(&part))
    });
    let left: Vec<&str> = left.collect();
    (!left.is_empty()).then(|| format!("{instance}`: {}", left.join("; ")))
}

/// Returns documents and tasks that are left when everything has ended and was purged.
async fn leftovers(caller: &Caller, nodes: usize) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    let own = caller.documents.view::<Durable>();
    let all = || {
        own.query(Query::<Durable>::across_partitions())
            .row_by_row()
            .all()
    };
    // Documents of other types belong to the workloads.
    let documents = keep_trying(all).await?.into_iter().filter_map(Result::ok);
    let documents: Vec<Stored<Durable>> = documents.collect();
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
