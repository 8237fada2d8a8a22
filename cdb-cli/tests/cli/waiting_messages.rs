//! What `cdb doctor` says about messages that wait for their instances, and about others beside them.

use cdb_cli::Exit;
use cdb_model::Document as _;
use cdb_provider::documents::{Durable, OrchestratorItem};
use duroxide::providers::WorkItem;

use crate::fixture::{at, full};
use crate::harness::Account;
use crate::work_items::{event_of, start_of};

fn queued(instance: &str) -> WorkItem {
    WorkItem::QueueMessage {
        instance: instance.to_owned(),
        name: "Letters".to_owned(),
        data: String::new(),
    }
}

fn due(item: &WorkItem, cause: &str) -> OrchestratorItem {
    OrchestratorItem::new(item, cause.to_owned(), at(0), at(0)).expect("a message")
}

/// An event that was queued before the start of its instance waits for the start (docs/reliability.md).
/// No runtime can take it, so more runtimes do not help.
#[tokio::test]
async fn an_event_before_the_start_of_its_instance_is_no_problem_of_the_runtimes() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    let letter = due(&queued("later"), "letter");
    container.run(letter.create()).await.expect("it is stored");
    let run = account.cdb("doctor").await;
    assert!(!run.out.contains("more runtimes"), "{}", run.out);
    // A start waits for a runtime, and so does what waits for the start.
    let start = due(&start_of("later", "Inbox"), "start");
    container.run(start.create()).await.expect("it is stored");
    let run = account.cdb("doctor").await;
    assert!(run.out.contains("more runtimes"), "{}", run.out);
}

/// All runtimes have stopped. An instance has more queued events than it takes, and an event for which
/// it waits.
#[tokio::test]
async fn an_overdue_event_beside_untaken_ones_is_found_when_no_runtime_runs() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    ok!(container.run(full("full").create()));
    let letter = due(&queued("full"), "letter");
    container.run(letter.create()).await.expect("it is stored");
    let go = due(&event_of("full", "Go", ""), "go");
    ok!(container.run(go.create()));
    let run = account.cdb("doctor").await;
    assert_eq!(run.exit, Exit::Finding, "{}", run.out);
}

/// More instances than the doctor reads have events that they do not take.
#[tokio::test]
async fn many_instances_with_untaken_events_are_no_problem_of_the_runtimes() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    for number in 0..201 {
        let id = format!("full-{number}");
        ok!(container.run(full(&id).create()));
        let letter = due(&queued(&id), "letter");
        container.run(letter.create()).await.expect("it is stored");
    }
    let run = account.cdb("doctor").await;
    assert!(!run.out.contains("more runtimes"), "{}", run.out);
}
