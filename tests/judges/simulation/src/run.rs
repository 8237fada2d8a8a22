//! One run: a cluster, its workloads and its faults, and the judgement.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cdb_provider::record::Recorder;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::subscriber::NoSubscriber;

use crate::caller::Caller;
use crate::cluster::Cluster;
use crate::counted::HandOvers;
use crate::faults::Fault;
use crate::network::Network;
use crate::node::Shared;
use crate::profile::{FixedProfile, Profile};
use crate::stall::Watch;
use crate::virtual_time;
use crate::workload::Workload;
use crate::workloads;

/// The longest virtual time from the last fault to the end, besides retention: of every run, and of
/// a run with eternal orchestrations in addition. A run that takes longer never ends.
const OVERTIME: [Duration; 2] = [Duration::from_secs(7200), Duration::from_secs(10_800)];

/// The most requests that a report shows.
const DECISIONS: usize = 200;

/// The settings of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunConfig {
    /// Decides everything.
    pub(crate) seed: u64,
    /// The virtual time with faults.
    pub(crate) time: Duration,
    /// The name of the only workload; all if `None`.
    pub(crate) only: Option<String>,
    /// The numbers of faults that are left out.
    pub(crate) without: Vec<usize>,
    /// The cluster and the load instead of those drawn from the seed.
    pub(crate) profile: Option<FixedProfile>,
    /// Whether every request is printed.
    pub(crate) trace: bool,
    /// The real time without progress after which the run has failed.
    pub(crate) stall: Duration,
    /// How the run hangs, if it shall.
    pub(crate) hang: Option<Hang>,
    /// The folder for the record of all calls.
    pub(crate) record: Option<PathBuf>,
}

/// What a run found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The hash of every request and answer, as hexadecimal digits.
    pub(crate) hash: String,
    /// The number of requests.
    pub(crate) requests: u64,
    /// The number of messages that turns consumed before they were stored.
    pub(crate) handed_over: u64,
    /// The number of orchestrations that clients started.
    pub(crate) orchestrations: usize,
    /// The number of nodes.
    pub(crate) nodes: usize,
    /// Virtual days multiplied by nodes.
    pub(crate) node_days: f64,
    /// The faults of the run.
    pub(crate) faults: Vec<String>,
    /// What is wrong; empty for a good run.
    pub(crate) problems: Vec<String>,
    /// The latest requests about the problems.
    pub(crate) decisions: Vec<String>,
}

/// How a run hangs, to test how that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Hang {
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
pub(crate) fn run(
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
    let workloads = workloads::all();
    let (seed, time) = (config.seed, config.time);
    let is_only = |it: &&Arc<dyn Workload>| config.only.as_deref() == Some(it.about().name);
    let only = workloads.iter().find(is_only);
    let drawn = || only.map_or_else(|| Profile::draw(seed, time), |it| it.profile(seed, time));
    let profile = config.profile.map_or_else(drawn, FixedProfile::profile);
    let folder = config.record.as_deref();
    let recorder = folder.map(|folder| recorder(folder, config.seed));
    let recorder = recorder.transpose().map_err(|error| error.to_string())?;
    let shared = Shared::new(workloads, recorder.clone());
    let cluster = Cluster::start(config, profile, shared).await?;
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
    let caller = Caller::connect(config, cluster, &faults).await?;
    let suffering = tokio::spawn(cluster.clone().suffer(faults));
    let judges = &cluster.shared.judges;
    let mut watching = JoinSet::new();
    for judge in judges.clone() {
        let cluster = cluster.clone();
        watching.spawn(async move { judge.watch(&cluster).await });
    }
    let seen = Box::pin(caller.work()).await;
    suffering.await.map_err(|error| error.to_string())?;
    cluster.network.heal();
    cluster.healthy().await;
    match config.hang {
        #[expect(clippy::empty_loop, reason = "the test of a run that stands still")]
        Some(Hang::Spinning) => loop {},
        Some(Hang::Waiting) => std::future::pending().await,
        None => {}
    }
    let mut problems = seen.problems.clone();
    while let Some(ended) = watching.try_join_next() {
        if let Err(error) = ended {
            problems.push(format!("a judge failed while it watched: {error}"));
        }
    }
    drop(watching);
    if let Some(recorder) = &cluster.shared.recorder {
        recorder.rest();
    }
    for judge in judges {
        let found = judge.judge(&caller, &seen).await;
        problems.extend(found.map_err(|error| format!("{}: {error}", judge.name()))?);
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

/// Returns the instance that a problem names.
fn subject(problem: &str) -> Option<String> {
    let word = problem.split([':', ' ']).next()?;
    Some(word.trim_matches('`').to_owned())
}
