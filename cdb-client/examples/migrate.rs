//! Migrates documents of two versions while an old program goes on writing, and counts losses.
//! Prints the table of docs/evolution.md.
//!
//! `cargo run -p cdb-client --example migrate -- [documents]`, by default 1,000,000.

use std::error::Error;
use std::time::Instant;

use cdb_client::feed::FeedStart;
use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_emulator::Emulator;
use cdb_model::operation::BulkBatch;
use cdb_model::shape::UpcastError;
use cdb_model::stored::UnknownFields;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The partitions, and the documents of a bulk.
const SITES: u64 = 1000;

/// The document of an old program.
mod old {
    use super::{Container, Deserialize, Document, Serialize};

    #[derive(Document, Serialize, Deserialize)]
    #[document(type = "meter", id = "{site}:{number}")]
    pub(super) struct Meter {
        #[document(partition_key)]
        pub(super) site: String,
        pub(super) number: u64,
        pub(super) watts: u64,
    }

    #[derive(Container)]
    pub(super) enum Grid {
        Meter(Meter),
    }
}

#[derive(Document, Serialize, Deserialize)]
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
    milliwatts: u64,
    #[serde(flatten)]
    #[document(unknown)]
    newer: UnknownFields,
}

#[derive(Container)]
enum Grid {
    Meter(Meter),
}

fn watts_to_milliwatts(fields: &mut Map<String, Value>) -> Result<(), UpcastError> {
    let watts = fields.remove("watts").ok_or("it has no watts")?;
    let watts = watts.as_u64().ok_or("its watts are no number")?;
    fields.insert("milliwatts".to_owned(), (watts * 1000).into());
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome {
    let documents = std::env::args().nth(1).map(|count| count.parse::<u64>());
    let rounds = documents.unwrap_or(Ok(1_000_000))?.div_ceil(SITES);
    let emulator = Emulator::builder().physical_partitions(4).start().await?;
    let client = CosmosClient::builder(emulator.endpoint());
    let client = client.credential(MasterKey::new(emulator.key())?).build()?;
    let database = client.database("grid");
    let old = database.bootstrap::<old::Grid>("grid", Bootstrap::CreateIfMissing);
    let old = old.await?;
    let grid = database.container::<Grid>("grid");
    for number in 0..rounds {
        if number % 2 == 0 {
            write_old(&old, number).await?;
        } else {
            write_new(&grid, number).await?;
        }
    }

    let begun = Instant::now();
    let (mut migrated, mut charge, mut steps) = (0, 0.0, 0);
    let mut migration = grid.migrate(None);
    while let Some(step) = migration.next_step().await? {
        (migrated, charge, steps) = (migrated + step.migrated, charge + step.charge, steps + 1);
        if steps == 10 {
            // The old program writes documents that the migration has passed.
            write_old(&old, 0).await?;
        }
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let (found, right) = judge(&grid).await?;
    println!("| documents | migrated | seconds | RU | found | right |\n|---|---|---|---|---|---|");
    println!(
        "| {} | {migrated} | {elapsed:.0} | {charge:.0} | {found} | {right} |",
        rounds * SITES
    );
    Ok(())
}

async fn write_old(old: &ContainerClient<old::Grid>, number: u64) -> Outcome {
    let mut bulk = BulkBatch::<old::Grid>::new();
    for site in 0..SITES {
        bulk.add(
            old::Meter {
                site: site.to_string(),
                number,
                watts: number,
            }
            .upsert(),
        )?;
    }
    for result in old.execute_bulk(&bulk).await {
        result?;
    }
    Ok(())
}

async fn write_new(grid: &ContainerClient<Grid>, number: u64) -> Outcome {
    let mut bulk = BulkBatch::<Grid>::new();
    for site in 0..SITES {
        let (site, newer) = (site.to_string(), UnknownFields::default());
        bulk.add(
            Meter {
                site,
                number,
                milliwatts: number * 1000,
                newer,
            }
            .create(),
        )?;
    }
    for result in grid.execute_bulk(&bulk).await {
        result?;
    }
    Ok(())
}

/// Returns how many documents there are, and how many are right and in version 2.
async fn judge(grid: &ContainerClient<Grid>) -> Outcome<(u64, u64)> {
    let mut feed = grid.change_feed(FeedStart::Beginning);
    let (mut found, mut right) = (0, 0);
    loop {
        let page = feed.next_documents().await?;
        if page.is_empty() {
            return Ok((found, right));
        }
        for json in page {
            let document: Value = serde_json::from_str(json.get())?;
            let expected = document["number"].as_u64().map(|number| number * 1000);
            let is_right = document["schemaVersion"] == 2
                && document["milliwatts"].as_u64() == expected
                && document.get("watts").is_none();
            (found, right) = (found + 1, right + u64::from(is_right));
        }
    }
}
