//! `cdb instances`, on the orchestrations of the fixture.

use std::sync::Arc;

use cdb_cli::{Cli, Exit};
use cdb_provider::documents::{Execution, HistorySegment, Instance, Status};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::{AppErrorKind, Client, ErrorDetails, Event, EventKind};

use crate::fixture::{at, fill, instance};
use crate::harness::Account;
use crate::shop::Shop;

#[tokio::test]
async fn instances_are_listed_shown_and_told_as_history_and_tree() {
    let account = Account::start().await;
    fill(&account).await;
    account
        .cdb(&["instances", "list"])
        .await
        .is("instances-list");
    account
        .cdb(&["instances", "list", "--json", "--status", "failed"])
        .await
        .is("instances-list-json");
    account
        .cdb(&["instances", "show", "order-2"])
        .await
        .is("instances-show");
    account
        .cdb(&["instances", "history", "order-2"])
        .await
        .is("instances-history");
    account
        .cdb(&["instances", "tree", "order-2"])
        .await
        .is("instances-tree");
}

#[tokio::test]
async fn filters_narrow_the_list() {
    let account = Account::start().await;
    fill(&account).await;
    for (filter, found) in [
        (
            &["--status", "running"][..],
            &["order-2", "order-2::sub::4"][..],
        ),
        (
            &["--status", "completed", "--status", "failed"],
            &["order-1", "order-3"],
        ),
        (&["--parent", "order-2"], &["order-2::sub::4"]),
        (&["--match", "Ship"], &["order-2::sub::4"]),
        (&["--match", "order-3"], &["order-3"]),
        (&["--newer-than", "1s"], &[]),
        (&["--older-than", "1s", "--status", "failed"], &["order-3"]),
    ] {
        let run = account
            .cdb(&[&["instances", "list"], filter].concat())
            .await;
        assert_eq!(run.exit, Exit::Ok, "{run:?}");
        for id in ["order-1", "order-2", "order-3", "order-2::sub::4"] {
            let listed = run
                .out
                .lines()
                .any(|line| line.ends_with(&format!("  {id}")));
            assert_eq!(listed, found.contains(&id), "{filter:?} {id}: {}", run.out);
        }
    }
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_repetition() {
    let account = Account::start().await;
    let container = fill(&account).await;
    for number in 0..20 {
        // Created at the same moment, so that only the continuation tells them apart.
        let same = instance(&format!("same-{number}"), "Same", Status::Completed, 500);
        container.create(&same).await.expect("an instance");
    }
    let (mut seen, mut from) = (Vec::new(), None::<String>);
    loop {
        let more = from.iter().flat_map(|from| ["--from", from]);
        let arguments: Vec<&str> = ["instances", "list", "--limit", "7"]
            .into_iter()
            .chain(more)
            .collect();
        let run = account.cdb(&arguments).await;
        assert_eq!(run.exit, Exit::Ok, "{run:?}");
        let rows = run.out.lines().filter(|line| line.starts_with("2026-"));
        seen.extend(
            rows.filter_map(|row| row.split_whitespace().next_back())
                .map(str::to_owned),
        );
        let next = run
            .out
            .lines()
            .find_map(|line| line.strip_prefix("more: --from "))
            .map(str::to_owned);
        if next.is_none() {
            break;
        }
        from = next;
    }
    assert_eq!(seen.len(), 24, "{seen:?}");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 24, "some were listed twice");
}

#[tokio::test]
async fn an_instance_that_is_not_there_is_a_finding() {
    let account = Account::start().await;
    for command in ["show", "history", "tree"] {
        let run = account.cdb(&["instances", command, "nobody"]).await;
        assert_eq!(run.exit, Exit::Finding, "{run:?}");
        assert!(run.err.contains("there is no instance `nobody`"), "{run:?}");
    }
    let run = account
        .cdb(&["instances", "raise", "nobody", "Approved"])
        .await;
    assert_eq!(run.exit, Exit::Finding, "{run:?}");
}

#[tokio::test]
async fn what_cannot_be_undone_is_shown_first_and_done_with_yes() {
    let account = Account::start().await;
    let container = fill(&account).await;
    account
        .cdb(&["instances", "delete", "order-1", "order-3"])
        .await
        .is("instances-delete-without-yes");
    let looked = account
        .cdb(&["instances", "delete", "--ended-before", "1h", "--dry-run"])
        .await;
    looked.is("instances-delete-dry-run");
    assert!(
        container
            .read(&cdb_provider::documents::InstanceKey::new("order-1"))
            .await
            .unwrap()
            .is_some()
    );
    account
        .cdb(&["instances", "delete", "order-1", "--yes"])
        .await
        .is("instances-delete");
    let left = account
        .cdb(&["instances", "delete", "--ended-before", "1h", "--yes"])
        .await;
    assert_eq!(left.exit, Exit::Ok, "{left:?}");
    let listed = account.cdb(&["instances", "list"]).await;
    assert!(
        !listed.out.contains("order-1") && !listed.out.contains("order-3"),
        "{listed:?}"
    );
    account
        .cdb(&["instances", "prune", "order-2", "--yes"])
        .await
        .is("instances-prune");
}

#[tokio::test]
async fn a_running_instance_is_deleted_by_force_only() {
    let account = Account::start().await;
    fill(&account).await;
    let refused = account
        .cdb(&["instances", "delete", "order-2", "--yes"])
        .await;
    assert_eq!(refused.exit, Exit::Usage, "{refused:?}");
    assert!(
        refused
            .err
            .contains("cancel it first, or delete it with --force"),
        "{refused:?}"
    );
    let forced = account
        .cdb(&["instances", "delete", "order-2", "--yes", "--force"])
        .await;
    assert_eq!(forced.exit, Exit::Ok, "{forced:?}");
}

#[tokio::test]
async fn cancelling_and_raising_queue_a_message() {
    let account = Account::start().await;
    fill(&account).await;
    account
        .cdb(&["instances", "cancel", "order-2", "--dry-run"])
        .await
        .is("instances-cancel-dry-run");
    account
        .cdb(&[
            "instances",
            "cancel",
            "order-2",
            "--yes",
            "--reason",
            "no stock",
        ])
        .await
        .is("instances-cancel");
    account
        .cdb(&["instances", "raise", "order-2", "Approved", "yes"])
        .await
        .is("instances-raise");
    let shown = account.cdb(&["instances", "show", "order-2"]).await;
    assert!(
        shown.out.contains("message: CancelInstance: no stock, "),
        "{shown:?}"
    );
    assert_eq!(
        shown
            .out
            .matches("message: ExternalRaised Approved")
            .count(),
        2,
        "{shown:?}"
    );
}

#[tokio::test]
async fn a_container_without_orchestrations_says_how_it_could_hold_them() {
    let account = Account::empty().await;
    let run = account
        .run(&Cli::<Shop>::new(), &["instances", "list"])
        .await;
    assert_eq!(run.exit, Exit::Usage, "{run:?}");
    assert!(
        run.err.contains("`Shop` holds no orchestrations"),
        "{run:?}"
    );
}

#[tokio::test]
async fn what_has_ended_is_neither_cancelled_nor_told_an_event() {
    let account = Account::start().await;
    fill(&account).await;
    for command in [
        &["cancel", "order-3", "--yes"][..],
        &["raise", "order-3", "Approved"],
    ] {
        let run = account.cdb(&[&["instances"], command].concat()).await;
        assert_eq!(run.exit, Exit::Finding, "{run:?}");
        assert!(run.err.contains("`order-3` has ended: Failed"), "{run:?}");
    }
}

#[tokio::test]
async fn a_plan_of_nothing_needs_no_consent() {
    let account = Account::start().await;
    for command in [
        &["instances", "delete", "--ended-before", "30d"][..],
        &["deadletters", "discard", "--all"],
    ] {
        let run = account.cdb(command).await;
        assert_eq!((run.exit, &*run.err), (Exit::Ok, ""), "{run:?}");
    }
}

#[tokio::test]
async fn an_instance_that_nobody_has_taken_up_is_not_yet_there() {
    let account = Account::start().await;
    let config = CosmosDBProviderConfig::default();
    let store = CosmosDBProvider::on(account.container().await, &config).await;
    let client = Client::new(Arc::new(store.expect("the container opens")));
    let started = client.start_orchestration("soon", "Order", "").await;
    started.expect("it is queued");
    let run = account.cdb(&["instances", "show", "soon"]).await;
    assert_eq!(run.exit, Exit::Finding, "{run:?}");
    let said = "no instance `soon` yet: StartOrchestration Order waits for it, and no runtime has taken it";
    assert!(run.err.contains(said), "{run:?}");
}

#[tokio::test]
async fn earlier_executions_are_told_from_the_latest_and_not_all() {
    let account = Account::start().await;
    let container = account
        .container::<cdb_provider::documents::Durable>()
        .await;
    let again = Instance {
        current_execution_id: 12,
        ..instance("again", "Again", Status::Running, 0)
    };
    container.create(&again).await.expect("an instance");
    for execution_id in 1..12 {
        let execution = Execution {
            instance_id: "again".to_owned(),
            execution_id,
            status: Status::ContinuedAsNew,
            output: None,
            started_at: at(execution_id),
            completed_at: Some(at(execution_id + 1)),
        };
        container.create(&execution).await.expect("an execution");
    }
    let run = account.cdb(&["instances", "show", "again"]).await;
    let told: Vec<&str> = run
        .out
        .lines()
        .filter_map(|line| line.strip_prefix("earlier execution "))
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(told, ["11", "10", "9", "8", "7"], "{run:?}");
    assert!(run.out.contains("and 6 before them"), "{run:?}");
    let beyond = ["instances", "history", "again", "--execution", "13"];
    let run = account.cdb(&beyond).await;
    assert_eq!(run.exit, Exit::Finding, "{run:?}");
    assert!(run.err.contains("the newest one is 12"), "{run:?}");
}

#[tokio::test]
async fn a_history_names_children_as_they_are_called_and_errors_in_their_own_words() {
    let account = Account::start().await;
    let container = account
        .container::<cdb_provider::documents::Durable>()
        .await;
    let parent = instance("parent", "Order", Status::Failed, 0);
    container.create(&parent).await.expect("an instance");
    let event = |event_id, source_event_id, kind| Event {
        event_id,
        source_event_id,
        instance_id: "parent".to_owned(),
        execution_id: 1,
        timestamp_ms: at(event_id).as_millis(),
        duroxide_version: "0.1.32".to_owned(),
        kind,
    };
    let scheduled = EventKind::SubOrchestrationScheduled {
        name: "Ship".to_owned(),
        // As duroxide stores an id that it has made up.
        instance: "sub::1".to_owned(),
        input: "parcel".to_owned(),
    };
    let timer = EventKind::TimerCreated {
        fire_at_ms: at(3600).as_millis(),
    };
    let failed = EventKind::SubOrchestrationFailed {
        details: ErrorDetails::Application {
            kind: AppErrorKind::OrchestrationFailed,
            message: "no stock".to_owned(),
            retryable: false,
        },
    };
    let events = [
        event(1, None, scheduled),
        event(2, None, timer),
        event(3, Some(1), failed),
    ];
    let segment = HistorySegment::pack("parent", 1, &events).expect("it packs");
    container
        .create(&segment.expect("events"))
        .await
        .expect("a segment");
    let run = account.cdb(&["instances", "history", "parent"]).await;
    for said in [
        "instance: parent::sub::1, input: parcel",
        "fires at: 2026-01-01 01:00:00.000Z",
        "error: no stock",
    ] {
        assert!(run.out.contains(said), "{said}: {run:?}");
    }
    let run = account
        .cdb(&["instances", "history", "parent", "--json"])
        .await;
    for said in [
        r#""instance": "parent::sub::1""#,
        r#""fire_at_ms": 1767229200000"#,
        r#""message": "no stock""#,
    ] {
        assert!(run.out.contains(said), "{said}: {run:?}");
    }
}
