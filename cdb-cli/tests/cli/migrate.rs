//! `cdb migrate`, of a program whose document type has a second version.

use cdb_cli::{Cli, Exit};
use cdb_client::ContainerClient;
use cdb_model::shape::UpcastError;
use cdb_model::stored::UnknownFields;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::harness::{Account, ends};

#[derive(Document, Serialize, Deserialize)]
#[document(type = "lamp", id = "lamp:{number}", version = 2, upcast(add_color))]
pub(crate) struct Lamp {
    #[document(partition_key)]
    #[serde(rename = "instanceId")]
    room: String,
    number: u32,
    color: String,
    #[serde(flatten)]
    #[document(unknown)]
    newer: UnknownFields,
}

#[derive(Container)]
pub(crate) enum House {
    Lamp(Lamp),
}

/// The same documents in a third version.
mod third {
    use super::*;

    #[derive(Document, Serialize, Deserialize)]
    #[document(
        type = "lamp",
        id = "lamp:{number}",
        version = 3,
        upcast(add_color, add_watts)
    )]
    pub(super) struct Lamp {
        #[document(partition_key)]
        #[serde(rename = "instanceId")]
        room: String,
        number: u32,
        color: String,
        #[serde(flatten)]
        #[document(unknown)]
        newer: UnknownFields,
    }

    #[derive(Container)]
    pub(super) enum House {
        Lamp(Lamp),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the form of an upcast")]
fn add_color(fields: &mut Map<String, Value>) -> Result<(), UpcastError> {
    fields.insert("color".to_owned(), "white".into());
    Ok(())
}

#[tokio::test]
async fn older_documents_are_rewritten_once() {
    let account = Account::start().await;
    let house = account.container::<House>().await;
    for number in 0..20 {
        let room = format!("room-{}", number % 5);
        let lamp = format!(
            r#"{{"id":"lamp:{number}","type":"lamp","instanceId":"{room}","number":{number}}}"#
        );
        let written = house.upsert_json(&room.into(), &lamp).await;
        written.expect("an old lamp");
    }
    let directory = std::env::temp_dir().join(format!("cdb-migrate-{}", std::process::id()));
    let position = directory.to_str().expect("UTF-8");
    let cli = Cli::<House>::new("duroxide");
    let migrate = ["migrate", "--position", position, "--max-rus", "100000"];
    let migrated = ends(Exit::Ok, account.run(&cli, &migrate)).await;
    assert!(
        migrated
            .out
            .starts_with("migrated 20 documents, read 40, for "),
        "{migrated:?}"
    );
    assert!(!directory.exists(), "the position is removed at the end");
    let lamp = house.read(LampKey::new(6).in_partition("room-1")).await;
    assert_eq!(lamp.expect("it is read").expect("it exists").color, "white");
    // The feed contains the rewritten documents, and nothing is left to do.
    let again = account.run(&cli, "migrate").await;
    assert!(
        again.out.starts_with("migrated 0 documents, read 20, for "),
        "{again:?}"
    );

    std::fs::write(&directory, "nonsense").expect("a file");
    let refused = account.run(&cli, &migrate).await;
    refused.complains("is not the position of a migration");
    std::fs::remove_file(&directory).expect("it exists");
    std::fs::create_dir(&directory).expect("a folder");
    let refused = account.run(&cli, &migrate).await;
    refused.complains(&format!("cannot read {position}: "));
    std::fs::remove_dir(&directory).expect("it exists");
    let without = ends(Exit::Usage, account.cdb("migrate")).await;
    without.complains("no document type of `Durable` has versions");
}

#[expect(clippy::unnecessary_wraps, reason = "the form of an upcast")]
fn add_watts(fields: &mut Map<String, Value>) -> Result<(), UpcastError> {
    fields.insert("watts".to_owned(), 5.into());
    Ok(())
}

/// Writes a lamp of the first version. A lamp without a number cannot be upgraded.
async fn write(house: &ContainerClient<House>, id: u32, number: Option<u32>) {
    let mut lamp = json!({ "id": format!("lamp:{id}"), "type": "lamp", "instanceId": "hall" });
    if let Some(number) = number {
        lamp["number"] = number.into();
    }
    let written = house.upsert_json(&"hall".into(), &lamp.to_string()).await;
    written.expect("an old lamp");
}

#[tokio::test]
async fn the_position_of_another_migration_is_refused() {
    let account = Account::start().await;
    let house = account.container::<House>().await;
    for number in 0..500 {
        write(&house, number, Some(number)).await;
    }
    write(&house, 500, None).await;
    let file = std::env::temp_dir().join(format!("cdb-migrate-other-{}", std::process::id()));
    let position = file.to_str().expect("UTF-8");
    let migrate = ["migrate", "--position", position];
    let second = Cli::<House>::new("duroxide");
    let interrupted = account.run(&second, &migrate).await;
    interrupted.complains("lamp:500");
    assert!(file.exists(), "the first page is migrated");

    // A later build migrates the first page too.
    let third = Cli::<third::House>::new("duroxide");
    let refused = ends(Exit::Usage, account.run(&third, &migrate)).await;
    refused.complains("is the position of another migration");
    refused.complains("`lamp` 2; this one is");
    refused.complains("`lamp` 3");
    write(&house, 500, Some(500)).await;
    let continued = account.run(&second, &migrate).await;
    assert!(
        continued.out.starts_with("migrated 1 document, read"),
        "{continued:?}"
    );
    assert!(!file.exists());
}
