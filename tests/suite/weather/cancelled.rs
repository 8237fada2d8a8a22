//! Queued events of an instance that is cancelled and rewound several times arrive once, in order.

use std::sync::Arc;

use cdb_tests::Backend;
use duroxide::{Client, OrchestrationStatus};
use tokio::time::sleep;

use super::events::{MS, Random, SECOND, Sent, check, run};
use super::site::defaults;
use crate::harness::end_within;

/// Returns what is wrong after cancellations and rewinds of an instance.
async fn cancelled(style: &str, seed: u64) -> Vec<String> {
    let backend = Backend::start_simulated().await;
    let clean = backend.provider_with(defaults).await;
    let desk = Client::new(Arc::new(clean.clone()));
    let other = Client::new(Arc::new(backend.provider_with(defaults).await));
    let own = backend.provider_with(defaults).await;
    let mut runtime = run(own.clone()).await;
    let senders = [desk.clone(), other, Client::new(Arc::new(own))];
    let mut random = Random::new(seed);
    let begun = desk.start_orchestration("i", "Taker", format!("{style}|"));
    begun.await.expect("it is started");
    let mut sent: Vec<Sent> = vec![vec![]; senders.len()];
    for round in 0..3 {
        for number in 0..10 + random.below(80) {
            let sender = random.below(3) as usize;
            let name = format!("{round}.{sender}.{number}");
            let queued = senders[sender].enqueue_event("i", "Orders", format!("{name}#"));
            queued.await.expect("it is queued");
            sent[sender].push((name, true));
            if random.below(6) == 0 {
                sleep(MS(random.below(300))).await;
            }
        }
        sleep(MS(random.below(2_000))).await;
        let cancelled = desk.cancel_instance("i", "changed my mind").await;
        cancelled.expect("it is sent");
        if random.below(2) == 0 {
            let next = run(backend.provider_with(defaults).await).await;
            std::mem::replace(&mut runtime, next)
                .shutdown(Some(0))
                .await;
        }
        match end_within(&desk, "i", SECOND * 60).await {
            Ok(OrchestrationStatus::Failed { .. }) => {}
            other => return vec![format!("{style} {seed}: not cancelled: {other:?}")],
        }
        sleep(MS(random.below(2_000))).await;
        if let Err(error) = clean.rewind("i", "ada").await {
            return vec![format!("{style} {seed}: not rewound: {error:?}")];
        }
        if random.below(2) == 0 {
            sleep(MS(random.below(3_000))).await;
        }
    }
    sleep(SECOND * 20).await;
    let queued = desk.enqueue_event("i", "Orders", "last").await;
    queued.expect("it is queued");
    let wrong = match end_within(&desk, "i", SECOND * 200).await {
        Ok(OrchestrationStatus::Completed { output, .. }) => check(&output, &sent),
        other => vec![format!("{other:?}")],
    };
    runtime.shutdown(Some(0)).await;
    backend.stop().await;
    println!("cancelled {style} {seed}: {} wrong", wrong.len());
    let named = wrong.into_iter();
    named
        .map(|what| format!("{style} {seed}: {what}"))
        .collect()
}

#[tokio::test(start_paused = true)]
#[ignore = "a search of minutes"]
async fn cancellations() {
    let mut wrong = Vec::new();
    for style in ["slow", "rounds", "mixed", "at once", "select"] {
        for seed in 1..=4 {
            wrong.extend(cancelled(style, seed).await);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
