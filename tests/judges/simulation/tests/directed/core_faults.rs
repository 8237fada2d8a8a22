//! The faults that ended in a lost activity or a lost lock, in clusters of real runtimes.

use std::time::Duration;

use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use cdb_simulation::Scenario;
use tokio::time::sleep;

use crate::{output, settings, start};

#[test]
fn an_activity_does_not_vanish_when_a_renewal_of_its_lock_fails() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let _node = scenario.node(1, &settings()).await;
        let (_, client) = scenario.client().await;
        start(&client, "i", "Rest", "60").await;
        sleep(Duration::from_secs(20)).await;
        // The renewal after 25 s fails for a reason that the client does not retry. duroxide then
        // cancels the activity, and ends it without a result.
        let refused = Effect::error(403, 1028);
        let refused = Fault::once(refused).on(OperationKind::Patch);
        scenario.emulator().inject(refused);
        assert_eq!(output(&client, "i").await, "60");
    });
}

#[test]
fn an_activity_does_not_vanish_when_the_store_is_away_for_most_of_its_lock() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let node = scenario.node(1, &settings()).await;
        let (_, client) = scenario.client().await;
        start(&client, "i", "Rest", "60").await;
        sleep(Duration::from_secs(3)).await;
        // The renewal after 25 of 30 s gets no answer.
        node.cut_off(Duration::from_secs(28)).await;
        assert_eq!(output(&client, "i").await, "60");
    });
}

#[test]
fn a_throttled_commit_keeps_its_lock_and_costs_no_attempt() {
    Scenario::run(Emulator::builder(), async |scenario| {
        let mut settings = settings();
        settings.runtime.max_attempts = 3;
        let _nodes = [
            scenario.node(1, &settings).await,
            scenario.node(2, &settings).await,
        ];
        let (_, client) = scenario.client().await;
        let throttled = Effect::throttled(Duration::from_millis(5));
        let throttled = Fault::always(throttled).on(OperationKind::Batch);
        let throttled = throttled.lasting(Duration::from_secs(90));
        scenario.emulator().inject(throttled);
        for number in 0..5 {
            start(&client, &format!("hello-{number}"), "Hello", "hello").await;
        }
        for number in 0..5 {
            assert_eq!(output(&client, &format!("hello-{number}")).await, "hello");
        }
    });
}
