//! `cdb limits`.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_cli::Exit;
use cdb_client::ContainerClient;
use cdb_model::Document as _;
use cdb_provider::CosmosDBProviderConfig;
use cdb_provider::documents::{
    Durable, LIMITS_PARTITION, Labels, LimitedKey, LimitsKey, MAX_RULES, Rule, WorkerItem,
};
use duroxide::providers::WorkItem;

use crate::fixture::fill;
use crate::harness::{Account, ends};

#[tokio::test]
async fn limits_are_set_listed_and_removed() {
    let account = Account::start().await;
    account.cdb("limits list").await.is("limits-none");
    // A runtime opens the container.
    fill(&account).await;
    let set = "limits set --by ada activity=CallBank --running 10 --per-second 50";
    account.cdb(set).await.is("limits-set");
    account
        .cdb("limits set --by ada tenant=* --weight 1")
        .await
        .prints("tenant=*");
    account
        .cdb("limits set --by ada * --running 0")
        .await
        .is("limits-list");
    let dry = account.cdb("limits remove --dry-run *").await;
    dry.prints("would remove; the limits would be:");
    let dry = account
        .cdb("limits set --dry-run tag=gpu --running 1")
        .await;
    dry.prints("tag=gpu");
    account.cdb("limits list").await.prints("paused");
    account
        .cdb("limits remove --by ada tenant=*")
        .await
        .prints("removed the limit of `tenant=*`");
    let unknown = ends(Exit::Finding, account.cdb("limits remove tenant=*")).await;
    assert!(!unknown.err.contains("remove_limit"), "{unknown:?}");
    unknown.complains("the container has limits of `activity=CallBank`, `*`");
}

#[tokio::test]
async fn a_dry_run_is_refused_where_the_change_would_be() {
    let account = Account::start().await;
    for arguments in ["limits remove --by ada *"] {
        let refused = account.cdb(arguments).await;
        let planned = account.cdb(format!("{arguments} --dry-run").as_str()).await;
        assert_eq!((planned.exit, planned.err), (refused.exit, refused.err));
        assert_ne!(planned.exit, Exit::Ok, "{arguments}");
    }
    // A runtime opens the container.
    fill(&account).await;
    let container = account.container::<Durable>().await;
    let store = account.store(&CosmosDBProviderConfig::default()).await;
    let rule = |number: usize| Rule {
        running: Some(1),
        ..Rule::new(format!("tenant={number}").parse().expect("a selector"))
    };
    store.set_limit(rule(0), "ada").await.expect("it is set");
    let key = LimitsKey::new(LIMITS_PARTITION);
    let mut stored = container.read(&key).await.expect("it is read");
    let stored = stored.as_mut().expect("it exists");
    stored.document.rules = (0..MAX_RULES).map(rule).collect();
    let full = stored.document.replace();
    container.run(full).await.expect("it is stored");
    let one_more = account.cdb("limits set * --running 1 --dry-run").await;
    one_more.complains("a container has at most");
    assert_eq!(one_more.exit, Exit::Usage, "{one_more:?}");
    ends(Exit::Usage, account.cdb("limits set * --running 1")).await;
    let replaced = account.cdb("limits set tenant=1 --running 2 --dry-run");
    assert_eq!(replaced.await.exit, Exit::Ok);
}

#[tokio::test]
async fn a_limit_is_set_before_the_first_runtime_opens_the_container() {
    let account = Account::empty().await;
    account.cdb("policy apply --create").await.prints("created");
    let set = "limits set --by ada * --running 3";
    ends(Exit::Ok, account.cdb(format!("{set} --dry-run").as_str())).await;
    ends(Exit::Ok, account.cdb(set)).await;
    let store = account.store(&CosmosDBProviderConfig::default()).await;
    let limits = store.limits().await.expect("the limits");
    assert_eq!(limits.expect("some").rules[0].running, Some(3));
}

#[tokio::test]
async fn a_limit_that_limits_nothing_is_refused_before_any_request() {
    for (arguments, said) in [
        ("limits set tenant=ada", "--running"),
        ("limits set tenant --running 1", "write `*`"),
        (
            "limits set tenant=ada --weight 0",
            "use a whole number from 1 to 1000",
        ),
        ("limits set tenant=ada --per-second 0", "use --running 0"),
        (
            "limits set tenant=ada --per-second -1",
            "from 0.001 to 1000000",
        ),
        (
            "limits set tenant=ada --running -1",
            "use a whole number from 0",
        ),
        (
            "limits set tenant=ada --running 1.5",
            "use a whole number from 0",
        ),
        (
            "limits set tenant=ada --running ten",
            "use a whole number from 0",
        ),
        ("limits set tenant=ac* --running 1", "`*` alone"),
        ("limits set tenant=\"acme\" --running 1", "without quotes"),
    ] {
        let run = crate::harness::cdb(arguments).await;
        run.complains(said);
    }
}

#[tokio::test]
async fn an_instance_shows_the_limit_that_its_activity_waits_for() {
    let account = Account::start().await;
    fill(&account).await;
    let container = account.container::<Durable>().await;
    account
        .cdb("limits set --by ada tenant=* --running 5")
        .await
        .prints("tenant=*");
    waiting(&container, Duration::from_secs(3600 * 24 * 5)).await;
    permit(
        &container,
        "tenant=ada",
        &[("runtime-a", 3), ("runtime-b", 2)],
    )
    .await;
    // This one has room, so nothing waits for it.
    account
        .cdb("limits set --by ada activity=* --running 5")
        .await
        .prints("activity=*");
    let shown = account.cdb("instances show order-2").await;
    shown.prints("waits for the limit `tenant=ada`: 5 of 5 run");
    assert!(!shown.out.contains("the limit `activity="), "{shown:?}");
    account.cdb("limits remove --by ada activity=*").await;
    account.cdb("limits list").await.is("limits-keys");
    account.cdb("queues").await.is("queues-limits");
    // An activity that no limit holds back is not the one that has waited for days.
    let doctor = account.cdb("doctor").await;
    doctor.prints("1 wait for limits");
}

/// Stores an activity of the tenant `ada` that has been due for some time.
async fn waiting(container: &ContainerClient<Durable>, age: Duration) {
    let call = WorkItem::ActivityExecute {
        instance: "order-2".to_owned(),
        execution_id: 2,
        id: 40,
        name: "CallBank".to_owned(),
        input: String::new(),
        session_id: None,
        tag: None,
    };
    let item = WorkerItem::new(&call, container.now() - age);
    let item = item.expect("JSON").expect("an activity");
    let labels = Labels {
        activity: "CallBank".to_owned(),
        of_instance: [("tenant".to_owned(), "ada".to_owned())].into(),
        ..Labels::default()
    };
    let item = WorkerItem {
        labels: Some(labels),
        ..item
    };
    container.run(item.create()).await.expect("it is stored");
}

/// Stores a key whose permits are all held, as many by each runtime as said.
async fn permit(container: &ContainerClient<Durable>, key: &str, held: &[(&str, i64)]) {
    let held: BTreeMap<_, _> = held
        .iter()
        .map(|(runtime, held)| ((*runtime).to_owned(), *held))
        .collect();
    let used = LimitedKey {
        instance_id: format!("{LIMITS_PARTITION}:{key}"),
        key: key.to_owned(),
        cap: held.values().sum(),
        held,
        ..LimitedKey::default()
    };
    container.run(used.create()).await.expect("it is stored");
}

#[tokio::test]
async fn an_old_pause_is_named_with_its_operator_and_is_no_problem() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    let store = account.store(&CosmosDBProviderConfig::default()).await;
    let pause = Rule::new("tenant=*".parse().expect("valid")).running(0);
    store.set_limit(pause, "ada").await.expect("it is set");
    waiting(&container, Duration::from_secs(3600 * 24 * 5)).await;
    let queues = account.cdb("queues").await;
    queues.prints("tenant=ada  0        1        paused  5 d");
    let doctor = ends(Exit::Ok, account.cdb("doctor")).await;
    doctor
        .prints("no work has been due for longer than a minute, apart from what waits for limits");
    doctor.prints("ok       limits       `tenant=ada` is paused; waiting activities: 1, the oldest due for 5 d; the last change of the limits: set the limit of `tenant=*` by ada");
}

#[tokio::test]
async fn keys_beyond_those_shown_and_read_are_counted() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    let store = account.store(&CosmosDBProviderConfig::default()).await;
    let rule = Rule::new("tenant=*".parse().expect("valid")).running(5);
    store.set_limit(rule, "ada").await.expect("it is set");
    let stored = (0..1_010_u32).map(async |number| {
        permit(&container, &format!("tenant={number}"), &[("runtime", 1)]).await;
    });
    futures::future::join_all(stored).await;
    let list = account.cdb("limits list").await;
    list.prints("and 960 more keys");
    assert_eq!(list.out.matches("1 of 5 run").count(), 50, "{list:?}");
}
