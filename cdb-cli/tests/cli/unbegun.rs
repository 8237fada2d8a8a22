//! Instances that have not begun: a limit may keep them from it, or their start is a mistake.

use std::time::Duration;

use cdb_cli::Exit;
use cdb_client::ContainerClient;
use cdb_model::Document as _;
use cdb_provider::CosmosDBProviderConfig;
use cdb_provider::documents::{Durable, OrchestratorItem, Rule, RuntimeLease};

use crate::harness::{Account, ends};
use crate::work_items::start_of;

/// Stores the start of an instance that has been due for a while.
async fn started(container: &ContainerClient<Durable>, instance: &str, seconds: u64) {
    let start = start_of(instance, "Campaign");
    let at = container.now() - Duration::from_secs(seconds);
    let start = OrchestratorItem::new(&start, "start".to_owned(), at, at).expect("a message");
    container.run(start.create()).await.expect("it is stored");
}

/// Stores the lease of a runtime, which has this many seconds left.
async fn lease(container: &ContainerClient<Durable>, seconds: u64) {
    let lease = RuntimeLease {
        instance_id: RuntimeLease::key_of("a").instance_id,
        until: container.now() + Duration::from_secs(seconds),
        ..RuntimeLease::default()
    };
    ok!(container.run(lease.upsert()));
}

/// The labels of an instance that has not begun are known to programs only.
#[tokio::test]
async fn a_start_that_a_limit_may_keep_from_beginning_is_not_overdue() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    let store = account.store(&CosmosDBProviderConfig::default()).await;
    started(&container, "acme:1", 70).await;
    let run = account.cdb("doctor").await;
    run.prints("PROBLEM  slots        messages have been due for");
    let pause = Rule::new("tenant=acme".parse().expect("valid")).running(0);
    store.set_limit(pause, "ada").await.expect("it is set");
    let run = account.cdb("doctor").await;
    assert_eq!(run.exit, Exit::Finding, "no runtime is alive: {run:?}");
    lease(&container, 60).await;
    let run = ends(Exit::Ok, account.cdb("doctor")).await;
    run.prints("no runtime has begun `acme:1`; `tenant=acme` has --running 0");
    assert!(!run.out.contains("selects no activity"), "{run:?}");
    let shown = account.cdb("instances show acme:1").await;
    shown.complains(
        "`tenant=acme` has --running 0, which keeps instances with the label from beginning",
    );
    let listed = account.cdb("instances list").await;
    listed.prints("not begun: `acme:1`; `tenant=acme` has --running 0");
    let queues = account.cdb("queues").await;
    queues.prints("1 instance not begun, perhaps because of a limit with --running 0");
    // A pause of activities keeps no instance from beginning.
    let tenant = "tenant=acme".parse().expect("valid");
    ok!(store.remove_limit(&tenant, "ada"));
    let all = Rule::new("*".parse().expect("valid")).running(0);
    store.set_limit(all, "ada").await.expect("it is set");
    ends(Exit::Finding, account.cdb("doctor")).await;
}

#[tokio::test]
async fn a_queued_event_is_kept_for_an_instance_that_has_not_begun() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    account.store(&CosmosDBProviderConfig::default()).await;
    started(&container, "order-1", 1).await;
    let raised = ends(Exit::Finding, account.cdb("instances raise order-1 Go")).await;
    raised.complains("instance `order-1` does not exist yet");
    let queued = ends(Exit::Ok, account.cdb("instances raise order-1 Go --queue")).await;
    queued.prints("raised an event for 1 instance");
    let unknown = ends(
        Exit::Finding,
        account.cdb("instances raise order-2 Go --queue"),
    )
    .await;
    unknown.complains("instance `order-2` does not exist");
    let shown = account.cdb("queues").await;
    assert_eq!(shown.exit, Exit::Ok, "{shown:?}");
}

#[tokio::test]
async fn a_misspelt_start_can_be_deleted() {
    let account = Account::start().await;
    account.store(&CosmosDBProviderConfig::default()).await;
    let container = account.container::<Durable>().await;
    for command in ["cancel", "pause", "resume", "delete"] {
        let arguments = ["instances", command, "nothing", "--yes"];
        let missing = account.cdb(&arguments).await;
        missing.complains("instance `nothing` does not exist");
    }
    started(&container, "acme:bad", 70).await;
    let refused = account.cdb("instances delete acme:bad --yes").await;
    refused.complains("instance `acme:bad` has not begun; delete it with --force");
    let cancelled = ends(Exit::Ok, account.cdb("instances cancel acme:bad --yes")).await;
    cancelled.prints("it has not begun, and `delete --force` removes it at once");
    let paused = account.cdb("instances pause acme:bad --by ada --yes").await;
    paused.prints("paused 1 instance");
    let again = account.cdb("instances pause acme:bad --by bob --yes").await;
    again.prints("instance `acme:bad` is paused already, by ada");
    account
        .cdb("instances show acme:bad")
        .await
        .complains("it is paused by ada");
    let resumed = account.cdb("instances resume acme:bad --yes").await;
    resumed.prints("resumed 1 instance");
    let plan = account
        .cdb("instances delete acme:bad --force --dry-run")
        .await;
    plan.prints("Campaign       acme:bad");
    let deleted = account.cdb("instances delete acme:bad --force --yes").await;
    assert_eq!(deleted.exit, Exit::Ok, "{deleted:?}");
    deleted.prints("deleted 1 instance");
    let gone = account.cdb("instances show acme:bad").await;
    gone.complains("instance `acme:bad` does not exist\n");
}

#[tokio::test]
async fn an_empty_id_is_refused() {
    let account = Account::start().await;
    for more in [&[][..], &["--dry-run"]] {
        let start = [&["instances", "start", "", "Campaign"], more].concat();
        let refused = ends(Exit::Usage, account.cdb(&start)).await;
        refused.complains("the instance id is empty");
    }
}
