//! One measurement (an empty store, a child process, a workload, the counts), and the medians of
//! several.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_emulator::Fault;

use crate::args::Args;
use crate::postgres::Postgres;
use crate::process::Process;
use crate::site::{Site, Traffic};
use crate::workload::{Kind, Orchestrations};
use cdb_bench_child::{Job, Load, Outcome, Peer, Usage};

/// How long an idle runtime waits before it is measured, so that its polls have slowed down.
const SETTLE: Duration = Duration::from_secs(5);
/// How long an idle runtime is measured.
const IDLE: Duration = Duration::from_secs(10);
/// The share of the requests that fail.
const FAULT_SHARE: f64 = 0.05;
/// Orchestrations that the peers run under faults. Each stuck one takes the time below.
const FAULTY_FOR_PEERS: usize = 20;
/// Seconds without an end after which the remaining orchestrations are given up. Longer than any
/// lock.
const FAULT_PATIENCE: f64 = 40.0;

/// The result of one run, or the median of several: per orchestration, or per second for an idle
/// runtime.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Orchestrations that ended.
    pub ended: usize,
    pub requests: f64,
    pub kinds: BTreeMap<String, f64>,
    pub charge: Option<f64>,
    pub kilobytes: f64,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
    pub per_second: Option<f64>,
    /// Processor time of the runtime's process in milliseconds.
    pub cpu: f64,
    /// The most resident memory of the runtime's process, in MB.
    pub memory: f64,
    /// Orchestrations without the right result, and how many ran.
    pub wrong: Option<(usize, usize)>,
    /// SQL texts and how often each was sent.
    pub queries: BTreeMap<String, u64>,
}

/// Measures a workload for a provider several times.
pub async fn measure(
    args: &Args,
    peer: Peer,
    kind: Kind,
    postgres: Option<&Postgres>,
) -> Result<Figures, String> {
    let kind = sized(args, peer, kind);
    // A thousand orchestrations are a large enough sample.
    let runs = if matches!(kind, Kind::Faults(_)) {
        1
    } else {
        args.runs
    };
    let mut all = Vec::new();
    for _ in 0..runs {
        all.push(once(args, peer, kind, postgres).await?);
    }
    Ok(medians(all))
}

fn sized(args: &Args, peer: Peer, kind: Kind) -> Kind {
    match kind {
        Kind::Load(load) if args.quick && load.window < 100 => Kind::Load(load.at_most(10)),
        Kind::Faults(load) if peer != Peer::Ours => Kind::Faults(load.at_most(FAULTY_FOR_PEERS)),
        Kind::Faults(load) if args.quick => Kind::Faults(load.at_most(20)),
        kind => kind,
    }
}

async fn once(
    args: &Args,
    peer: Peer,
    kind: Kind,
    postgres: Option<&Postgres>,
) -> Result<Figures, String> {
    let site = Site::open(peer, args.latency(), postgres).await?;
    let job = Job {
        store: site.store(),
        dispatchers: args.dispatchers(),
        members: false,
    };
    let mut process = Process::start(&job).await?;
    let figures = match kind {
        Kind::Load(load) => orchestrate(&site, &mut process, load).await?,
        Kind::Idle => idle(&site, &mut process).await?,
        Kind::Faults(load) => survive(&site, &mut process, load).await?,
    };
    process.stop().await?;
    Ok(figures)
}

async fn orchestrate(
    site: &Site<'_>,
    process: &mut Process,
    load: Orchestrations,
) -> Result<Figures, String> {
    let figures = one_load(site, process, load.to_load()).await?;
    match figures.ended {
        ended if ended < load.count => {
            Err(format!("{ended} of {} orchestrations ended", load.count))
        }
        _ => Ok(figures),
    }
}

/// Runs a load and measures it.
pub async fn one_load(
    site: &Site<'_>,
    process: &mut Process,
    load: Load,
) -> Result<Figures, String> {
    let before = process.usage().await?;
    site.reset();
    let outcome = process.run(load).await?;
    let traffic = site.traffic();
    let after = process.usage().await?;
    Ok(Figures::of(&outcome, traffic, before, after))
}

async fn idle(site: &Site<'_>, process: &mut Process) -> Result<Figures, String> {
    tokio::time::sleep(SETTLE).await;
    let before = process.usage().await?;
    site.reset();
    tokio::time::sleep(IDLE).await;
    let traffic = site.traffic();
    let after = process.usage().await?;
    Ok(Figures::per(IDLE.as_secs_f64(), traffic, before, after))
}

/// Runs orchestrations while requests fail in five ways. Afterwards, without faults, each must have
/// the right result.
async fn survive(
    site: &Site<'_>,
    process: &mut Process,
    load: Orchestrations,
) -> Result<Figures, String> {
    let Some(emulator) = site.emulator() else {
        return Err("faults are the emulator's".to_owned());
    };
    for fault in Fault::in_five_ways(FAULT_SHARE) {
        emulator.inject(fault);
    }
    let before = process.usage().await?;
    site.reset();
    let mut order = load.to_load();
    order.max_wait = FAULT_PATIENCE;
    let ids = (0..load.count)
        .map(|number| order.instance(number))
        .collect();
    let outcome = process.run(order).await?;
    let traffic = site.traffic();
    let after = process.usage().await?;
    emulator.clear_faults();
    let wrong = process.verify(ids).await?;
    for text in wrong.iter().take(5) {
        eprintln!("  {text}");
    }
    let figures = Figures::of(&outcome, traffic, before, after);
    Ok(Figures {
        wrong: Some((wrong.len(), load.count)),
        ..figures
    })
}

impl Figures {
    /// The result of a load per orchestration.
    pub fn of(outcome: &Outcome, traffic: Traffic, before: Usage, after: Usage) -> Self {
        let ended = outcome.times.len();
        Self {
            ended,
            p50: percentile(&outcome.times, 50),
            p99: percentile(&outcome.times, 99),
            per_second: Some(ended as f64 / outcome.seconds.max(f64::EPSILON)),
            ..Self::per(ended.max(1) as f64, traffic, before, after)
        }
    }

    /// Traffic and use, divided.
    fn per(count: f64, traffic: Traffic, before: Usage, after: Usage) -> Self {
        Self {
            requests: traffic.requests() as f64 / count,
            kinds: traffic
                .kinds
                .iter()
                .map(|(kind, requests)| (kind.clone(), *requests as f64 / count))
                .collect(),
            charge: traffic.charge.map(|charge| charge / count),
            kilobytes: traffic.bytes as f64 / 1024.0 / count,
            cpu: (after.cpu - before.cpu) / count,
            memory: after.peak,
            queries: traffic.queries,
            ..Self::default()
        }
    }
}

/// The nearest rank of sorted times.
pub fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The median of each figure.
pub fn medians(all: Vec<Figures>) -> Figures {
    let each = |figure: &dyn Fn(&Figures) -> f64| median(all.iter().map(figure).collect());
    let some = |figure: &dyn Fn(&Figures) -> Option<f64>| {
        let values: Vec<f64> = all.iter().filter_map(figure).collect();
        (!values.is_empty()).then(|| median(values))
    };
    let names = all.iter().flat_map(|figures| figures.kinds.keys().cloned());
    let kinds = names.map(|name| {
        let value = each(&|figures| figures.kinds.get(&name).copied().unwrap_or_default());
        (name, value)
    });
    Figures {
        ended: all
            .iter()
            .map(|figures| figures.ended)
            .min()
            .unwrap_or_default(),
        requests: each(&|figures| figures.requests),
        kinds: kinds.collect(),
        charge: some(&|figures| figures.charge),
        kilobytes: each(&|figures| figures.kilobytes),
        p50: some(&|figures| figures.p50),
        p99: some(&|figures| figures.p99),
        per_second: some(&|figures| figures.per_second),
        cpu: each(&|figures| figures.cpu),
        memory: each(&|figures| figures.memory),
        wrong: all.iter().filter_map(|figures| figures.wrong).next_back(),
        queries: all
            .into_iter()
            .next_back()
            .map(|figures| figures.queries)
            .unwrap_or_default(),
    }
}

/// The median; of an even number, the mean of the middle two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::{median, percentile};

    #[test]
    fn ranks_are_those_of_the_textbook() {
        let times: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&times, 50), Some(50.0));
        assert_eq!(percentile(&times, 99), Some(99.0));
        assert_eq!(percentile(&[7.0], 99), Some(7.0));
        assert_eq!(percentile(&[], 50), None);
        assert!((median(vec![3.0, 1.0, 2.0, 10.0]) - 2.5).abs() < f64::EPSILON);
    }
}
