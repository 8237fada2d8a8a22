//! Measures a purge: stores ended instances like those of a hello world, counts them, and purges
//! them slice by slice.
//!
//! `cargo run --release -p cdb-tests --example purge -- 100000`; on an account when
//! `COSMOS_ENDPOINT` and `COSMOS_KEY` are set.

use std::time::{Duration, Instant};

use cdb_provider::client::ContainerClient;
use cdb_provider::client::throughput::Usage;
use cdb_provider::documents::{Durable, HistorySegment, Instance, Status, Text};
use cdb_provider::model::operation::BulkBatch;
use cdb_provider::model::{Document as _, Query, Timestamp};
use cdb_tests::Backend;
use duroxide::providers::ProviderAdmin;

type Failure = Box<dyn std::error::Error>;

/// Instances per bulk request, with three documents each.
const AT_ONCE: usize = 200;

/// Measures a step of the run: its time and request units.
struct Step<'a> {
    container: &'a ContainerClient<Durable>,
    before: Usage,
    begun: Instant,
}

impl<'a> Step<'a> {
    fn begin(container: &'a ContainerClient<Durable>) -> Self {
        Self {
            container,
            before: container.usage(),
            begun: Instant::now(),
        }
    }

    fn end(self, what: &str) {
        let elapsed = self.begun.elapsed();
        let spent = self.container.usage().since(&self.before).total();
        let (requests, charge) = (spent.requests, spent.charge);
        println!("{what} in {elapsed:.1?} with {requests} requests and {charge:.0} RU");
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let wanted: usize = match std::env::args().nth(1) {
        Some(count) => count.parse()?,
        None => 10_000,
    };
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    let container = provider.container();
    let step = Step::begin(container);
    let mut stored = 0;
    while stored < wanted {
        let until = wanted.min(stored + AT_ONCE);
        let mut bulk = BulkBatch::<Durable>::new();
        for number in stored..until {
            add(&mut bulk, &format!("order-{number}"))?;
        }
        for result in container.execute_bulk(&bulk).await {
            result?;
        }
        stored = until;
    }
    step.end(&format!("{stored} ended instances stored"));

    let step = Step::begin(container);
    let queues = provider.get_queue_depths().await?;
    step.end(&format!("{queues:?}"));
    let step = Step::begin(container);
    let all = provider.get_system_metrics().await?;
    step.end(&format!("{all:?}"));
    for status in [Status::Completed, Status::Running] {
        let step = Step::begin(container);
        let newest = Query::<Instance>::across_partitions()
            .filter(Instance::STATUS.eq(status.clone()))
            .order_by(Instance::BY_CREATED.reversed());
        let page = container.query(newest).page(50, None).await?;
        step.end(&format!("a list of {} {status}", page.rows.len()));
    }

    let step = Step::begin(container);
    let begun = Instant::now();
    let mut purge = provider.purge_ended(Duration::ZERO);
    let all = purge.remaining().await?;
    let mut slices = 0_u32;
    while purge.next_slice().await?.is_some() {
        slices += 1;
        if slices.is_multiple_of(100) {
            let gone = purge.purged().instances_deleted;
            println!("{gone} of {all} gone after {:.1?}", begun.elapsed());
        }
    }
    step.end(&format!("{:?}", purge.purged()));
    let left = purge.remaining().await?;
    if left > 0 {
        return Err(format!("{left} are left").into());
    }
    Ok(())
}

/// An ended instance: its document and the history of two turns.
fn add(bulk: &mut BulkBatch<Durable>, id: &str) -> Result<(), Failure> {
    let now = Timestamp::from_millis(1_700_000_000_000);
    let instance = Instance {
        orchestration_name: "Hello".to_owned(),
        status: Status::Completed,
        output: Some(Text::Inline("done".to_owned())),
        history_documents: Some(2),
        started_at: Some(now),
        completed_at: Some(now),
        ..Instance::pending(id, now)
    };
    bulk.add(instance.create())?;
    for event_id in [1, 3] {
        bulk.add(
            HistorySegment {
                instance_id: id.to_owned(),
                execution_id: 1,
                event_id,
                event_count: 2,
                event_data: Text::Inline(format!("[{}]", "x".repeat(500))),
            }
            .create(),
        )?;
    }
    Ok(())
}
