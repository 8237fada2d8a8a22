//! Orchestrations that continue as new every hour, and whose history stays small.

use cdb_chaos::Booked;
use cdb_model::Query;
use cdb_provider::documents::Durable;
use tokio::time::sleep_until;

use crate::workload::prelude::*;

/// The time of one execution.
const TICK: Duration = Duration::from_secs(3600);

/// The most documents that a kept execution and its traces take.
const DOCUMENTS_PER_TICK: u64 = 20;

/// The number of instances.
const COUNT: usize = 3;

/// Instances that book their number and run a child every hour, until they are cancelled.
pub(super) struct Eternal;

#[async_trait(?Send)]
impl Workload for Eternal {
    fn about(&self) -> About {
        About::always("eternal", "Orchestrations that continue as new every hour")
    }

    fn is_drawn(&self, _: u64, time: Duration) -> bool {
        time >= TICK
    }

    fn orchestrations(&self, all: Orchestrations, _: u32) -> Orchestrations {
        all.register("Eternal", |ctx, input| async move {
            let tick = number(&input)?;
            ctx.schedule_activity("Book", format!("tick-{tick}:1"))
                .await?;
            ctx.schedule_sub_orchestration("Child", tick.to_string())
                .await?;
            ctx.schedule_timer(TICK).await;
            ctx.continue_as_new((tick + 1).to_string()).await
        })
    }

    /// Compares the bookings with the time.
    async fn run(&self, caller: &Caller) -> Seen {
        let began = Instant::now();
        let mut result = Seen::default();
        let names: Vec<String> = (0..COUNT).map(|at| format!("Eternal-{at}")).collect();
        for name in &names {
            result.start(caller, name, "Eternal", "1").await;
        }
        sleep_until(caller.until + BOUND).await;
        let ticks = began.elapsed().as_secs() / TICK.as_secs();
        match keep_trying(|| caller.ledger.read()).await {
            Err(error) => result
                .problems
                .push(format!("the ledger cannot be read: {error}")),
            Ok(booked) => {
                let missing = names
                    .iter()
                    .filter_map(|name| missing(name, &booked, ticks));
                result.problems.extend(missing);
            }
        }
        for name in &names {
            let count = keep_trying(|| documents_of(caller, name)).await;
            let count = count.unwrap_or(usize::MAX);
            let retention = caller.cluster.profile.node.retention;
            let kept = retention.as_secs().div_ceil(TICK.as_secs()) + 3;
            if count as u64 > DOCUMENTS_PER_TICK * kept {
                let problem = format!("{name}: {count} documents after {ticks} ticks");
                result.problems.push(problem);
            }
            let cancelled = keep_trying(|| caller.client.cancel_instance(name, "enough")).await;
            result.problems.extend(cancelled.err());
            if caller.end(name).await.is_none() {
                result.problems.push(format!("{name}: it is not cancelled"));
            }
        }
        // The timers of cancelled executions are consumed when they are due.
        sleep(TICK).await;
        result
    }
}

/// Returns the number of documents in the partition of an instance.
async fn documents_of(caller: &Caller, instance: &str) -> Result<usize, cdb_client::Error> {
    let query = Query::<Durable>::in_partition(instance);
    let documents = caller.documents.view::<Durable>();
    Ok(documents.query(query).all().await?.len())
}

/// Compares the bookings of an instance with its age.
fn missing(name: &str, booked: &Booked, ticks: u64) -> Option<String> {
    let steps = booked.get(name);
    let count = steps.map_or(0, |steps| steps.len() as u64);
    let last = format!("tick-{count}");
    let is_complete = steps.is_some_and(|steps| steps.contains_key(&last));
    // Each tick is a little late, and faults delay some by minutes.
    let fewest = ticks - ticks / 10 - 1;
    (count < fewest || !is_complete).then(|| format!("{name}: {count} of {ticks} ticks: {steps:?}"))
}
