//! `cdb doctor`, on a healthy container, on a container with problems, and without a server.

use cdb_cli::Exit;
use cdb_client::ContainerChange;
use cdb_model::{Container, Patch};
use cdb_provider::documents::{Durable, Instance, InstanceKey};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::fixture::{fill, members};
use crate::harness::{Account, cdb};
use crate::shop::Shop;

#[tokio::test]
async fn a_healthy_container_has_no_findings() {
    let account = Account::start().await;
    let run = account.cdb("doctor").await;
    assert_eq!(run.exit, Exit::Ok, "{run:?}");
    run.is("doctor-healthy");
}

#[tokio::test]
async fn each_finding_has_a_remedy() {
    let account = Account::start().await;
    let container = fill(&account).await;
    members(&container).await;
    let lock = container.now() + Duration::from_secs(3600);
    let stuck = Patch::<Instance>::new()
        .set(
            Instance::ATTEMPTS,
            BTreeMap::from([("order-2:orch:raised-1".to_owned(), 8)]),
        )
        .set(Instance::LOCK_TOKEN, Some("lock".to_owned()))
        .set(Instance::LOCKED_UNTIL, Some(lock));
    container
        .run(stuck.at(&InstanceKey::new("order-2")))
        .await
        .expect("it is stuck");
    let mut policy = Durable::definition().indexing_policy;
    policy
        .included_paths
        .retain(|path| path.path != "/status/?");
    let change = ContainerChange::default().with_indexing_policy(policy);
    account
        .database()
        .change_container("duroxide", &change)
        .await
        .expect("it is taken");
    let run = account.cdb("doctor").await;
    assert_eq!(run.exit, Exit::Finding, "{run:?}");
    run.is("doctor");
}

#[tokio::test]
async fn a_missing_container_and_a_missing_server_are_different_findings() {
    let account = Account::empty().await;
    let run = account.cdb("doctor").await;
    assert_eq!(run.exit, Exit::Finding, "{run:?}");
    assert!(
        run.out.contains("PROBLEM  container") && run.out.contains("cdb policy apply --create"),
        "{run:?}"
    );
    assert!(!run.out.contains("bootstrap"), "one remedy: {run:?}");
    let endpoint = account.emulator.endpoint();
    account.emulator.stop().await;
    let run = cdb(&["doctor", "--endpoint", &endpoint, "--timeout", "1"]).await;
    assert_eq!(run.exit, Exit::Finding, "{run:?}");
    run.prints("PROBLEM  endpoint");
    run.prints("nothing listens at");
    run.prints("cdb emulator");
}

#[tokio::test]
async fn a_wrong_partition_key_is_a_problem_with_a_remedy() {
    let account = Account::empty().await;
    account.container::<Shop>().await;
    let run = account.cdb("doctor").await;
    assert_eq!(run.exit, Exit::Finding, "{run:?}");
    run.prints("PROBLEM  container");
    run.prints("/instanceId");
    run.prints("create a new container");
    assert!(run.err.is_empty(), "{run:?}");
}
