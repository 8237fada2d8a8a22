//! The schema version of a container: newer versions are rejected, and no command writes a schema.

use cdb_cli::Exit;
use cdb_model::{Document as _, Query};
use cdb_provider::documents::{Durable, SCHEMA_VERSION, Schema};

use crate::harness::{Account, ends};

#[tokio::test]
async fn a_container_with_a_newer_schema_is_rejected_with_its_version() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    let newer = Schema {
        version: SCHEMA_VERSION + 1,
        written_by: "cdb-provider 9.0.0".to_owned(),
        ..Schema::current(container.now())
    };
    container.run(newer.create()).await.expect("a schema");
    for command in [
        &["instances", "list"][..],
        &["queues"],
        &["messages", "list"],
    ] {
        let run = ends(Exit::Usage, account.cdb(command)).await;
        run.complains("written by cdb-provider 9.0.0");
    }
    let run = ends(Exit::Finding, account.cdb("doctor")).await;
    let remedy = "use a newer version of cdb";
    run.prints(remedy);
}

#[tokio::test]
async fn read_only_commands_write_nothing() {
    let account = Account::start().await;
    for command in [&["instances", "list"][..], &["doctor"], &["queues"]] {
        account.cdb(command).await;
    }
    let container = account.container::<Durable>().await;
    let all = Query::<Durable>::across_partitions();
    let stored = container.query(all).all().await.expect("it can be read");
    assert!(stored.is_empty(), "{stored:?}");
}
