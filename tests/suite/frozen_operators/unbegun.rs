//! Forced deletions of a tree by a process that stands still, while others delete the tree and start one
//! with the same ids, whose child has not begun. The later child begins.

use std::time::Duration;

use cdb_provider::CosmosDBProvider;
use cdb_tests::Backend;
use duroxide::providers::ProviderAdmin as _;
use tokio::time::sleep;

use super::MOST_ANSWERS;
use super::site::{ACT, FROZEN, SECOND};
use crate::harness::next_turn;
use crate::network::{ANY, Network};
use crate::pauses::schedule_child;

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

#[tokio::test(start_paused = true)]
async fn a_frozen_forced_deletion_keeps_the_delivered_start_of_a_later_child() {
    let positions = at_every_position(async |provider, _| schedule_child(provider).await);
    assert!(positions.await > 8);
}
