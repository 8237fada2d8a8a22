//! Migrations of documents to the version of their type.

use std::time::Duration;

use cdb_client::feed::{FeedCursor, FeedStart};
use cdb_client::{ContainerClient, ErrorKind};
use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::operation::BulkBatch;
use cdb_model::shape::UpcastError;
use cdb_model::stored::UnknownFields;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::account::Account;

/// A type without versions.
mod old {
    use super::*;

    #[derive(Document, Serialize, Deserialize)]
    #[document(type = "meter", id = "{site}:{number}")]
    pub(super) struct Meter {
        #[document(partition_key)]
        pub(super) site: String,
        pub(super) number: u64,
        pub(super) watts: f64,
    }

    #[derive(Container)]
    pub(super) enum Grid {
        Meter(Meter),
    }
}

#[derive(Document, Serialize, Deserialize, Debug)]
#[document(
    type = "meter",
    id = "{site}:{number}",
    version = 2,
    upcast(watts_to_milliwatts)
)]
struct Meter {
    #[document(partition_key)]
    site: String,
    number: u64,
    milliwatts: f64,
    #[serde(flatten)]
    #[document(unknown)]
    newer: UnknownFields,
}

#[derive(Container, Debug)]
enum Grid {
    Meter(Meter),
}

fn watts_to_milliwatts(fields: &mut Map<String, Value>) -> Result<(), UpcastError> {
    let watts = fields.remove("watts").ok_or("it has no watts")?;
    let watts = watts.as_f64().ok_or("its watts are no number")?;
    fields.insert("milliwatts".to_owned(), (watts * 1000.0).into());
    Ok(())
}

fn site(number: u64) -> String {
    format!("site-{}", number % 37)
}

fn watts(number: u64) -> f64 {
    f64::from(u32::try_from(number).unwrap())
}

async fn write_old(old: &ContainerClient<old::Grid>, numbers: std::ops::Range<u64>) {
    let mut bulk = BulkBatch::<old::Grid>::new();
    for number in numbers {
        let (site, watts) = (site(number), watts(number));
        bulk.add(
            old::Meter {
                site,
                number,
                watts,
            }
            .upsert(),
        )
        .unwrap();
    }
    for result in old.execute_bulk(&bulk).await {
        result.unwrap();
    }
}

/// Returns the stored documents, as JSON.
async fn stored(grid: &ContainerClient<Grid>) -> Vec<Value> {
    let mut feed = grid.change_feed(FeedStart::Beginning);
    let mut all = Vec::new();
    loop {
        let page = feed.next_documents().await.unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(
            page.iter()
                .map(|json| serde_json::from_str::<Value>(json.get()).unwrap()),
        );
    }
}

#[tokio::test]
async fn an_interrupted_migration_continues_and_loses_nothing() {
    let account = Account::new().await;
    let old = account.open::<old::Grid>("grid").await;
    let grid = account.database.container::<Grid>("grid");
    write_old(&old, 0..3_000).await;
    let new = |number| Meter {
        site: site(number),
        number,
        milliwatts: watts(number) * 1000.0,
        newer: UnknownFields::default(),
    };
    for number in 3_000..3_010 {
        grid.run(new(number).create()).await.unwrap();
    }

    let mut first = grid.migrate(None);
    let step = first.next_step().await.unwrap().unwrap();
    assert!(
        (1..3_000).contains(&step.migrated) && step.charge > 0.0,
        "{step:?}"
    );
    let position = serde_json::to_string(first.position()).unwrap();
    // An old program goes on writing.
    write_old(&old, 3_010..3_050).await;
    write_old(&old, 0..10).await;
    let position: FeedCursor = serde_json::from_str(&position).unwrap();
    let mut second = grid.migrate(Some(position));
    let mut migrated = step.migrated;
    while let Some(step) = second.next_step().await.unwrap() {
        assert_eq!(step.changed, 0);
        migrated += step.migrated;
    }
    assert!((3_040..=3_050).contains(&migrated), "{migrated}");

    let stored = stored(&grid).await;
    assert_eq!(stored.len(), 3_050);
    for document in stored {
        let number = document["number"].as_u64().unwrap();
        assert_eq!(document["schemaVersion"], 2, "{document}");
        assert_eq!(
            document["milliwatts"].as_f64(),
            Some(watts(number) * 1000.0),
            "{document}"
        );
        assert!(document.get("watts").is_none(), "{document}");
        grid.read(&MeterKey::new(site(number), number))
            .await
            .unwrap()
            .unwrap();
    }
    let mut again = grid.migrate(None);
    while let Some(step) = again.next_step().await.unwrap() {
        assert_eq!(step.migrated, 0, "nothing is left");
    }
}

#[tokio::test]
async fn a_cancelled_step_skips_no_documents() {
    let account = Account::new().await;
    let old = account.open::<old::Grid>("grid").await;
    write_old(&old, 0..20).await;
    let grid = account.database.container::<Grid>("grid");
    let mut migration = grid.migrate(None);
    let start = migration.position().clone();
    if let Some(emulator) = account.emulator() {
        let slow = Effect::Delay(Duration::from_secs(1).into());
        emulator.inject(Fault::always(slow).on(OperationKind::Replace));
        let cancelled = tokio::time::timeout(Duration::from_millis(500), migration.next_step());
        cancelled.await.unwrap_err();
        assert_eq!(migration.position(), &start);
        emulator.clear_faults();
    }
    while migration.next_step().await.unwrap().is_some() {}
    let stored = stored(&grid).await;
    assert_eq!(stored.len(), 20);
    assert!(stored.iter().all(|document| document["schemaVersion"] == 2));
}

#[tokio::test]
async fn a_document_that_cannot_be_upgraded_stops_the_migration_with_its_id() {
    let account = Account::new().await;
    let grid = account.open::<Grid>("grid").await;
    let broken = r#"{"id":"a:1","type":"meter","site":"a","number":1}"#;
    grid.upsert_json(&"a".into(), broken).await.unwrap();
    let mut migration = grid.migrate(None);
    for _ in 0..2 {
        let error = migration.next_step().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode);
        let text = format!("{error:?}");
        assert!(
            text.contains("a:1") && text.contains("it has no watts"),
            "{text}"
        );
    }
}
