//! A program with several containers, and options before the subcommand.

use cdb_cli::{Cli, Exit};
use cdb_model::{Container, Document, Query};
use cdb_provider::documents::Durable;
use duroxide::OrchestrationRegistry;
use serde::{Deserialize, Serialize};

use crate::harness::{Account, ends, run};
use crate::shop::{Order, Shop};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "entry", id = "entry:{number}", unique(number))]
struct Entry {
    #[document(partition_key)]
    account: String,
    #[document(index)]
    number: u64,
}

#[derive(Container)]
#[container(partition_key = "/account")]
enum Ledger {
    Entry(Entry),
}

/// The command of a program with three containers.
fn invoicing() -> Cli<Durable> {
    let cli = Cli::<Ledger>::new("ledger").container::<Shop>("shop");
    cli.container::<Durable>("runs").database("invoicing")
}

#[tokio::test]
async fn a_program_chooses_one_of_its_containers() {
    let ledger = run(&invoicing(), "model --container ledger", &[]).await;
    ledger.prints("Ledger: partition key /account");
    ledger.prints("unique: /number");
    let shop = run(&invoicing(), "policy print --container shop", &[]).await;
    shop.prints("/totalCents/?");
    let unknown = run(&invoicing(), "model --container other", &[]).await;
    assert_eq!(unknown.exit, Exit::Usage);
    unknown.complains("[possible values: ledger, shop, runs]");
    for command in ["model", "policy check", "policy print", "doctor", "export"] {
        let run = ends(Exit::Usage, run(&invoicing(), command, &[])).await;
        run.complains("choose one with --container (or COSMOS_CONTAINER): ledger, shop, runs");
    }
}

#[tokio::test]
async fn commands_about_orchestrations_take_the_container_that_holds_them() {
    let account = Account::empty().await;
    let endpoint = account.emulator.endpoint();
    let hidden = ["--endpoint", &endpoint];
    let apply = "policy apply --create --container runs";
    ends(Exit::Ok, run(&invoicing(), apply, &hidden)).await;
    ends(Exit::Ok, run(&invoicing(), "instances list", &hidden)).await;
    let refused = run(&invoicing(), "instances list --container ledger", &hidden).await;
    assert_eq!(refused.exit, Exit::Usage);
    refused.complains("`Ledger` cannot hold orchestrations: its partition key is /account");
    refused.complains("--container");
    assert!(!refused.err.contains("add a variant"), "{refused:?}");
}

#[tokio::test]
async fn options_of_the_connection_may_stand_before_the_subcommand() {
    let account = Account::start().await;
    let endpoint = account.emulator.endpoint();
    for before in [
        vec!["--endpoint", &endpoint, "--container=duroxide"],
        vec!["--accept-invalid-certificate", "--endpoint", &endpoint],
    ] {
        let arguments = [before, vec!["instances", "list"]].concat();
        let listed = run(&Cli::<Durable>::new("duroxide"), &arguments, &[]).await;
        assert_eq!(listed.exit, Exit::Ok, "{listed:?}");
    }
    let endpoint = ["--json", "--endpoint", &endpoint];
    let check = [&endpoint[..], &["policy", "check"]].concat();
    ends(Exit::Ok, run(&Cli::<Durable>::new("duroxide"), &check, &[])).await;
    let between = ["policy", endpoint[1], endpoint[2], "check"];
    let checked = run(&Cli::<Durable>::new("duroxide"), &between, &[]).await;
    assert_eq!(checked.exit, Exit::Ok, "{checked:?}");
    let unknown = run(&invoicing(), "--nothing instances list", &[]).await;
    assert_eq!(unknown.exit, Exit::Usage);
    unknown.complains("'--nothing'");
    ends(Exit::Usage, run(&invoicing(), "--container ledger", &[])).await;
}

#[tokio::test]
async fn the_order_of_calls_does_not_decide_whose_settings_they_are() {
    let account = Account::start().await;
    let code = || OrchestrationRegistry::builder().build();
    let durable = || Cli::<Durable>::new("duroxide");
    let after = Cli::<Shop>::new("shop")
        .orchestrations(code())
        .container::<Durable>("duroxide");
    let commands = [
        &durable().orchestrations(code()).container::<Shop>("shop"),
        &durable().container::<Shop>("shop").orchestrations(code()),
    ];
    for cli in commands {
        ends(Exit::Ok, account.run(cli, "instances replay")).await;
    }
    ends(Exit::Ok, account.run(&after, "instances replay")).await;
    let query = || Query::<Order>::across_partitions().filter(Order::STATUS.eq("open"));
    let shops = || Cli::<Shop>::new("east");
    for cli in [
        shops()
            .query("open orders", query())
            .container::<Shop>("west"),
        shops()
            .container::<Shop>("west")
            .query("open orders", query()),
    ] {
        for model in ["model --container east", "model --container west"] {
            run(&cli, model, &[]).await.prints("open orders");
        }
    }
}

#[tokio::test]
async fn two_containers_need_two_names() {
    let cli = Cli::<Ledger>::new("shop").container::<Shop>("shop");
    let refused = run(&cli, "model", &[]).await;
    assert_eq!(refused.exit, Exit::Usage);
    refused.complains("two containers with the name `shop`");
}
