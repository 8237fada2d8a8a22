//! Forced deletions of a tree by a process that stands still, while others delete the tree and start one
//! with the same ids, whose child has not begun. The later child begins.

use std::time::Duration;

use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{IntentItem, IntentQueue, OutboxIntent, Status, Text};
use cdb_provider::model::Document as _;
use cdb_tests::Backend;
use duroxide::providers::{ProviderAdmin as _, WorkItem};
use tokio::time::sleep;

use super::MOST_ANSWERS;
use super::site::{ACT, FROZEN, SECOND};
use crate::harness::next_turn;
use crate::network::{ANY, Network};
use crate::pauses::schedule_child;
use crate::retention::create;
use crate::work_items::start_of;

/// No provider delivers the intents of others.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// A tree of the ids `main` and `below`.
#[derive(Clone, Copy)]
enum Tree {
    Earlier,
    Later,
}

/// Runs the deletion at every position at which its process may stand still, until it does not any more.
/// `begin` stores the trees. Returns the number of positions.
async fn at_every_position(begin: impl AsyncFn(&CosmosDBProvider, Tree)) -> usize {
    for answers in 0..MOST_ANSWERS {
        let backend =
            Backend::start_simulated_with(|config| config.reconciler_interval = NEVER).await;
        let network = Network::default();
        let Some(operator) = network.provider(&backend).await else {
            return usize::MAX;
        };
        // The later one hands out nothing of the earlier tree from its memory.
        let (provider, later) = (backend.provider().await, backend.provider().await);
        begin(&provider, Tree::Earlier).await;
        network.freeze_after(answers, ANY, FROZEN);
        let others = async {
            sleep(ACT).await;
            let has_stood_still = network.has_stalled();
            if has_stood_still {
                // The operator may have deleted it.
                let _deleted = provider.delete_instance("main", true).await;
                begin(&later, Tree::Later).await;
            }
            has_stood_still
        };
        let deletion = Box::pin(operator.delete_instance("main", true));
        let (_, has_stood_still) = tokio::join!(network.process(deletion), Box::pin(others));
        network.repair();
        if has_stood_still {
            let deliver = |config: &mut cdb_provider::CosmosDBProviderConfig| {
                config.reconciler_interval = SECOND * 5;
                config.reconciler_age_threshold = SECOND * 2;
            };
            let reader = backend.provider_with(deliver).await;
            let (turn, ..) = next_turn(&reader, SECOND * 5).await;
            assert_eq!(turn.instance, "below", "after {answers}");
        }
        backend.stop().await;
        if !has_stood_still {
            return answers;
        }
    }
    panic!("the call sends too many requests");
}

/// Stores a start of `below` by `main` that is not delivered.
async fn send_start(provider: &CosmosDBProvider, key: &str) {
    let mut start = start_of("below", "Steps");
    if let WorkItem::StartOrchestration {
        parent_instance,
        parent_id,
        ..
    } = &mut start
    {
        *parent_instance = Some("main".to_owned());
        *parent_id = Some(2);
    }
    let now = provider.container().now();
    let mut intent = OutboxIntent::new("main", key.to_owned(), "below", now);
    intent.items.push(IntentItem {
        queue: IntentQueue::Orchestrator,
        work_item: Text::Inline(serde_json::to_string(&start).expect("it is JSON")),
        visible_at: now,
    });
    ok!(provider.container().run(intent.create()));
}

#[tokio::test(start_paused = true)]
async fn a_frozen_forced_deletion_keeps_the_delivered_start_of_a_later_child() {
    let positions = at_every_position(async |provider, _| schedule_child(provider).await);
    assert!(positions.await > 8);
}

#[tokio::test(start_paused = true)]
async fn a_frozen_forced_deletion_keeps_the_undelivered_start_of_a_later_child() {
    let positions = at_every_position(async |provider, tree| {
        create(provider, "main", None, Status::Running).await;
        let key = match tree {
            Tree::Earlier => "earlier-0",
            Tree::Later => "later-0",
        };
        send_start(provider, key).await;
    });
    assert!(positions.await > 8);
}

/// The earlier child runs, so that the deletion drops what its parent sends to it.
#[tokio::test(start_paused = true)]
async fn a_frozen_forced_deletion_keeps_what_a_later_parent_sends_to_its_child() {
    let positions = at_every_position(async |provider, tree| {
        create(provider, "main", None, Status::Running).await;
        match tree {
            Tree::Earlier => create(provider, "below", Some("main"), Status::Running).await,
            Tree::Later => send_start(provider, "later-0").await,
        }
    });
    assert!(positions.await > 8);
}
