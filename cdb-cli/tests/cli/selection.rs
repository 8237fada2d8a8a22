//! The instances that a command changes: named, or selected by filters.

use cdb_cli::Exit;
use cdb_client::ContainerClient;
use cdb_model::{Document as _, Query};
use cdb_provider::documents::{Durable, HistorySegment, OrchestratorItem, Status};
use duroxide::Event;
use serde_json::Value;

use crate::fixture::{dead_intent, fill, instance};
use crate::harness::{Account, Run, ends};

#[tokio::test]
async fn filters_select_the_instances_that_a_command_changes() {
    let account = Account::start().await;
    fill(&account).await;
    let planned = account
        .cdb("instances cancel --orchestration Order --dry-run")
        .await;
    planned.prints("would cancel 1 instance\n");
    planned.prints("order-2");
    let children = [
        "instances",
        "cancel",
        "--orchestration",
        "Ship",
        "--dry-run",
    ];
    let planned = account.cdb(&children).await;
    planned.prints("would cancel 0 instances");
    let planned = account
        .cdb(&[&children[..], &["--parent", "order-2"]].concat())
        .await;
    planned.prints("order-2::sub::4");

    let of_bob = "instances delete --where customer=bob --dry-run";
    let planned = account.cdb(of_bob).await;
    planned.prints("would delete 1 instance\n");

    let failed = ["instances", "delete", "--status", "failed", "--yes"];
    let deleted = account.cdb(&failed).await;
    assert!(
        deleted.out.starts_with("deleted 1 instance\n"),
        "{deleted:?}"
    );
    let listed = account.cdb("instances list --match order-").await;
    assert!(!listed.out.contains("order-3"), "{listed:?}");
    listed.prints("order-1");
}

/// Returns the digest of a plan.
fn digest(planned: &Run) -> String {
    let plan: Value = serde_json::from_str(&planned.out).expect("JSON");
    plan["digest"].as_str().expect("a digest").to_owned()
}

#[tokio::test]
async fn a_change_as_planned_covers_nothing_that_began_to_match_afterwards() {
    let account = Account::start().await;
    let container = fill(&account).await;
    let plan = "instances cancel --orchestration Order --dry-run --json";
    let older = digest(&account.cdb(plan).await);
    let cancel =
        |digest: &str| format!("instances cancel --orchestration Order --yes --planned {digest}");
    let new = instance("order-9", "Order", Status::Running, 300);
    container.run(new.create()).await.expect("it is stored");
    let refused = ends(Exit::Finding, account.cdb(&*cancel(&older))).await;
    refused.complains("nothing was changed: other items match");
    let shown = account.cdb("instances show order-2").await;
    assert!(!shown.out.contains("CancelInstance"), "{shown:?}");
    let newer = digest(&account.cdb(plan).await);
    let cancelled = account.cdb(&*cancel(&newer)).await;
    cancelled.prints("cancelled 2 instances");
    let command = "instances cancel order-2 --yes --planned 0";
    let named = ends(Exit::Usage, account.cdb(command)).await;
    named.complains("named items are the plan");
    let alone = account.cdb(&*cancel(&newer).replace(" --yes", "")).await;
    assert_eq!(alone.exit, Exit::Usage, "{alone:?}");
}

#[tokio::test]
async fn dead_messages_are_discarded_as_planned_or_not_at_all() {
    let account = Account::start().await;
    let container = fill(&account).await;
    dead_intent(&container).await;
    let plan = "messages discard --all --dry-run --json";
    let planned = digest(&account.cdb(plan).await);
    let discard = |digest: &str| format!("messages discard --all --yes --planned {digest}");
    ends(Exit::Finding, account.cdb(&*discard("0123"))).await;
    let shown = account.cdb("messages list").await;
    shown.prints("intent-turn-1@order-3");
    let unconfirmed = account.cdb("messages discard --all").await;
    unconfirmed.complains(&format!("--yes --planned {planned} only"));
    let discarded = account.cdb(&*discard(&planned)).await;
    discarded.prints("discarded 1 message");
}

#[tokio::test]
async fn an_unknown_attribute_and_a_wrong_operator_are_named() {
    let account = Account::start().await;
    fill(&account).await;
    let unknown =
        "no instance has the search attribute `custmer`; the newest instances have customer, total";
    for command in ["instances list", "instances delete --dry-run"] {
        let run = account
            .cdb(&*format!("{command} --where custmer=ada"))
            .await;
        assert_eq!(run.exit, Exit::Ok, "{run:?}");
        run.complains(unknown);
    }
    let known = account.cdb("instances list --where customer=eve").await;
    assert_eq!(known.err, "", "{known:?}");
    let wrong = account.cdb("instances list --where customer==ada").await;
    assert_eq!(wrong.exit, Exit::Usage, "{wrong:?}");
    wrong.complains("`==` is not an operator; write customer=ada");
}

#[tokio::test]
async fn ids_and_filters_exclude_each_other() {
    let account = Account::start().await;
    for (command, text) in [
        (&["cancel"][..], "no instance is given"),
        (
            &["delete", "a", "--status", "failed"],
            "ids and filters are given",
        ),
        (&["delete", "--status", "running"], "cancel them first"),
        (&["restart", "--status", "running"], "cancel them first"),
        (&["restart", "a", "b", "--as", "c"], "name one instance"),
    ] {
        let run = account.cdb(&[&["instances"], command].concat()).await;
        assert_eq!(run.exit, Exit::Usage, "{run:?}");
        run.complains(text);
    }
}

/// Stores the history of `order-1`.
async fn add_history(container: &ContainerClient<Durable>) {
    let started = crate::work_items::started("Order", r#"{"cents":450}"#);
    let events = [Event::with_event_id(1, "order-1", 1, None, started)];
    let segment = HistorySegment::pack("order-1", 1, &events).expect("it packs");
    let segment = segment.expect("an event");
    container.run(segment.create()).await.expect("a segment");
}

#[tokio::test]
async fn an_instance_that_is_not_restarted_does_not_stop_the_others() {
    let account = Account::start().await;
    add_history(&fill(&account).await).await;
    // The newest instance, order-3, has no history.
    let selected = [
        "instances",
        "restart",
        "--status",
        "failed",
        "--status",
        "completed",
    ];
    let restarted = account.cdb(&[&selected[..], &["--yes"]].concat()).await;
    assert_eq!(restarted.exit, Exit::Finding, "{restarted:?}");
    restarted.prints("restarted 1 instance as `order-1-restart`;");
    restarted.prints("\nnot restarted: the first execution of `order-3`");
    restarted.prints("`--input`");
    let queued = account.cdb("instances show order-1-restart").await;
    queued.complains("StartOrchestration Order");
}

#[tokio::test]
async fn a_restart_starts_the_orchestration_with_the_first_input() {
    let account = Account::start().await;
    let container = fill(&account).await;
    add_history(&container).await;
    let planned = ends(Exit::Usage, account.cdb("instances restart order-1")).await;
    planned.prints("would restart 1 instance\n");
    let restarted = account.cdb("instances restart order-1 --yes").await;
    restarted.prints("restarted 1 instance as `order-1-restart`;");
    let queued = account.cdb("instances show order-1-restart").await;
    queued.complains("StartOrchestration Order");
    let messages = Query::<OrchestratorItem>::in_partition("order-1-restart");
    let messages = container.query(messages).all().await.expect("a query");
    let message = format!("{:?}", messages[0].document);
    assert!(message.contains("450"), "the input of order-1: {message}");

    let again = account.cdb("instances restart order-1 --yes").await;
    again.complains("choose another id with --as");
    let selected = ["instances", "restart", "--status", "completed", "--yes"];
    let again = account.cdb(&selected).await;
    again.prints("restarted before: 1");
    let pruned = account.cdb("instances restart order-3 --yes").await;
    pruned.complains("`--input`");
    let running = account.cdb("instances restart order-2 --yes").await;
    running.complains("`order-2` is running");
}

/// An interrupted run has deleted or cancelled the first of them.
#[tokio::test]
async fn a_repeated_change_of_named_instances_changes_those_that_are_left() {
    let account = Account::start().await;
    fill(&account).await;
    ends(Exit::Ok, account.cdb("instances delete order-1 --yes")).await;
    let both = "instances delete order-1 order-3 order-3";
    let planned = ends(Exit::Finding, account.cdb(&*format!("{both} --dry-run"))).await;
    planned.prints("would delete 1 instance\n");
    planned.complains("not in the plan: instance `order-1` does not exist\n");
    let again = ends(Exit::Finding, account.cdb(&*format!("{both} --yes"))).await;
    again.prints("deleted 1 instance");
    again.prints("\nnot deleted: instance `order-1` does not exist\n");
    let none = ends(Exit::Finding, account.cdb(&*format!("{both} --yes"))).await;
    none.prints("deleted 0 instances\nnot deleted: ");
    let typo = ends(Exit::Finding, account.cdb("instances delete order-1 --yes")).await;
    typo.complains("instance `order-1` does not exist");

    let account = Account::start().await;
    fill(&account).await;
    let three = "instances cancel order-3 order-2 missing";
    let planned = account.cdb(&*format!("{three} --dry-run")).await;
    planned.prints("would cancel 1 instance\n");
    assert!(!planned.out.contains("order-3"), "{planned:?}");
    planned.complains("not in the plan: instance `order-3` has ended: Failed\n");
    let cancelled = ends(Exit::Finding, account.cdb(&*format!("{three} --yes"))).await;
    cancelled.prints("cancelled 1 instance;");
    cancelled.prints("\nnot cancelled: instance `order-3` has ended: Failed\n");
    let single = ends(Exit::Finding, account.cdb("instances cancel order-3 --yes")).await;
    single.complains("instance `order-3` has ended");
}

#[tokio::test]
async fn a_paused_instance_is_shown_and_found_until_it_is_resumed() {
    let account = Account::start().await;
    fill(&account).await;
    let planned = account.cdb("instances pause order-2 --dry-run").await;
    planned.prints("would pause 1 instance\n");
    let paused = account
        .cdb("instances pause order-2 --tree --by ada --yes")
        .await;
    // With the child that it waits for.
    assert_eq!(paused.out, "paused 2 instances\n", "{paused:?}");
    let shown = account.cdb("instances show order-2").await;
    shown.prints("paused:        by ada at ");
    let listed = account.cdb("instances list").await;
    listed.prints(" Paused ");
    let found = account.cdb("instances list --paused --json").await;
    let found: Value = serde_json::from_str(&found.out).expect("JSON");
    let found: Vec<_> = found["instances"]
        .as_array()
        .expect("a list")
        .iter()
        .collect();
    let ids: Vec<_> = found.iter().map(|row| &row["id"]).collect();
    assert_eq!(ids, ["order-2::sub::4", "order-2"], "{found:?}");
    assert_eq!(found[0]["paused"]["by"], "ada");
    let resumed = account.cdb("instances resume --paused --yes").await;
    assert_eq!(resumed.out, "resumed 2 instances\n", "{resumed:?}");
    let again = account.cdb("instances resume order-2 --yes").await;
    let not_paused = "resumed 0 instances\ninstance `order-2` is not paused\n";
    assert_eq!(again.out, not_paused, "{again:?}");
    let ended = account.cdb("instances pause order-3 --yes").await;
    ended.complains("`order-3` has ended");
}
