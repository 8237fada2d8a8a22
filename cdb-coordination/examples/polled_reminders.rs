//! A plain store: two programs poll reminders by criteria, without leases. The update under the
//! version that was read decides which program handles a reminder.
//!
//! Right for short work without side effects before the update. For work that must not run twice
//! at the same time, see `contract_negotiation`.
//!
//!     cargo run -p cdb-coordination --example polled_reminders

use std::error::Error;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_coordination::Repository;
use cdb_coordination::repository::Criteria;
use cdb_emulator::Emulator;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

const REMINDERS: u32 = 20;

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "reminder", id = "{user}:reminder:{number}")]
struct Reminder {
    #[document(partition_key)]
    user: String,
    number: u32,
    #[document(index)]
    state: String,
    shown_by: Option<String>,
}

#[derive(Container, Clone, Debug)]
enum Calendar {
    Reminder(Reminder),
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // An embedded emulator instead of an account.
    let emulator = Emulator::start().await?;
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key())?)
        .build()?;
    let database = client.database("calendar");
    let container = database.bootstrap("reminders", Bootstrap::CreateIfMissing);
    let container: ContainerClient<Calendar> = container.await?;
    let reminders = Repository::<Calendar, Reminder>::new(&container);
    for number in 0..REMINDERS {
        let reminder = Reminder {
            user: format!("user-{}", number % 5),
            number,
            state: "due".to_owned(),
            shown_by: None,
        };
        reminders.run(reminder.create()).await?;
    }

    let (left, right) = tokio::try_join!(poll(&reminders, "left"), poll(&reminders, "right"))?;
    println!("left: {left:?}\nright: {right:?}");
    assert_eq!(left.shown + right.shown, REMINDERS, "each is shown once");
    Ok(())
}

#[derive(Default, Debug)]
struct Polled {
    shown: u32,
    /// The other program was faster.
    refused: u32,
}

/// Shows due reminders until none is left.
async fn poll(
    reminders: &Repository<Calendar, Reminder>,
    program: &str,
) -> Result<Polled, Box<dyn Error>> {
    // The same criteria as JSON: {"filter": [{"field": "state", "value": "due"}], "limit": 5}
    let due = Criteria::all().with("state", "due").limit(5);
    let mut polled = Polled::default();
    loop {
        let page = reminders.query(&due).await?;
        if page.rows.is_empty() {
            return Ok(polled);
        }
        for mut reminder in page.rows {
            "shown".clone_into(&mut reminder.document.state);
            reminder.document.shown_by = Some(program.to_owned());
            match reminders.run(reminder.replace()).await {
                Ok(_) => polled.shown += 1,
                Err(error) if error.is_conflict() => polled.refused += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
