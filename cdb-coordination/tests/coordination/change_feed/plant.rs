//! A container of sensors, processors of its changes, and the changes that they have handled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_client::feed::FeedRow;
use cdb_client::transport::{
    Delivery, HttpRequest, HttpResponse, SimulatedTime, Transport, TransportError, async_trait,
};
use cdb_client::{Bootstrap, ContainerClient};
use cdb_coordination::ChangeProcessor;
use cdb_coordination::change_feed::{
    ChangeFeedState, ChangeHandlerError, ChangeProcessorConfig, PartDocument,
};
use cdb_model::operation::BulkBatch;
use cdb_model::{Container, Document, Query};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::backend::Backend;

pub(crate) const PROCESSOR: &str = "alarms";
/// The longest wait for anything, in simulated time.
const LIMIT: Duration = Duration::from_secs(120);

/// The newest value of a sensor.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "reading", id = "{site}:{sensor}")]
pub(crate) struct Reading {
    #[document(partition_key)]
    pub(crate) site: String,
    pub(crate) sensor: u64,
    pub(crate) value: u64,
}

#[derive(Container, Clone, Debug)]
pub(crate) enum Plant {
    Reading(Reading),
}

/// A reading that another program has written.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "reading", id = "{site}:{sensor}")]
pub(crate) struct Spoiled {
    #[document(partition_key)]
    site: String,
    sensor: u64,
    value: String,
}

#[derive(Container)]
enum SpoiledPlant {
    Reading(Spoiled),
}

/// A document of another program, whose type this one does not know.
#[derive(Document, Serialize, Deserialize)]
#[document(type = "order", id = "{site}:order:{number}")]
struct Order {
    #[document(partition_key)]
    site: String,
    number: u64,
}

#[derive(Container)]
enum Orders {
    Order(Order),
}

/// A handled change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handled {
    pub(crate) member: String,
    pub(crate) site: String,
    pub(crate) value: u64,
    pub(crate) lsn: u64,
}

/// The handled changes, in the order of the handlers.
pub(crate) type Record = Arc<Mutex<Vec<Handled>>>;

/// A process that can be killed: no request reaches the service after that.
pub(crate) type IsDead = Arc<AtomicBool>;

/// What happens to requests of a kind, in all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Works,
    /// They fail, and have no effect.
    Fails,
    /// They have their effect, and their answers are lost.
    LosesAnswers,
    /// Their answers need this time.
    Slow(Duration),
}

/// The network, for the requests that tests disturb.
#[derive(Clone, Debug)]
pub(crate) struct Disturbed {
    /// Writes of parts, with their positions and leases.
    pub(crate) part_writes: Arc<Mutex<Network>>,
    /// Reads of the change feed.
    pub(crate) feed_reads: Arc<Mutex<Network>>,
    /// Tells that a slow request has taken place.
    pub(crate) is_slow: Arc<Notify>,
}

impl Disturbed {
    fn new() -> Self {
        let works = || Arc::new(Mutex::new(Network::Works));
        Self {
            part_writes: works(),
            feed_reads: works(),
            is_slow: Arc::default(),
        }
    }

    fn of(&self, request: &HttpRequest) -> Network {
        let is_part = request.url.contains("/colls/state/docs/") && request.url.contains("part");
        let network = if is_part && request.method.as_str() == "PATCH" {
            &self.part_writes
        } else if request.headers.contains_key("a-im") {
            &self.feed_reads
        } else {
            return Network::Works;
        };
        *network.lock().unwrap()
    }
}

pub(crate) struct Site {
    pub(crate) backend: Backend,
    pub(crate) plant: ContainerClient<Plant>,
    pub(crate) state: ContainerClient<ChangeFeedState>,
    pub(crate) record: Record,
    pub(crate) network: Disturbed,
}

impl Site {
    /// Opens containers with `physical` partitions; `None` on an account, which no test can split
    /// or cut off.
    pub(crate) async fn open(physical: u32) -> Option<Self> {
        let backend = Backend::start(physical, Some(SimulatedTime::new())).await;
        if backend.emulator.is_none() {
            println!("skipped: needs the emulator");
            return None;
        }
        let database = backend.database();
        let plant = database.bootstrap("plant", Bootstrap::CreateIfMissing);
        let plant = plant.await.unwrap();
        let state = database.bootstrap("state", Bootstrap::CreateIfMissing);
        Some(Self {
            plant,
            state: state.await.unwrap(),
            backend,
            record: Record::default(),
            network: Disturbed::new(),
        })
    }

    /// The containers through a process of its own.
    pub(crate) fn process(
        &self,
        is_dead: &IsDead,
    ) -> (ContainerClient<Plant>, ContainerClient<ChangeFeedState>) {
        let network = self.backend.time.clone().unwrap();
        let transport = Process {
            network,
            is_dead: is_dead.clone(),
            disturbed: self.network.clone(),
        };
        let client = self.backend.builder().transport(transport).build().unwrap();
        let database = client.database(&self.backend.database);
        (database.container("plant"), database.container("state"))
    }

    /// Starts a member that records what it handles.
    pub(crate) fn join(&self, member: &str, is_dead: &IsDead) -> ChangeProcessor {
        self.join_with(config(member), is_dead)
    }

    /// Starts a member with this handler, in a process of its own.
    pub(crate) fn run<F, Fut>(&self, config: ChangeProcessorConfig, handler: F) -> ChangeProcessor
    where
        F: Fn(Vec<FeedRow<Plant>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ChangeHandlerError>> + Send + 'static,
    {
        let (plant, state) = self.process(&IsDead::default());
        let processor = ChangeProcessor::builder(PROCESSOR, &plant, &state).config(config);
        processor.start(handler).expect("the durations fit")
    }

    pub(crate) fn join_with(
        &self,
        config: ChangeProcessorConfig,
        is_dead: &IsDead,
    ) -> ChangeProcessor {
        let (plant, state) = self.process(is_dead);
        let (record, member) = (self.record.clone(), config.member.clone());
        ChangeProcessor::builder(PROCESSOR, &plant, &state)
            .config(config)
            .start(move |changes| {
                let recorded = note(&record, &member, changes);
                async move { recorded }
            })
            .expect("the durations fit")
    }

    /// Writes `value` to a sensor of each of these sites.
    pub(crate) async fn write(&self, sites: std::ops::Range<u64>, value: u64) {
        let mut bulk = BulkBatch::<Plant>::new();
        for site in sites {
            bulk.add(reading(site, value).upsert()).unwrap();
        }
        for result in self.plant.execute_bulk(&bulk).await {
            result.unwrap();
        }
    }

    /// Writes a document that is not a reading.
    pub(crate) async fn spoil(&self, site: u64) {
        let spoiled = Spoiled {
            site: format!("site-{site}"),
            sensor: 1,
            value: "hot".to_owned(),
        };
        let plant = self.backend.database().container::<SpoiledPlant>("plant");
        plant.run(spoiled.create()).await.unwrap();
    }

    /// Writes documents of another program.
    pub(crate) async fn write_orders(&self, numbers: std::ops::Range<u64>) {
        let mut bulk = BulkBatch::<Orders>::new();
        for number in numbers {
            let site = "site-0".to_owned();
            bulk.add(Order { site, number }.create()).unwrap();
        }
        let plant = self.backend.database().container::<Orders>("plant");
        for result in plant.execute_bulk(&bulk).await {
            result.unwrap();
        }
    }

    /// Waits until these sites were handled with this value.
    pub(crate) async fn handled(&self, sites: std::ops::Range<u64>, value: u64) {
        let mut missing: Vec<String> = Vec::new();
        for _ in 0..LIMIT.as_millis() / 100 {
            let record = self.record.lock().unwrap().clone();
            let is_handled = |site: &String| {
                let mut of_site = record.iter().filter(|one| one.site == *site);
                of_site.any(|one| one.value == value)
            };
            missing = sites.clone().map(|site| format!("site-{site}")).collect();
            missing.retain(|site| !is_handled(site));
            if missing.is_empty() {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("not handled: {missing:?}");
    }

    /// The parts of all generations, also the divided ones.
    pub(crate) async fn all_parts(&self) -> Vec<PartDocument> {
        let parts = Query::<PartDocument>::in_partition(PROCESSOR);
        let parts = self.state.latest_committed().query(parts).all().await;
        let parts = parts.unwrap().into_iter().map(|stored| stored.document);
        parts.collect()
    }

    /// The parts of the newest generation, from the first border to the last.
    pub(crate) async fn parts(&self) -> Vec<PartDocument> {
        let mut parts = self.all_parts().await;
        let newest = parts.iter().map(|part| part.generation).max();
        parts.retain(|part| !part.divided && Some(part.generation) == newest);
        parts.sort_by(|a, b| a.borders.cmp(&b.borders));
        parts
    }

    /// Waits until each of `parts` parts has a reader.
    pub(crate) async fn until_read(&self, parts: usize) {
        for _ in 0..LIMIT.as_millis() / 100 {
            let found = self.parts().await;
            let now = self.state.now();
            if found.len() == parts && found.iter().all(|part| part.lease.is_held(now)) {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("not read: {:#?}", self.parts().await);
    }

    pub(crate) fn recorded(&self) -> Vec<Handled> {
        self.record.lock().unwrap().clone()
    }
}

pub(crate) fn reading(site: u64, value: u64) -> Reading {
    Reading {
        site: format!("site-{site}"),
        sensor: 1,
        value,
    }
}

pub(crate) fn config(member: &str) -> ChangeProcessorConfig {
    ChangeProcessorConfig {
        member: member.to_owned(),
        ..ChangeProcessorConfig::default()
    }
}

/// Records changes. Fails at an unreadable one.
pub(crate) fn note(
    record: &Record,
    member: &str,
    changes: Vec<FeedRow<Plant>>,
) -> Result<(), ChangeHandlerError> {
    for change in changes {
        let Plant::Reading(reading) = change.row?.document;
        record.lock().unwrap().push(Handled {
            member: member.to_owned(),
            site: reading.site,
            value: reading.value,
            lsn: change.lsn,
        });
    }
    Ok(())
}

#[derive(Clone, Debug)]
struct Process {
    network: SimulatedTime,
    is_dead: IsDead,
    disturbed: Disturbed,
}

#[async_trait]
impl Transport for Process {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        if self.is_dead.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        match self.disturbed.of(&request) {
            Network::Works => self.network.send(request).await,
            Network::Slow(delay) => {
                let answer = self.network.send(request).await;
                self.disturbed.is_slow.notify_one();
                sleep(delay).await;
                answer
            }
            Network::LosesAnswers => {
                drop(self.network.send(request).await?);
                Err(TransportError {
                    delivery: Delivery::Unknown,
                    message: "the answer is lost".to_owned(),
                    source: None,
                })
            }
            Network::Fails => Err(TransportError {
                delivery: Delivery::NotSent,
                message: "the cable is cut".to_owned(),
                source: None,
            }),
        }
    }
}
