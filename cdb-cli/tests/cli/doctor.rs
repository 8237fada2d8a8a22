//! `cdb doctor`, on a healthy container, on a container with problems, and without a server.

use cdb_cli::{Cli, Exit};
use cdb_client::database::ContainerChange;
use cdb_model::policy::IndexingPolicy;
use cdb_model::{Container, Document, Patch};
use cdb_provider::documents::{Durable, Instance, InstanceKey, OrchestratorItem, Status};
use duroxide::providers::WorkItem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::fixture::{at, fill, full, instance, members};
use crate::harness::{Account, cdb, ends};
use crate::shop::{Payment, Shop};

#[tokio::test]
async fn a_healthy_container_has_no_findings() {
    let account = Account::start().await;
    let run = ends(Exit::Ok, account.cdb("doctor")).await;
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
    remove_indexes(&account, Durable::definition().indexing_policy, "/status/?").await;
    let run = ends(Exit::Finding, account.cdb("doctor")).await;
    run.is("doctor");
}

/// Their messages stay due for as long as the instance likes, and no other runtime changes this.
#[tokio::test]
async fn messages_that_an_instance_does_not_take_yet_are_no_problem_of_the_runtimes() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    ok!(container.run(full("full").create()));
    let event = |instance: &str| WorkItem::QueueMessage {
        instance: instance.to_owned(),
        name: "Letters".to_owned(),
        data: String::new(),
    };
    let due = |instance| OrchestratorItem::new(&event(instance), "letter".to_owned(), at(0), at(0));
    let letter = due("full").expect("a message");
    container.run(letter.create()).await.expect("it is stored");
    let run = ends(Exit::Ok, account.cdb("doctor")).await;
    run.prints("apart from messages that 1 instance cannot or will not take yet");
    let listed = account.cdb("instances list").await;
    assert!(!listed.out.contains("waits for a runtime"), "{listed:?}");
    let idle = instance("idle", "Inbox", Status::Running, 0);
    container.run(idle.create()).await.expect("it is stored");
    let letter = due("idle").expect("a message");
    container.run(letter.create()).await.expect("it is stored");
    let run = account.cdb("doctor").await;
    run.prints("PROBLEM  slots        messages have been due for");
}

#[tokio::test]
async fn a_missing_container_and_a_missing_server_are_different_findings() {
    let account = Account::empty().await;
    let run = ends(Exit::Finding, account.cdb("doctor")).await;
    run.prints("PROBLEM  container");
    run.prints("cdb policy apply --create");
    assert!(!run.out.contains("bootstrap"), "one remedy: {run:?}");
    let endpoint = account.emulator.endpoint();
    account.emulator.stop().await;
    let run = cdb(&["doctor", "--endpoint", &endpoint, "--timeout", "1"]).await;
    assert_eq!(run.exit, Exit::Finding, "{run:?}");
    run.prints("PROBLEM  endpoint");
    run.prints("nothing listens at");
    run.prints("cdb emulator");
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "parcel", id = "parcel")]
struct Parcel {
    #[document(partition_key)]
    #[serde(rename = "instanceId")]
    instance_id: String,
    #[document(index)]
    carrier: String,
    #[document(unindexed)]
    note: Option<String>,
}

/// A container of a program with orchestrations and a type of its own.
#[derive(Container)]
#[expect(clippy::large_enum_variant, reason = "the tests create no value of it")]
enum Parcels {
    #[container(extends)]
    Durable(Durable),
    Parcel(Parcel),
}

#[tokio::test]
async fn indexes_of_types_that_the_command_does_not_know_are_no_finding() {
    let account = Account::empty().await;
    let container = account.container::<Parcels>().await;
    let run = ends(Exit::Ok, account.cdb("doctor")).await;
    let unknown =
        "2 index settings of paths that this command does not know: /carrier/?, excluded /note/*";
    run.prints(&format!("ok       policy       the policy has {unknown}\n"));
    run.prints(
        "→ if a program stores document types of its own here, use the command of that program",
    );
    for command in ["policy diff", "policy check"] {
        let run = ends(Exit::Ok, account.cdb(command)).await;
        run.prints("matches Durable");
        run.complains("use the command of that program");
    }
    account.cdb("policy diff").await.prints(unknown);
    let json = account.cdb("policy diff --json").await;
    json.prints(r#""unknownIndexes": ["#);
    let removal = account.cdb("policy apply --dry-run").await;
    removal.prints("removes these indexes:\n  /carrier/?\n");
    let parcel = Parcel {
        instance_id: "order-1".to_owned(),
        carrier: "bike".to_owned(),
        note: None,
    };
    container.run(parcel.create()).await.expect("it is stored");
    let run = ends(Exit::Ok, account.cdb("doctor")).await;
    run.prints("excluded /note/*; the container holds documents of the types `parcel`");
    let own = account
        .run(&Cli::<Parcels>::new("duroxide"), "doctor")
        .await;
    own.prints("matches Parcels");
    remove_indexes(&account, Parcels::definition().indexing_policy, "/status/?").await;
    let run = ends(Exit::Finding, account.cdb("doctor")).await;
    run.prints("PROBLEM  policy       `/status/?` is not indexed");
    ends(Exit::Finding, account.cdb("policy check")).await;
}

/// Replaces the policy of the container by one without the index of a path.
async fn remove_indexes(account: &Account, mut policy: IndexingPolicy, path: &str) {
    policy
        .included_paths
        .retain(|included| included.path != path);
    let change = ContainerChange::default().with_indexing_policy(policy);
    ok!(account.database().change_container("duroxide", &change));
}

#[tokio::test]
async fn a_container_of_another_kind_is_named_as_such() {
    let account = Account::empty().await;
    let shop = account.container::<Shop>().await;
    ok!(shop.run(Payment::example().create()));
    for command in ["instances list", "queues", "members", "messages list"] {
        let run = ends(Exit::Usage, account.cdb(command)).await;
        run.complains("container `duroxide` holds no orchestrations: its partition key is /customer, theirs is /instanceId");
        run.complains("documents of the types payment");
        run.complains("--container");
    }
}

#[tokio::test]
async fn a_wrong_partition_key_is_a_problem_with_a_remedy() {
    let account = Account::empty().await;
    account.container::<Shop>().await;
    let run = ends(Exit::Finding, account.cdb("doctor")).await;
    run.prints("PROBLEM  container");
    run.prints("/instanceId");
    run.prints("create a new container");
    assert!(run.err.is_empty(), "{run:?}");
}
