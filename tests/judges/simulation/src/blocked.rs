//! Work that cannot run, in front of work that can: an instance that a dead provider holds, starts
//! whose payload no node can decode, and starts that are damaged.
//!
//! The starts behind them are judged like all others (`waiting.rs`).

use std::sync::Arc;
use std::time::Duration;

use cdb_chaos::keep_trying;
use cdb_client::CosmosClient;
use cdb_model::{Patch, Query, Timestamp};
use cdb_provider::documents::{
    Durable, Instance, InstanceKey, OrchestratorItem, Text, dispatch_slot,
};
use cdb_provider::payload::{EncodedPayload, PayloadCodec, PayloadError};
use duroxide::Client;
use tokio::time::{Instant, sleep, sleep_until};

use crate::node::open_for_clients_with;
use crate::random::Random;
use crate::workload::{Caller, Seen};

/// The lock of the dead provider.
const HELD: Duration = Duration::from_secs(300);

/// The pause between two starts behind work that cannot run.
const PAUSE: Duration = Duration::from_secs(20);

/// How many starts cannot run, or how many events the held instance has.
const IN_FRONT: [usize; 3] = [20, 150, 400];

/// The first part of the ids of instances that cannot run.
const UNFIT: &str = "Unfit-";

/// Returns whether an instance cannot run on any node.
pub(crate) fn is_unfit(instance: &str) -> bool {
    instance.starts_with(UNFIT)
}

/// A codec with one key. It stores payloads as they are if it has none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codec(pub(crate) Option<&'static str>);

impl PayloadCodec for Codec {
    fn name(&self) -> &'static str {
        "simulation"
    }

    fn encode(&self, payload: &str) -> Result<Option<EncodedPayload>, PayloadError> {
        let encoded = self.0.map(|key| EncodedPayload {
            key: key.to_owned(),
            bytes: payload.as_bytes().to_vec(),
        });
        Ok(encoded)
    }

    fn decode(&self, key: &str, _: &[u8]) -> Result<String, PayloadError> {
        Err(PayloadError::Unavailable(format!("key {key} is missing")))
    }
}

impl Caller {
    /// Lets a dead provider hold an instance with many events, and starts others.
    pub(crate) async fn held(&self, seed: u64, until: Instant) -> Seen {
        let mut random = Random::new(seed, "held");
        let (mut work, mut number) = (Seen::default(), 0);
        while Instant::now() < until {
            let instance = format!("Held-{number}");
            let events = IN_FRONT[random.below(IN_FRONT.len())];
            work.start(self, &instance, "Collect", &events.to_string())
                .await;
            if self.hold(&instance).await {
                for event in 0..events {
                    let data = event.to_string();
                    let sent = || self.client.enqueue_event(&instance, "Events", &*data);
                    work.problems.extend(keep_trying(sent).await.err());
                }
                self.start_behind(&mut work, &instance, HELD).await;
            } else {
                let cancelled = || self.client.cancel_instance(&instance, "not held");
                work.problems.extend(keep_trying(cancelled).await.err());
            }
            if self.end(&instance, Duration::ZERO).await.is_none() {
                work.problems.push(format!("{instance}: it has not ended"));
            }
            number += 1;
            let pause = random.duration(PAUSE..HELD * 4);
            sleep_until(until.min(Instant::now() + pause)).await;
        }
        work
    }

    /// Locks an instance that waits for events, as a provider that then dies. Returns whether it is
    /// locked.
    async fn hold(&self, instance: &str) -> bool {
        let documents = self.documents.view::<Durable>();
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
    async fn start_behind(&self, work: &mut Seen, others: &str, time: Duration) {
        let until = Instant::now() + time;
        let mut started = Vec::new();
        while Instant::now() < until {
            let instance = format!("Behind-{others}-{}", started.len());
            work.start(self, &instance, "Once", "behind").await;
            started.push(instance);
            sleep(PAUSE).await;
        }
        for instance in started {
            let output = self.end(&instance, Duration::ZERO).await;
            if output.as_deref() != Some("once") {
                work.problems.push(format!("{instance}: {output:?}"));
            }
        }
    }

    /// Stores starts that no node can run, and starts others.
    pub(crate) async fn unfit(&self, seed: u64, outside: &CosmosClient, until: Instant) -> Seen {
        let mut random = Random::new(seed, "unfit");
        let (mut work, mut number) = (Seen::default(), 0);
        let codec = Codec(Some("elsewhere"));
        let writer = keep_trying(|| open_for_clients_with(outside, codec)).await;
        let writer = match writer {
            Ok(writer) => Client::new(self.cluster.shared.recorded(Arc::new(writer), None)),
            Err(error) => return Seen::of(vec![format!("unfit: {error}")]),
        };
        while Instant::now() < until {
            let count = IN_FRONT[random.below(IN_FRONT.len())];
            let instances: Vec<String> = (0..count)
                .map(|at| format!("{UNFIT}{number}-{at}"))
                .collect();
            for instance in &instances {
                let started = if random.chance(5) {
                    self.start_damaged(instance).await
                } else {
                    let start = || writer.start_orchestration(instance, "Once", "unfit");
                    keep_trying(start).await
                };
                work.problems.extend(started.err());
            }
            let others = format!("Unfit-{number}");
            let time = random.duration(PAUSE * 2..HELD);
            self.start_behind(&mut work, &others, time).await;
            for instance in &instances {
                self.remove(instance).await;
            }
            number += 1;
            let pause = random.duration(PAUSE..HELD * 4);
            sleep_until(until.min(Instant::now() + pause)).await;
        }
        work
    }

    /// Stores a start whose content is not a message.
    async fn start_damaged(&self, instance: &str) -> Result<(), String> {
        let documents = self.documents.view::<Durable>();
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
    async fn remove(&self, instance: &str) {
        if let Some(recorder) = &self.cluster.shared.recorder {
            recorder.changed(instance);
        }
        let documents = self.documents.view::<Durable>();
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
}
