//! A process that handles changes.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use cdb_client::feed::FeedRow;
use cdb_client::{CosmosClient, MasterKey};
use cdb_coordination::ChangeProcessor;
use cdb_coordination::change_feed::ChangeHandlerError;
use cdb_emulator::Emulator;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

use super::handled::now;

pub(crate) const DATABASE: &str = "change-feed";
pub(crate) const METERS: &str = "meters";
pub(crate) const STATE: &str = "state";
pub(crate) const PROCESSOR: &str = "bills";
const VARIABLE: &str = "CHANGE_FEED_TASK";

/// The reading of a meter.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "reading", id = "{site}:{number}")]
pub(crate) struct Reading {
    #[document(partition_key)]
    pub(crate) site: String,
    pub(crate) number: u64,
}

#[derive(Container)]
pub(crate) enum Meter {
    Reading(Reading),
}

/// The task of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) endpoint: String,
    pub(crate) key: String,
    directory: PathBuf,
    number: u32,
}

impl Task {
    pub(crate) fn new(emulator: &Emulator, directory: &Path) -> Self {
        Self {
            endpoint: emulator.endpoint(),
            key: emulator.key().to_owned(),
            directory: directory.to_owned(),
            number: 0,
        }
    }

    /// Reads the task from the environment; `None` in the parent process.
    pub(crate) fn from_env() -> Result<Option<Self>, serde_json::Error> {
        match std::env::var(VARIABLE) {
            Ok(json) => serde_json::from_str(&json).map(Some),
            Err(_) => Ok(None),
        }
    }

    pub(crate) fn start(&self, mut program: Command, number: u32) -> Command {
        let task = Self {
            number,
            ..self.clone()
        };
        program.env(VARIABLE, serde_json::json!(task).to_string());
        program
    }
}

/// Handles changes until the process is killed: notes each in the file of the process.
pub(crate) async fn work(task: &Task) -> Result<(), Box<dyn Error>> {
    let client = CosmosClient::builder(&task.endpoint);
    let client = client.credential(MasterKey::new(&task.key)?).build()?;
    let database = client.database(DATABASE);
    let file = task.directory.join(task.number.to_string());
    let file = OpenOptions::new().create(true).append(true).open(file)?;
    let file = Arc::new(Mutex::new(file));
    let meters = database.container::<Meter>(METERS);
    let state = database.container(STATE);
    let _processor =
        ChangeProcessor::builder(PROCESSOR, &meters, &state).start(move |changes| {
            let noted = note(&file, changes);
            async move { noted }
        })?;
    std::future::pending().await
}

fn note(file: &Mutex<File>, changes: Vec<FeedRow<Meter>>) -> Result<(), ChangeHandlerError> {
    let mut lines = String::new();
    for change in changes {
        let Meter::Reading(Reading { site, number }) = change.row?.document;
        writeln!(lines, "{site} {number} {}", now())?;
    }
    let mut file = file.lock().map_err(|_| "a handler panicked")?;
    Ok(file.write_all(lines.as_bytes())?)
}
