//! The site of a run: the processes of store and runtimes, and the driver's clients.

use std::path::PathBuf;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_emulator::{Settings, WELL_KNOWN_KEY};
use cdb_provider::record::Recorder;
use duroxide::Client;

use crate::effects::Documents;
use crate::ledger::Ledger;
use crate::process::{Store, Worker};
use crate::runtime::{CONTAINER, DATABASE, RuntimeArgs, keep_trying, recorded};
use crate::subject::{Role, Subject};

/// The number of runtimes.
const RUNTIMES: usize = 3;

/// The provider and the program of a run's processes.
#[derive(Clone, Debug)]
pub struct Actors {
    /// The provider under test.
    pub subject: Subject,
    /// The program that is started for each role: the driver's own.
    pub program: PathBuf,
    /// Whether the runtimes share the work by membership.
    pub members: bool,
    /// The folder for the records of all processes.
    pub record: Option<PathBuf>,
}

impl Actors {
    /// This workspace's provider, run by the program at a path.
    pub fn ours(program: impl Into<PathBuf>) -> Self {
        Self {
            subject: Subject::OURS,
            program: program.into(),
            members: false,
            record: None,
        }
    }
}

/// The driver's access to a store and its runtimes.
pub(crate) struct Site {
    /// The subject's own client.
    pub(crate) client: Client,
    /// The record of the driver's calls.
    pub(crate) recorder: Option<Recorder>,
    /// The bookings.
    pub(crate) ledger: Ledger,
    /// The documents, for the judgement.
    pub(crate) documents: ContainerClient<Documents>,
}

impl Site {
    /// Starts everything.
    pub(crate) async fn open(
        actors: &Actors,
        settings: &Settings,
        throughput: Option<u32>,
    ) -> Result<(Self, Store, Vec<Worker>), String> {
        let store = Store::start(&actors.program, settings, throughput).await?;
        let args = RuntimeArgs {
            endpoint: store.endpoint(),
            key: WELL_KNOWN_KEY.to_owned(),
            members: actors.members,
            record: actors.record.clone(),
        };
        let open = actors.subject.open;
        let opened = keep_trying(|| open(args.clone(), Role::LooksOn)).await?;
        let ledger = keep_trying(|| Ledger::open(&args.endpoint, &args.key)).await?;
        let recorder = args.recorder("driver")?;
        let mut workers = Vec::new();
        for _ in 0..RUNTIMES {
            workers.push(Worker::start(&actors.program, &args).await?);
        }
        let site = Self {
            client: Client::new(recorded(opened.provider, recorder.as_ref())),
            recorder,
            ledger,
            documents: documents(&args).await.map_err(|error| error.to_string())?,
        };
        Ok((site, store, workers))
    }
}

/// The container, opened without changing it.
async fn documents(args: &RuntimeArgs) -> Result<ContainerClient<Documents>, cdb_client::Error> {
    let client = CosmosClient::builder(&args.endpoint)
        .credential(MasterKey::new(&args.key)?)
        .build()?;
    let database = client.database(DATABASE);
    database.bootstrap(CONTAINER, Bootstrap::Skip).await
}
