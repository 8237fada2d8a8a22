//! Measures how soon a runtime finds the start of another process, while it is busy and while it is
//! idle.

use std::collections::HashMap;
use std::time::Duration;

use cdb_bench_child::{Job, Load, Order, Peer, Start};

use crate::args::Args;
use crate::measure::percentile;
use crate::postgres::Postgres;
use crate::process::Process;
use crate::report::{Report, optional};
use crate::site::Site;
use crate::workload::WORKLOADS;

const HEAD: &str = "\
| provider | runtime | picked up | p50 ms | p99 ms |
|---|---|--:|--:|--:|";

/// How long the runtime is idle before a start, so that its polls have slowed down. Not a multiple
/// of a polling interval, so that starts fall anywhere between two polls.
const ALONE: Duration = Duration::from_millis(3_370);
/// Time between two starts while the runtime is busy.
const BETWEEN: Duration = Duration::from_millis(430);
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures both for each provider.
pub async fn run(args: &Args, postgres: Option<&Postgres>) -> Result<Report, String> {
    let starts = if args.quick { 5 } else { 40 };
    let mut lines = Vec::new();
    println!("{HEAD}");
    for peer in Peer::ALL.into_iter().filter(|peer| args.has(*peer)) {
        if peer == Peer::Postgres && postgres.is_none() {
            continue;
        }
        let site = Site::open(peer, args.latency(), postgres).await?;
        let mut pair = Pair::open(args, &site).await?;
        for (label, mut times) in [
            ("busy", pair.busy(starts).await?),
            ("idle", pair.idle(starts).await?),
        ] {
            times.sort_by(f64::total_cmp);
            let (p50, p99) = (percentile(&times, 50), percentile(&times, 99));
            lines.push(format!(
                "| {peer} | {label} | {} of {starts} | {} | {} |",
                times.len(),
                optional(p50),
                optional(p99)
            ));
            println!("{}", lines[lines.len() - 1]);
        }
        pair.close().await?;
    }
    let text = format!(
        "From the return of the start call in one process to the orchestration's first statement in another, round trip {} ms. Busy: the \
         runtime has ten hello worlds of its own in flight. Idle: it was left alone for {} s before each start.\n\n{HEAD}\n{}",
        args.latency().as_millis(),
        ALONE.as_secs_f64(),
        lines.join("\n")
    );
    Ok(Report {
        section: "pickup",
        text,
        plots: Vec::new(),
    })
}

/// A process with a runtime and one without.
struct Pair {
    runtime: Process,
    client: Process,
}

impl Pair {
    async fn open(args: &Args, site: &Site<'_>) -> Result<Self, String> {
        let job = |dispatchers| Job {
            store: site.store(),
            dispatchers,
            members: false,
        };
        let runtime = Process::start(&job(args.dispatchers())).await?;
        Ok(Self {
            runtime,
            client: Process::start(&job(0)).await?,
        })
    }

    async fn busy(&mut self, starts: usize) -> Result<Vec<f64>, String> {
        let load = Load {
            count: usize::MAX,
            seconds: (BETWEEN * u32::try_from(starts + 4).unwrap_or(u32::MAX)).as_secs_f64(),
            ..WORKLOADS[0].orchestrations().to_load()
        };
        let client = &mut self.client;
        let starting = async {
            let mut returned = HashMap::new();
            for number in 0..starts {
                tokio::time::sleep(BETWEEN).await;
                let instance = format!("busy-{number}");
                returned.insert(instance.clone(), start(client, instance).await?);
            }
            Ok::<_, String>(returned)
        };
        let (ran, mut returned) = tokio::join!(self.runtime.run(load), starting);
        ran?;
        let returned = returned.as_mut().map_err(|error| error.clone())?;
        let mut times = Vec::new();
        for (instance, at) in self.runtime.reached_meanwhile() {
            times.extend(returned.remove(&instance).map(|returned| at - returned));
        }
        // A late start counts as not picked up, which the number of starts shows.
        while !returned.is_empty()
            && let Ok((instance, at)) = self.runtime.reached(PATIENCE).await
        {
            times.extend(returned.remove(&instance).map(|returned| at - returned));
        }
        Ok(times)
    }

    async fn idle(&mut self, starts: usize) -> Result<Vec<f64>, String> {
        let mut times = Vec::new();
        for number in 0..starts {
            tokio::time::sleep(ALONE).await;
            // Drop the points that the busy half has left.
            let instance = format!("idle-{number}");
            let returned = start(&mut self.client, instance.clone()).await?;
            while let Ok((reached, at)) = self.runtime.reached(PATIENCE).await {
                if reached == instance {
                    times.push(at - returned);
                    break;
                }
            }
        }
        Ok(times)
    }

    async fn close(self) -> Result<(), String> {
        self.runtime.stop().await?;
        self.client.stop().await
    }
}

/// Starts an orchestration without activities. Returns the end of the call in milliseconds since
/// 1970.
async fn start(client: &mut Process, instance: String) -> Result<f64, String> {
    let start = Start {
        instance,
        orchestration: "Chain".to_owned(),
        input: "0".to_owned(),
    };
    let (started, milliseconds) = client.call(Order::Start(start)).await?;
    Ok(started + milliseconds)
}
