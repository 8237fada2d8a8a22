//! What `cdb limits` says about a change, and what `cdb instances` says about activities that wait for a limit.

use std::time::Duration;

use cdb_cli::Exit;
use cdb_client::ContainerClient;
use cdb_model::Document as _;
use cdb_provider::documents::{Durable, HistorySegment, Instance, Status, WorkerItem};
use duroxide::{Event, EventKind};

use crate::fixture::{fill, instance, started};
use crate::harness::{Account, ends};
use crate::work_items::{activity_named, activity_of, scheduled};

#[tokio::test]
async fn a_change_of_a_limit_is_shown_with_what_it_drops() {
    let account = Account::start().await;
    let first = account
        .cdb("limits set --by ada activity=CallBank --running 10")
        .await;
    assert!(!first.out.contains("changed"), "{first:?}");
    let dry = "limits set --by ada activity=CallBank --per-second 50 --dry-run";
    let dry = account.cdb(dry).await;
    dry.prints(
        "would change `activity=CallBank`: running 10 → -, per second - → 50; the limits would be:",
    );
    let set = "limits set --by ada activity=CallBank --per-second 50";
    let set = account.cdb(set).await;
    set.prints("changed `activity=CallBank`: running 10 → -, per second - → 50\n");
    let other = account.cdb("limits set --by ada tag=gpu --running 1").await;
    other.prints("\n`tag=gpu` selects no activity");
    let list = account.cdb("limits list").await;
    list.prints("`activity=CallBank`, `tag=gpu` select no activity");
    let doctor = account.cdb("doctor").await;
    doctor.prints("limits       `activity=CallBank`, `tag=gpu` select no activity");
}

#[tokio::test]
async fn a_name_that_is_nearly_known_is_asked_about() {
    let account = Account::start().await;
    let command = "limits set --by ada activty=CallBank --running 10";
    let set = ends(Exit::Ok, account.cdb(command)).await;
    set.complains("`activty` is taken as a label of instances; did you mean `activity`?");
}

#[tokio::test]
async fn a_missing_container_is_named() {
    let account = Account::empty().await;
    for command in ["limits list", "instances list"] {
        let run = ends(Exit::Service, account.cdb(command)).await;
        run.complains("container `duroxide` of database `duroxide` does not exist; ");
    }
}

/// Stores an instance with a history.
async fn begun(container: &ContainerClient<Durable>, id: &str, kinds: Vec<EventKind>) {
    let begun = Instance {
        history_documents: Some(1),
        ..instance(id, "Order", Status::Running, 0)
    };
    container.run(begun.create()).await.expect("it is stored");
    let later = (2..).zip(kinds);
    let later = later.map(|(event, kind)| Event {
        event_id: event,
        kind,
        ..started(id)
    });
    let events = [started(id)].into_iter().chain(later);
    let events = events.map(|event| Event {
        execution_id: 1,
        ..event
    });
    let segment = HistorySegment::pack(id, 1, &events.collect::<Vec<_>>());
    let segment = segment.expect("JSON").expect("it has events");
    container.run(segment.create()).await.expect("it is stored");
}

#[tokio::test]
async fn a_list_names_the_limit_that_activities_wait_for() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    let calls = (0..5).map(|_| scheduled("CallBank", ""));
    begun(&container, "calls", calls.collect()).await;
    for id in 2..7 {
        let due = container.now() - Duration::from_secs(3600);
        let call = activity_named("CallBank", activity_of("calls", id, None));
        let item = WorkerItem::new(&call, due)
            .expect("JSON")
            .expect("an activity");
        container.run(item.create()).await.expect("it is stored");
    }
    let listed = account.cdb("instances list").await;
    listed.prints("waits for a worker: CallBank +4");
    account
        .cdb("limits set --by ada activity=CallBank --running 0")
        .await
        .prints("paused");
    let listed = account.cdb("instances list").await;
    listed.prints("waits for the limit activity=CallBank: CallBank +4");
    let json = account.cdb("instances list --json").await;
    json.prints(r#""kind": "limit""#);
    let shown = account.cdb("instances show calls").await;
    shown.prints("activity: ActivityExecute CallBank #2, and 4 more, due for");
    shown.prints("waits for: activity CallBank, since 2026-01-01T00:01:00.000Z, and 4 more\n");
    let limits = shown
        .out
        .matches("waits for the limit `activity=CallBank`: paused");
    assert_eq!(limits.count(), 1, "{shown:?}");
}

#[tokio::test]
async fn an_event_of_the_wrong_kind_is_not_lost_without_a_word() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    let name = || "orders".to_owned();
    let waits = vec![EventKind::QueueSubscribed { name: name() }];
    begun(&container, "takes", waits).await;
    let waits = vec![EventKind::ExternalSubscribed { name: name() }];
    begun(&container, "waits", waits).await;
    let shown = account.cdb("instances show takes").await;
    shown.prints("waits for: queue orders, since");
    account.cdb("instances list").await.prints("queue orders ");
    let refused = ends(Exit::Usage, account.cdb("instances raise takes orders 1")).await;
    refused.complains("instance `takes` waits for the queue `orders`, and duroxide would drop an event that is raised; use --queue");
    let queued = account.cdb("instances raise takes orders 1 --queue").await;
    assert_eq!((queued.exit, &*queued.err), (Exit::Ok, ""), "{queued:?}");
    let queued = account.cdb("instances raise waits orders 1 --queue").await;
    assert_eq!(queued.exit, Exit::Ok, "{queued:?}");
    queued.complains("leave out --queue");
    let misspelt = ends(
        Exit::Ok,
        account.cdb("instances raise takes oders 1 --queue"),
    )
    .await;
    misspelt.complains("does not wait for the queue `oders` now; it waits for the queue orders");
    let raised = account.cdb("instances raise waits orders 1").await;
    assert_eq!((raised.exit, &*raised.err), (Exit::Ok, ""), "{raised:?}");
}

#[tokio::test]
async fn a_change_that_does_not_fit_an_instance_is_no_failure_of_the_service() {
    let account = Account::start().await;
    let container = fill(&account).await;
    let child = Instance {
        parent_instance_id: Some("order-2".to_owned()),
        ..instance("child", "Ship", Status::Running, 0)
    };
    container.run(child.create()).await.expect("it is stored");
    let ended = instance("ended", "Order", Status::Completed, 0);
    container.run(ended.create()).await.expect("it is stored");
    for (command, exit, said) in [
        (
            "pause ended",
            Exit::Finding,
            "instance `ended` has ended: Completed",
        ),
        (
            "rewind ended",
            Exit::Finding,
            "instance `ended` is Completed; only failed",
        ),
        (
            "delete child --force",
            Exit::Usage,
            "instance `child` is a sub-orchestration of `order-2`",
        ),
    ] {
        let refused = account.cdb(&*format!("instances {command} --yes")).await;
        assert_eq!(refused.exit, exit, "{refused:?}");
        refused.complains(said);
    }
    let paused = account.cdb("instances pause order-2 --by ada --yes").await;
    paused.prints("paused 1 instance");
    let cancelled = account.cdb("instances cancel order-2 --yes").await;
    cancelled.prints("it is paused, so `resume` it first");
}
