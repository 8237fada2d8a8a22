//! `cdb limits`.

use std::time::Duration;

use cdb_cli::Exit;
use cdb_model::Document as _;
use cdb_provider::CosmosDBProviderConfig;
use cdb_provider::documents::{
    Durable, Holder, LIMITS_PARTITION, Labels, LimitsKey, MAX_RULES, Permits, Rule, WorkerItem,
};
use duroxide::providers::WorkItem;

use crate::fixture::fill;
use crate::harness::Account;

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
    let unknown = account.cdb("limits remove tenant=*").await;
    unknown.complains("the container has limits of `activity=CallBank`, `*`");
}

#[tokio::test]
async fn a_dry_run_is_refused_where_the_change_would_be() {
    let account = Account::start().await;
    for arguments in ["limits set * --running 1", "limits remove *"] {
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
    let replaced = account.cdb("limits set tenant=1 --running 2 --dry-run");
    assert_eq!(replaced.await.exit, Exit::Ok);
}

#[tokio::test]
async fn a_limit_that_limits_nothing_is_refused_before_any_request() {
    for (arguments, said) in [
        ("limits set tenant=ada", "--running"),
        ("limits set tenant --running 1", "write `*`"),
        ("limits set tenant=ada --weight 0", "use 1 to 1000"),
        ("limits set tenant=ada --per-second 0", "lets 0 run"),
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
    let now = container.now();
    let call = WorkItem::ActivityExecute {
        instance: "order-2".to_owned(),
        execution_id: 2,
        id: 40,
        name: "CallBank".to_owned(),
        input: String::new(),
        session_id: None,
        tag: None,
    };
    let item = WorkerItem::new(&call, now)
        .expect("JSON")
        .expect("an activity");
    let labels = Labels {
        activity: "CallBank".to_owned(),
        attributes: [("tenant".to_owned(), "ada".to_owned())].into(),
        ..Labels::default()
    };
    let item = WorkerItem {
        labels: Some(labels),
        ..item
    };
    container.run(item.create()).await.expect("it is stored");
    let holder = Holder {
        runtime: "runtime-a".to_owned(),
        running: 5,
        wanted: 12,
        starts: 0,
        until: now + Duration::from_secs(3600),
    };
    let permits = Permits {
        instance_id: format!("{LIMITS_PARTITION}:tenant=ada"),
        key: "tenant=ada".to_owned(),
        holders: vec![holder],
        ttl: None,
    };
    container.run(permits.create()).await.expect("it is stored");
    let shown = account.cdb("instances show order-2").await;
    shown.prints("waits for the limit `tenant=ada`: 5 may run at a time, 12 run or wait");
    account.cdb("limits list").await.is("limits-keys");
}
