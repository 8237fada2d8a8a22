//! Rewinds of instances whose earlier executions are being pruned. Time is simulated.

use cdb_model::Document as _;
use std::time::Duration;

use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::HistorySegment;
use cdb_tests::Backend;
use duroxide::providers::{
    ExecutionMetadata, Provider as _, ProviderAdmin as _, PruneOptions, WorkItem,
};
use duroxide::{AppErrorKind, ErrorDetails, Event, EventKind};

use super::started;
use crate::harness::next_turn;
use crate::several::{self, enqueue};

/// Commits the only turn of an execution of `i`, which sets a key and then continues as new or fails.
async fn end_next(provider: &CosmosDBProvider, execution: u64, value: &str, end: EventKind) {
    let (_, token, _) = next_turn(provider, Duration::from_secs(5)).await;
    let set = EventKind::KeyValueSet {
        key: "key".to_owned(),
        value: value.to_owned(),
        last_updated_at_ms: 1,
    };
    let continues = matches!(end, EventKind::OrchestrationContinuedAsNew { .. });
    let status = if continues {
        "ContinuedAsNew"
    } else {
        "Failed"
    };
    // The turn of the timer is the one that fails, and that a rewind drops.
    let kinds = [
        started("Wait", ""),
        EventKind::TimerFired { fire_at_ms: 1 },
        set,
        end,
    ];
    let events = kinds.into_iter().zip(1..);
    let event = |(kind, id)| Event::with_event_id(id, "i", execution, None, kind);
    let metadata = ExecutionMetadata {
        status: Some(status.to_owned()),
        ..crate::work_items::metadata_of("Wait")
    };
    let next = WorkItem::ContinueAsNew {
        instance: "i".to_owned(),
        orchestration: "Wait".to_owned(),
        input: String::new(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        carry_forward_events: vec![],
        initial_custom_status: None,
    };
    let next = Vec::from_iter(continues.then_some(next));
    let events = events.map(event).collect();
    provider
        .ack_orchestration_item(&token, execution, events, vec![], next, metadata, vec![])
        .await
        .expect("the turn is committed");
}

#[tokio::test(start_paused = true)]
async fn a_rewind_does_not_guess_values_from_an_execution_that_is_half_pruned() {
    let backend = Backend::start_simulated().await;
    let Some(emulator) = backend.emulator() else {
        return backend.stop().await;
    };
    let provider = backend.provider().await;
    enqueue(&provider, several::start("i")).await;
    let continued = EventKind::OrchestrationContinuedAsNew {
        input: String::new(),
    };
    end_next(&provider, 1, "old", continued).await;
    // More documents than the batch holds that deletes the first ones.
    for id in 5..155 {
        let kind = EventKind::TimerFired { fire_at_ms: id };
        let event = Event::with_event_id(id, "i", 1, None, kind);
        let segment = HistorySegment::pack("i", 1, &[event]);
        let segment = segment.expect("it is JSON").expect("there is an event");
        ok!(provider.container().run(segment.create()));
    }
    let details = ErrorDetails::Application {
        kind: AppErrorKind::OrchestrationFailed,
        message: "broken".to_owned(),
        retryable: false,
    };
    let failed = EventKind::OrchestrationFailed { details };
    end_next(&provider, 2, "new", failed).await;
    emulator.inject(
        Fault::always(Effect::error(400, 0))
            .on(OperationKind::Batch)
            .after(1),
    );
    let oldest = PruneOptions {
        keep_last: Some(1),
        ..PruneOptions::default()
    };
    let pruned = provider.prune_executions("i", oldest).await;
    pruned.expect_err("it is interrupted");
    emulator.clear_faults();
    provider.rewind("i", "ada").await.expect("it is rewound");
    let values = provider.get_kv_all_values("i").await.expect("the values");
    let value = values.get("key").map(String::as_str);
    assert_eq!(value, Some("new"), "the value before is unknown");
    backend.stop().await;
}
