//! An adversarial tester's attempts: what `cdb doctor` says about what waits.

use cdb_cli::Exit;
use cdb_model::Document as _;
use cdb_provider::documents::{Durable, Instance, OrchestratorItem, Status};
use duroxide::providers::WorkItem;

use crate::fixture::{at, instance};
use crate::harness::Account;

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
}

/// All runtimes have stopped. An instance has more queued events than it takes, and an event for which
/// it waits.
#[tokio::test]
async fn an_overdue_event_beside_untaken_ones_is_found_when_no_runtime_runs() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    let full = Instance {
        untaken_events: Some(64),
        ..instance("full", "Inbox", Status::Running, 0)
    };
    container.run(full.create()).await.expect("it is stored");
    let letter = due(&queued("full"), "letter");
    container.run(letter.create()).await.expect("it is stored");
    let go = WorkItem::ExternalRaised {
        instance: "full".to_owned(),
        name: "Go".to_owned(),
        data: String::new(),
    };
    container
        .run(due(&go, "go").create())
        .await
        .expect("it is stored");
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
        let full = Instance {
            untaken_events: Some(64),
            ..instance(&id, "Inbox", Status::Running, 0)
        };
        container.run(full.create()).await.expect("it is stored");
        let letter = due(&queued(&id), "letter");
        container.run(letter.create()).await.expect("it is stored");
    }
    let run = account.cdb("doctor").await;
    assert!(!run.out.contains("more runtimes"), "{}", run.out);
}
