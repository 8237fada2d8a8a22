//! The form of a container's documents: newer ones are refused, and no command writes a schema.

use cdb_cli::Exit;
use cdb_model::Query;
use cdb_provider::documents::{Durable, SCHEMA_VERSION, Schema};

use crate::harness::Account;

#[tokio::test]
async fn a_container_of_a_newer_form_is_refused_with_the_version_to_use() {
    let account = Account::start().await;
    let container = account.container::<Durable>().await;
    let newer = Schema {
        version: SCHEMA_VERSION + 1,
        written_by: "cdb-provider 9.0.0".to_owned(),
        ..Schema::current(container.now())
    };
    container.create(&newer).await.expect("a schema");
    for command in [
        &["instances", "list"][..],
        &["queues"],
        &["deadletters", "list"],
    ] {
        let run = account.cdb(command).await;
        assert_eq!(run.exit, Exit::Usage, "{run:?}");
        assert!(run.err.contains("written by cdb-provider 9.0.0"), "{run:?}");
    }
    let run = account.cdb(&["doctor"]).await;
    assert_eq!(run.exit, Exit::Finding, "{run:?}");
    let remedy = "use a newer version of cdb";
    assert!(run.out.contains(remedy), "{run:?}");
}

#[tokio::test]
async fn looking_at_a_container_leaves_it_as_it_is() {
    let account = Account::start().await;
    for command in [&["instances", "list"][..], &["doctor"], &["queues"]] {
        account.cdb(command).await;
    }
    let container = account.container::<Durable>().await;
    let all = Query::<Durable>::across_partitions();
    let stored = container.query(all).all().await.expect("it can be read");
    assert!(stored.is_empty(), "{stored:?}");
}
