//! Work that cannot run, in front of work that can: an instance that a dead provider holds, starts
//! whose payload no node can decode, and starts that are damaged.
//!
//! The starts behind them are judged like all others (`judges/waiting.rs`).

use cdb_model::{Patch, Query, Timestamp};
use cdb_provider::documents::{
    Durable, Instance, InstanceKey, OrchestratorItem, Text, dispatch_slot,
};
use duroxide::Client;

use crate::node::{Codec, open_for_clients_with};
use crate::workload::prelude::*;

/// How long the dead provider's lock lasts.
const HELD: Duration = Duration::from_secs(300);

/// The pause between two starts behind work that cannot run.
const PAUSE: Duration = Duration::from_secs(20);

/// How many starts cannot run, or how many events the held instance has.
const IN_FRONT: [usize; 3] = [20, 150, 400];

/// The first part of the ids of instances that cannot run.
const UNFIT: &str = "Unfit-";

/// An instance with many events that a dead provider holds.
pub(super) struct Held;

/// Starts that no node can run.
pub(super) struct Unfit;

#[async_trait(?Send)]
impl Workload for Held {
    fn about(&self) -> About {
        About::half(
            "held",
            "An instance with many events that a dead provider holds, in front of others",
        )
    }

    fn orchestrations(&self, all: Orchestrations, _: u32) -> Orchestrations {
        all.register("Collect", |ctx, count| async move {
            for _ in 0..number(&count)? {
                ctx.dequeue_event("Events").await;
            }
            Ok(count)
        })
    }

    async fn run(&self, caller: &Caller) -> Seen {
        let mut random = Random::new(caller.seed, "held");
        let (mut work, mut number) = (Seen::default(), 0);
        while caller.goes_on() {
            let instance = format!("Held-{number}");
            let events = IN_FRONT[random.below(IN_FRONT.len())];
            work.start(caller, &instance, "Collect", &events.to_string())
                .await;
            if hold(caller, &instance).await {
                for event in 0..events {
                    let data = event.to_string();
                    let sent = || caller.client.enqueue_event(&instance, "Events", &*data);
                    work.problems.extend(keep_trying(sent).await.err());
                }
                start_behind(caller, &mut work, &instance, HELD).await;
            } else {
                let cancelled = || caller.client.cancel_instance(&instance, "not held");
                work.problems.extend(keep_trying(cancelled).await.err());
            }
            if caller.end(&instance).await.is_none() {
                work.problems.push(format!("{instance}: it has not ended"));
            }
            number += 1;
            caller.rest(&mut random, PAUSE..HELD * 4).await;
        }
        work
    }
}

#[async_trait(?Send)]
impl Workload for Unfit {
    fn about(&self) -> About {
        About::half("unfit", "Starts that no node can run, in front of others")
    }

    fn explains_wait(&self, instance: &str, _: &Durable) -> bool {
        instance.starts_with(UNFIT)
    }

    async fn run(&self, caller: &Caller) -> Seen {
        let mut random = Random::new(caller.seed, "unfit");
        let (mut work, mut number) = (Seen::default(), 0);
        let codec = Codec(Some("elsewhere"));
        let writer = keep_trying(|| open_for_clients_with(&caller.outside, codec)).await;
        let writer = match writer {
            Ok(writer) => Client::new(caller.cluster.shared.recorded(Arc::new(writer), None)),
            Err(error) => return Seen::of(vec![format!("unfit: {error}")]),
        };
        while caller.goes_on() {
            let count = IN_FRONT[random.below(IN_FRONT.len())];
            let instances: Vec<String> = (0..count)
                .map(|at| format!("{UNFIT}{number}-{at}"))
                .collect();
            for instance in &instances {
                let started = if random.chance(5) {
                    start_damaged(caller, instance).await
                } else {
                    let start = || writer.start_orchestration(instance, "Once", "unfit");
                    keep_trying(start).await
                };
                work.problems.extend(started.err());
            }
            let others = format!("{UNFIT}{number}");
            let time = random.duration(PAUSE * 2..HELD);
            start_behind(caller, &mut work, &others, time).await;
            for instance in &instances {
                remove(caller, instance).await;
            }
            number += 1;
            caller.rest(&mut random, PAUSE..HELD * 4).await;
        }
        work
    }
}

/// Locks an instance that waits for events, as a provider that then dies. Returns whether it is
/// locked.
async fn hold(caller: &Caller, instance: &str) -> bool {
    let documents = caller.documents.view::<Durable>();
    let key = InstanceKey::new(instance);
    for _ in 0..100 {
        sleep(Duration::from_millis(500)).await;
        let read = keep_trying(|| documents.read(&key)).await;
        let Ok(Some(stored)) = read else { continue };
        let now = documents.now();
        let Instance { locked_until, .. } = stored.document;
        let is_free = locked_until.is_none_or(|until| until <= now);
        if !is_free || !stored.document.is_created() {
            continue;
        }
        let patch = Patch::<Instance>::new()
            .set(Instance::LOCK_TOKEN, Some("dead".to_owned()))
            .set(Instance::LOCKED_UNTIL, Some(now + HELD));
        let locked = documents.run(patch.at(&key).if_match(&stored.etag)).await;
        if locked.is_ok() {
            return true;
        }
    }
    false
}

/// Starts instances behind others for a while, and follows them.
async fn start_behind(caller: &Caller, work: &mut Seen, others: &str, time: Duration) {
    let until = Instant::now() + time;
    let mut started = Vec::new();
    while Instant::now() < until {
        let instance = format!("Behind-{others}-{}", started.len());
        work.start(caller, &instance, "Once", "behind").await;
        started.push(instance);
        sleep(PAUSE).await;
    }
    for instance in started {
        work.problems.extend(caller.misses(&instance, "once").await);
    }
}

/// Stores a start whose content is not a message.
async fn start_damaged(caller: &Caller, instance: &str) -> Result<(), String> {
    let documents = caller.documents.view::<Durable>();
    let now: Timestamp = documents.now();
    let start = OrchestratorItem {
        instance_id: instance.to_owned(),
        cause: "damaged".to_owned(),
        work_item: Text::Inline("{".to_owned()),
        dispatch_slot: dispatch_slot(instance),
        visible_at: now,
        enqueued_at: now,
        ..OrchestratorItem::default()
    };
    keep_trying(|| documents.create_if_missing(&start))
        .await
        .map(drop)
}

/// Deletes the documents of an instance that cannot run, as an operator: its start, and the
/// instance that a node has locked.
async fn remove(caller: &Caller, instance: &str) {
    if let Some(recorder) = &caller.cluster.shared.recorder {
        recorder.changed(instance);
    }
    let documents = caller.documents.view::<Durable>();
    loop {
        let starts = || documents.query(Query::<OrchestratorItem>::in_partition(instance));
        let starts = keep_trying(|| starts().all()).await.unwrap_or_default();
        let locks = || documents.query(Query::<Instance>::in_partition(instance));
        let locks = keep_trying(|| locks().all()).await.unwrap_or_default();
        if starts.is_empty() && locks.is_empty() {
            return;
        }
        // What a node has changed is found again.
        for start in starts {
            let _changed = documents.run(start.delete()).await;
        }
        for lock in locks {
            let _changed = documents.run(lock.delete()).await;
        }
    }
}
