//! Calls of the runtime after the effects of an activity are committed, or could not be.

use std::time::Duration;

use cdb_emulator::Emulator;
use cdb_model::{Batch, Document as _, Query, Timestamp};
use duroxide::providers::{Provider as _, TagFilter, WorkItem};

use super::{Ended, Ending, abandon, ack, end, renew};
use crate::provider::CosmosDBProvider;
use crate::queue::activities::{Activities, ActivityKey, EffectsState};
use crate::queue::local_queue::Shared;
use crate::stored::documents::{KeyValue, OrchestratorItem, WorkerItem};

const LOCK: Duration = Duration::from_secs(60);

/// A locked activity.
struct Locked {
    emulator: Emulator,
    provider: CosmosDBProvider,
    token: String,
    shared: Shared<Activities>,
}

impl Locked {
    async fn new() -> Self {
        let emulator = Emulator::start().await.expect("the emulator starts");
        let provider = CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "test").await;
        let provider = provider.expect("the container opens");
        let item = WorkItem::ActivityExecute {
            instance: "i".to_owned(),
            execution_id: 1,
            id: 2,
            name: "Act".to_owned(),
            input: String::new(),
            session_id: None,
            tag: None,
        };
        let enqueued = provider.enqueue_for_worker(item).await;
        enqueued.expect("it is enqueued");
        let token = fetch(&provider).await.expect("there is an activity");
        let key = ActivityKey::new("i", 1_u64, 2_u64);
        let shared = provider.services.activities().lock_of(&key);
        Self {
            emulator,
            provider,
            token,
            shared: shared.expect("it is locked"),
        }
    }

    /// Ends the activity with effects.
    async fn commit(&self, effects: &[KeyValue]) -> Ended {
        let mut batch = Batch::new("i");
        for effect in effects {
            batch.add(effect.create()).expect("it fits");
        }
        let services = &self.provider.services;
        let ending = Ending {
            completion: Some(completed()),
            effects: Some(&batch),
            ..Ending::default()
        };
        let ended = end(services, &self.shared, ending).await;
        ended.expect("it is committed")
    }

    async fn count<D>(&self) -> usize
    where
        D: cdb_model::Document + cdb_model::container::MemberOf<crate::stored::documents::Durable>,
        D: cdb_model::query::QueriedIn<crate::stored::documents::Durable>,
    {
        let query = Query::<D>::in_partition("i");
        let found = self.provider.container().query(query).all().await;
        found.expect("it can be read").len()
    }
}

/// A document that stands for one of a user.
fn effect() -> KeyValue {
    KeyValue {
        instance_id: "i".to_owned(),
        key: "effect".to_owned(),
        value: String::new(),
        execution_id: 1,
        last_updated_at_ms: Timestamp::default(),
    }
}

fn completed() -> WorkItem {
    WorkItem::ActivityCompleted {
        instance: "i".to_owned(),
        execution_id: 1,
        id: 2,
        result: "done".to_owned(),
    }
}

async fn fetch(provider: &CosmosDBProvider) -> Option<String> {
    let any = TagFilter::default();
    let fetched = provider.fetch_work_item(LOCK, Duration::ZERO, None, &any);
    fetched.await.expect("fetch").map(|(_, token, _)| token)
}

#[tokio::test]
async fn after_its_effects_an_activity_is_renewed_and_ended_without_a_request() {
    for (with_result, abandons) in [(true, false), (false, false), (false, true)] {
        let locked = Locked::new().await;
        let (services, token) = (&locked.provider.services, &*locked.token);
        assert!(matches!(
            locked.commit(&[effect()]).await,
            Ended::Committed(_)
        ));
        locked.emulator.reset_requests();
        renew(services, token, LOCK).await.expect("it is renewed");
        if abandons {
            let abandoned = abandon(services, token, None, false).await;
            abandoned.expect("it is abandoned");
        } else {
            let completion = with_result.then(completed);
            let acked = ack(services, token, completion).await;
            acked.expect("it is acknowledged");
        }
        assert_eq!(locked.emulator.requests().total(), 0);
        let again = ack(services, token, None).await;
        assert!(again.is_err(), "the lock has ended");
        assert_eq!(locked.count::<KeyValue>().await, 1);
        assert_eq!(locked.count::<OrchestratorItem>().await, 1);
        assert_eq!(locked.count::<WorkerItem>().await, 0);
    }
}

#[tokio::test]
async fn a_refused_effect_neither_ends_nor_releases_the_activity() {
    let locked = Locked::new().await;
    let twice = [effect(), effect()];
    let Ended::Refused { operation, error } = locked.commit(&twice).await else {
        panic!("the second effect conflicts");
    };
    assert_eq!(operation, 1);
    assert_eq!(locked.count::<KeyValue>().await, 0);
    assert!(error.is_conflict(), "{error}");
    assert_eq!(locked.count::<OrchestratorItem>().await, 0);
    let acked = ack(&locked.provider.services, &locked.token, Some(completed())).await;
    acked.expect("the activity is still locked");
}

#[tokio::test]
async fn an_activity_with_unsettled_effects_is_not_acknowledged_and_runs_again() {
    let locked = Locked::new().await;
    let (services, token) = (&locked.provider.services, &*locked.token);
    locked.shared.lock().await.effects = EffectsState::Unsettled;
    let acked = ack(services, token, Some(completed())).await;
    let refused = acked.expect_err("the runtime abandons it");
    assert!(refused.is_retryable(), "{refused}");
    assert_eq!(locked.count::<OrchestratorItem>().await, 0);
    let abandoned = abandon(services, token, None, false).await;
    abandoned.expect("it is released");
    assert!(fetch(&locked.provider).await.is_some(), "it runs again");
}
