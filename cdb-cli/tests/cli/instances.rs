//! `cdb instances`, with the orchestrations of the fixture.

use cdb_cli::{Cli, Exit};
use cdb_client::database::ContainerChange;
use cdb_model::{Container as _, Document as _, Query};
use cdb_provider::CosmosDBProviderConfig;
use cdb_provider::documents::{Durable, Execution, HistorySegment, Instance, Status};
use duroxide::{AppErrorKind, Client, ErrorDetails, Event, EventKind};
use serde_json::Value;

use crate::fixture::{at, fill, instance};
use crate::harness::{Account, Run, ends};
use crate::shop::Shop;

#[tokio::test]
async fn instances_are_shown_as_list_detail_history_and_tree() {
    let account = Account::start().await;
    fill(&account).await;
    for (command, snapshot) in [
        ("instances list", "instances-list"),
        (
            "instances list --json --status failed",
            "instances-list-json",
        ),
        ("instances show order-2", "instances-show"),
        ("instances history order-2", "instances-history"),
        ("instances tree order-2", "instances-tree"),
    ] {
        account.cdb(command).await.is(snapshot);
    }
}

#[tokio::test]
async fn an_instance_with_a_damaged_history_does_not_fail_the_list() {
    let account = Account::start().await;
    fill(&account).await;
    let whole = account.cdb("instances list").await;
    let container = account.container::<Durable>().await;
    let damaged = instance("damaged", "Order", Status::Running, 0);
    container.run(damaged.create()).await.expect("an instance");
    let segment = HistorySegment {
        instance_id: "damaged".to_owned(),
        execution_id: 1,
        event_id: 1,
        event_count: 1,
        event_data: "[{".to_owned().into(),
    };
    container.run(segment.create()).await.expect("a segment");
    let history = account.cdb("instances history damaged").await;
    assert_ne!(history.exit, Exit::Ok, "{history:?}");
    let list = ends(Exit::Ok, account.cdb("instances list")).await;
    list.prints("  damaged");
    let waits = |run: &Run| {
        let line = run.out.lines().find(|line| line.ends_with("  order-2"));
        line.expect("it is listed").contains("waits for a runtime")
    };
    assert!(waits(&whole) && waits(&list), "{list:?}");
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
        (&["--where", "customer=ada"], &["order-1"]),
        (
            &["--where", "customer=bob", "--where", "total<990"],
            &["order-2"],
        ),
        (
            &["--where", "total>=660", "--status", "failed"],
            &["order-3"],
        ),
        // A quoted number is a string.
        (&["--where", "total=\"330\""], &[]),
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
async fn pages_have_no_gaps_and_no_duplicates() {
    let account = Account::start().await;
    let container = fill(&account).await;
    for number in 0..20 {
        // The same creation time, so that only the continuation distinguishes the instances.
        let same = instance(&format!("same-{number}"), "Same", Status::Completed, 500);
        container.run(same.create()).await.expect("an instance");
    }
    let (mut seen, mut from) = (Vec::new(), None::<String>);
    loop {
        let more = from.iter().flat_map(|from| ["--from", from]);
        let arguments: Vec<&str> = ["instances", "list", "--limit", "7", "--json"]
            .into_iter()
            .chain(more)
            .collect();
        let run = ends(Exit::Ok, account.cdb(&arguments)).await;
        let page: Value = serde_json::from_str(&run.out).expect("JSON");
        let rows = page["instances"].as_array().expect("instances");
        seen.extend(rows.iter().map(|row| row["id"].to_string()));
        let Some(next) = page["next"].as_str() else {
            break;
        };
        from = Some(next.to_owned());
    }
    assert_eq!(seen.len(), 24, "{seen:?}");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 24, "some were listed twice");
    let page = account.cdb("instances list --limit 7").await;
    let last = page.out.lines().last();
    assert_eq!(last, Some("more instances follow; --all lists them"));
    let all = account.cdb("instances list --all").await;
    assert_eq!(all.out.lines().count(), 25, "{all:?}");
}

#[tokio::test]
async fn attributes_sort_a_list_if_an_index_of_the_container_serves_the_sort() {
    let account = Account::start().await;
    fill(&account).await;
    let ids = |run: &Run| -> Vec<String> {
        let rows = run.out.lines().skip(1);
        rows.filter_map(|row| row.split_whitespace().next_back())
            .map(str::to_owned)
            .collect()
    };
    let sorted = |order: &'static str| {
        let account = &account;
        async move { account.cdb(&["instances", "list", "--sort", order]).await }
    };
    for (order, expected) in [
        // An instance without the attribute sorts before all values.
        (
            "total",
            ["order-2::sub::4", "order-1", "order-2", "order-3"],
        ),
        (
            "-total",
            ["order-3", "order-2", "order-1", "order-2::sub::4"],
        ),
    ] {
        let run = sorted(order).await;
        assert_eq!(ids(&run), expected, "{run:?}");
    }
    let refused = ends(Exit::Usage, sorted("customer,-total")).await;
    let index = r#"[{"path":"/attributes/customer","order":"ascending"},{"path":"/attributes/total","order":"descending"}]"#;
    refused.complains(index);

    let mut definition = Durable::definition();
    let index = serde_json::from_str(index).expect("an index");
    definition.indexing_policy.composite_indexes.push(index);
    let change = ContainerChange::default().with_indexing_policy(definition.indexing_policy);
    ok!(account.database().change_container("duroxide", &change));
    for (order, expected) in [
        (
            "customer,-total",
            ["order-2::sub::4", "order-1", "order-3", "order-2"],
        ),
        (
            "-customer,total",
            ["order-2", "order-3", "order-1", "order-2::sub::4"],
        ),
    ] {
        let run = sorted(order).await;
        assert_eq!(ids(&run), expected, "{run:?}");
    }
    ends(Exit::Usage, sorted("total,customer")).await;
    let unnamed = sorted("total,").await;
    let text = "is not the name of an attribute";
    unnamed.complains(text);
}

#[tokio::test]
async fn a_missing_instance_is_a_finding() {
    let account = Account::start().await;
    for command in ["show", "history", "tree"] {
        let run = account.cdb(&["instances", command, "missing"]).await;
        assert_eq!(run.exit, Exit::Finding, "{run:?}");
        run.complains("instance `missing` does not exist");
    }
    let run = account.cdb("instances raise missing Approved").await;
    assert_eq!(run.exit, Exit::Finding, "{run:?}");
}

#[tokio::test]
async fn delete_and_prune_change_nothing_without_yes() {
    let account = Account::start().await;
    let container = fill(&account).await;
    account
        .cdb("instances delete order-1 order-3")
        .await
        .is("instances-delete-without-yes");
    let looked = account
        .cdb("instances delete --ended-before 1h --dry-run")
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
        .cdb("instances delete order-1 --yes")
        .await
        .is("instances-delete");
    let command = "instances delete --ended-before 1h --yes";
    ends(Exit::Ok, account.cdb(command)).await;
    let listed = account.cdb("instances list").await;
    assert!(
        !listed.out.contains("order-1") && !listed.out.contains("order-3"),
        "{listed:?}"
    );
    account
        .cdb("instances prune order-2 --yes")
        .await
        .is("instances-prune");
}

#[tokio::test]
async fn a_running_instance_is_deleted_with_force_only() {
    let account = Account::start().await;
    fill(&account).await;
    let refused = ends(Exit::Usage, account.cdb("instances delete order-2 --yes")).await;
    refused.complains("cancel it first, or delete it with --force");
    let forced = account.cdb("instances delete order-2 --yes --force").await;
    assert_eq!(forced.exit, Exit::Ok, "{forced:?}");
}

#[tokio::test]
async fn cancel_and_raise_queue_a_message() {
    let account = Account::start().await;
    fill(&account).await;
    account
        .cdb("instances cancel order-2 --dry-run")
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
        .cdb("instances raise order-2 Approved yes")
        .await
        .is("instances-raise");
    let shown = account.cdb("instances show order-2").await;
    shown.prints("message: CancelInstance: no stock, ");
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
async fn a_container_without_orchestrations_is_a_usage_error() {
    let account = Account::empty().await;
    let run = account
        .run(&Cli::<Shop>::new("duroxide"), "instances list")
        .await;
    assert_eq!(run.exit, Exit::Usage, "{run:?}");
    run.complains("`Shop` cannot hold orchestrations: its partition key is /customer");
}

#[tokio::test]
async fn an_ended_instance_cannot_be_cancelled_and_receives_no_event() {
    let account = Account::start().await;
    fill(&account).await;
    for command in [
        &["cancel", "order-3", "--yes"][..],
        &["raise", "order-3", "Approved"],
    ] {
        let run = account.cdb(&[&["instances"], command].concat()).await;
        assert_eq!(run.exit, Exit::Finding, "{run:?}");
        run.complains("`order-3` has ended: Failed");
    }
}

#[tokio::test]
async fn an_error_is_json_under_json() {
    let account = Account::start().await;
    let run = account.cdb("instances show missing --json").await;
    let error: Value = serde_json::from_str(&run.err).expect("JSON");
    assert_eq!(error["error"], "instance `missing` does not exist");
    assert_eq!(error["exitCode"], 1);
}

#[tokio::test]
async fn an_empty_plan_needs_no_confirmation() {
    let account = Account::start().await;
    for command in [
        &["instances", "delete", "--ended-before", "30d"][..],
        &["messages", "discard", "--all"],
    ] {
        let run = account.cdb(command).await;
        assert_eq!((run.exit, &*run.err), (Exit::Ok, ""), "{run:?}");
    }
}

#[tokio::test]
async fn an_unfetched_start_is_reported_as_queued() {
    let account = Account::start().await;
    let store = account.store(&CosmosDBProviderConfig::default()).await;
    let client = Client::new(store);
    ok!(client.start_orchestration("soon", "Order", ""));
    let run = ends(Exit::Finding, account.cdb("instances show soon")).await;
    let text = "instance `soon` does not exist yet: StartOrchestration Order is queued, and no runtime has fetched";
    run.complains(text);
}

#[tokio::test]
async fn the_five_newest_earlier_executions_are_listed() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    let again = Instance {
        current_execution_id: 12,
        ..instance("again", "Again", Status::Running, 0)
    };
    container.run(again.create()).await.expect("an instance");
    for execution_id in 1..12 {
        let execution = Execution {
            instance_id: "again".to_owned(),
            execution_id,
            status: Status::ContinuedAsNew,
            output: None,
            started_at: at(execution_id),
            completed_at: Some(at(execution_id + 1)),
            rewound: None,
        };
        ok!(container.run(execution.create()));
    }
    let run = account.cdb("instances show again").await;
    let listed: Vec<&str> = run
        .out
        .lines()
        .filter_map(|line| line.strip_prefix("earlier execution "))
        .filter_map(|line| line.split(':').next())
        .collect();
    assert_eq!(listed, ["11", "10", "9", "8", "7"], "{run:?}");
    run.prints("and 6 earlier executions");
    let beyond = "instances history again --execution 13";
    let run = ends(Exit::Finding, account.cdb(beyond)).await;
    run.complains("its newest execution is 12");
}

#[tokio::test]
async fn a_history_shows_child_ids_and_error_messages() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    let parent = instance("parent", "Order", Status::Failed, 0);
    container.run(parent.create()).await.expect("an instance");
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
        // duroxide stores a generated child id without the parent's id.
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
    ok!(container.run(segment.expect("events").create()));
    let run = account.cdb("instances history parent").await;
    for said in [
        "instance: parent::sub::1, input: parcel",
        "fires at: 2026-01-01T01:00:00.000Z",
        "error: no stock",
    ] {
        assert!(run.out.contains(said), "{said}: {run:?}");
    }
    let run = account.cdb("instances history parent --json").await;
    for said in [
        r#""instance": "parent::sub::1""#,
        r#""fire_at_ms": 1767229200000"#,
        r#""message": "no stock""#,
    ] {
        assert!(run.out.contains(said), "{said}: {run:?}");
    }
}

#[tokio::test]
async fn a_dry_run_of_start_raise_and_fork_changes_nothing() {
    let account = Account::start().await;
    let container = fill(&account).await;
    let stored = async || {
        let all = Query::<Durable>::across_partitions();
        let all = container.query(all).all().await.expect("it can be read");
        let etags = all.into_iter().map(|stored| (stored.id, stored.etag));
        let mut etags: Vec<_> = etags.map(|(id, etag)| (id, etag.to_string())).collect();
        etags.sort();
        etags
    };
    let before = stored().await;
    for (command, shows) in [
        (
            "start order-9 Order",
            "would start `Order` as instance `order-9`",
        ),
        (
            "raise order-2 Approved",
            "would raise an event for 1 instance",
        ),
        (
            "fork order-2 --as copy --event 2",
            "instance `copy`, execution 1: keeps",
        ),
    ] {
        let run = account
            .cdb(&*format!("instances {command} --dry-run"))
            .await;
        assert_eq!(run.exit, Exit::Ok, "{run:?}");
        run.prints(shows);
        assert_eq!(stored().await, before, "{command}");
    }
    let known = account.cdb("instances start order-1 Order --dry-run").await;
    assert_eq!(known.exit, Exit::Usage, "{known:?}");
}
