//! Measures the cost of idle partitions: requests, and the time of opening and of an upkeep.

use std::time::{Duration, Instant};

use cdb_emulator::OperationKind;
use cdb_work::{Partitions, WorkConfig};

use crate::store::Store;
use crate::{Failure, Options};

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let count = u16::try_from(options.number("count", 1000)?)?;
    let members = u32::try_from(options.number("members", 2)?)?;
    let seconds = options.number("seconds", 30)?;
    let store = Store::start(Duration::ZERO).await?;
    let mut config = WorkConfig::default();
    config.partitions = Partitions::new(count).ok_or("too many partitions")?;
    let started = Instant::now();
    let works = store.open(members, &config).await?;
    let opened = started.elapsed();
    let opening = store.emulator.requests().data_requests();
    store.emulator.reset_requests();
    let claims: Vec<_> = works
        .iter()
        .map(|work| work.claim(1, Duration::from_secs(seconds)))
        .collect();
    futures::future::join_all(claims).await;
    let log = store.emulator.requests();
    let held: usize = works.iter().map(|work| work.partitions().len()).sum();
    let renewals = log.counts.get(&OperationKind::Patch).copied();
    println!(
        "| partitions | members | opened in | requests to open | held | idle: requests/s | renewals/s | RU/s |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let each = Duration::from_secs(seconds).as_secs_f64();
    println!(
        "| {count} | {members} | {:.1} s | {opening} | {held} | {} | {} | {:.0} |",
        opened.as_secs_f32(),
        log.data_requests() / seconds,
        renewals.unwrap_or_default() / seconds,
        log.charge / each,
    );
    Ok(())
}
