//! A process that stores the messages of its streams and works on those of its partitions, until it
//! is killed.
//!
//! After a restart it stores all messages from the first one; duplicates are dropped. The effect of
//! a message changes the tally of its stream, under the condition that the message before it was
//! applied. So a refusal is an attempt to break the order or to apply a message twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cdb_client::{ContainerClient, CosmosClient, MasterKey};
use cdb_coordination::membership::MembershipConfig;
use cdb_coordination::{HandlerError, Membership};
use cdb_model::{Container, Document, Patch};
use cdb_work::{
    Completed, FlushStrategy as _, IntervalConfig, NewWork, Partitions, RunConfig, Work,
    WorkConfig, WorkContext, WorkCoordinator, WorkError, WorkHandlers, WorkMember,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::{Failure, Options};

/// How many messages of a stream were applied.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "tally", id = "{partition}:tally:{stream}")]
pub(crate) struct Tally {
    #[document(partition_key)]
    pub(crate) partition: String,
    pub(crate) stream: String,
    #[document(index)]
    pub(crate) last: u64,
    #[document(index)]
    pub(crate) count: u64,
}

impl Tally {
    pub(crate) fn new(partitions: Partitions, number: u64) -> Self {
        let stream = name_of(number);
        Self {
            partition: partitions.name(partitions.of_stream(&stream)),
            stream,
            last: 0,
            count: 0,
        }
    }
}

/// A broken guarantee. Stored, so that it survives the process.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "violation", id = "{partition}:violation:{unique}")]
pub(crate) struct Violation {
    #[document(partition_key)]
    partition: String,
    unique: String,
    what: String,
}

#[derive(Container, Clone, Debug)]
pub(crate) enum Measured {
    #[container(extends)]
    Work(Work),
    Tally(Tally),
    Violation(Violation),
}

/// How many messages of a stream are sent together.
const BURST: usize = 10;

/// The stream and the kind of a message that ends its process.
pub(crate) const KILLER: &str = "killer";

/// The stream and the kind of a message whose handler always fails.
pub(crate) const POISON: &str = "poison";

/// How often a message is tried.
pub(crate) const MAX_ATTEMPTS: u32 = 5;

fn name_of(stream: u64) -> String {
    format!("stream-{stream}")
}

pub(crate) async fn run(options: &Options) -> Result<(), Failure> {
    let index = options.number("index", 0)?;
    let client = CosmosClient::builder(options.text("endpoint")?)
        .credential(MasterKey::new(cdb_emulator::WELL_KNOWN_KEY)?)
        .build()?;
    let container: ContainerClient<Measured> = client.database("measure").container("work");
    let work = coordinator(&container, index).await?;
    let (to_judge, told) = mpsc::unbounded_channel();
    tokio::spawn(judge(container, told));
    tokio::spawn(store_all(work.clone(), Share::of(options, index)?));
    let config = RunConfig::default()
        .with_concurrency(500)
        .with_flush(IntervalConfig::every(Duration::from_millis(200)));
    let _run = work.run(config, handlers(to_judge));
    // Until the process is killed.
    std::future::pending().await
}

fn handlers(to_judge: mpsc::UnboundedSender<String>) -> WorkHandlers {
    let (seen, refused) = (Arc::new(Mutex::new(HashMap::new())), to_judge.clone());
    WorkHandlers::new()
        .otherwise(move |work| {
            let (seen, to_judge) = (seen.clone(), to_judge.clone());
            async move {
                match &*work.message().kind {
                    KILLER => std::process::abort(),
                    POISON => Err(HandlerError::temporarily("it never succeeds")),
                    _ => {
                        check_handed_out(&seen, &work, &to_judge);
                        applied(&work)
                    }
                }
            }
        })
        .on_failure(move |failure| {
            if let Err(error @ (WorkError::EffectRefused { .. } | WorkError::OutOfOrder { .. })) =
                &failure.settled
            {
                // The judge runs as long as the process.
                let _told = refused.send(error.to_string());
            }
        })
}

async fn coordinator(
    container: &ContainerClient<Measured>,
    index: u64,
) -> Result<WorkCoordinator, Failure> {
    let mut roster = MembershipConfig::named(format!("worker-{index}"));
    roster.heartbeat = Duration::from_millis(700);
    let membership = Membership::start::<WorkMember, Work>(container.view(), roster);
    let mut config = WorkConfig::default();
    config.name = format!("worker-{index}");
    config.lease = Duration::from_secs(5);
    config.upkeep = Duration::from_millis(500);
    config.sweep = Duration::from_secs(3);
    config.retry.max_attempts = MAX_ATTEMPTS;
    config.retry.longest_delay = Duration::from_secs(4);
    let slots = Arc::new(membership);
    loop {
        // Every request may fail, also the first ones.
        match WorkCoordinator::open(container.view(), slots.clone(), config.clone()).await {
            Err(error) if error.is_transient() => {}
            opened => return Ok(opened?),
        }
    }
}

/// The streams whose messages this process stores.
struct Share {
    streams: Vec<u64>,
    messages: u64,
}

impl Share {
    fn of(options: &Options, index: u64) -> Result<Self, Failure> {
        let (streams, workers) = (options.number("streams", 1)?, options.number("workers", 1)?);
        Ok(Self {
            streams: (0..streams)
                .filter(|stream| stream % workers == index)
                .collect(),
            messages: options.number("messages", 1)?,
        })
    }
}

/// Stores the messages of every stream in bursts. A burst starts when the one before it is stored,
/// so the sender keeps the order.
async fn store_all(work: WorkCoordinator, share: Share) {
    for kind in [KILLER, POISON] {
        let bad = NewWork::inbox(kind, "1").with_body(kind, "");
        while work.immediate().store(bad.clone()).await.is_err() {}
    }
    for first in (1..=share.messages).step_by(BURST) {
        let last = share.messages.min(first + BURST as u64 - 1);
        let mut left: Vec<(u64, u64)> = Vec::new();
        for &stream in &share.streams {
            left.push((stream, first));
        }
        while !left.is_empty() {
            left = store_round(&work, &left, last).await;
        }
    }
}

/// Stores one burst of each stream. Returns the streams that are not finished, with their next
/// numbers.
async fn store_round(work: &WorkCoordinator, from: &[(u64, u64)], last: u64) -> Vec<(u64, u64)> {
    let scope = work.scoped();
    let mut receipts = Vec::new();
    for &(stream, first) in from {
        for message in first..=last {
            let new = NewWork::inbox(name_of(stream), message.to_string());
            receipts.push((stream, message, scope.store(new).await));
        }
    }
    if let Err(error) = scope.commit().await {
        eprintln!("some messages are stored again: {error}");
    }
    let mut left: Vec<(u64, u64)> = Vec::new();
    for (stream, message, receipt) in receipts {
        let is_first_failure = left.last().is_none_or(|(failed, _)| *failed != stream);
        if receipt.settled().await.is_err() && is_first_failure {
            left.push((stream, message));
        }
    }
    left
}

fn applied(work: &WorkContext) -> Result<Completed, HandlerError> {
    let message = work.message();
    let number: u64 = message.message_id.parse()?;
    let key = TallyKey::new(&*message.partition, &*message.stream);
    let patch = Patch::<Tally>::new()
        .set(Tally::LAST, number)
        .incr(Tally::COUNT, 1)
        .when(Tally::LAST.eq(number - 1));
    let mut effects = work.effects::<Measured>();
    effects.add(patch.at(&key))?;
    Ok(work.done().with_effects(&effects)?)
}

/// The last message of each stream under each fence.
type Seen = Mutex<HashMap<(String, u64), u64>>;

/// Checks the order under one fence: a message may be handed out again after an unwritten report,
/// but no message may be left out.
fn check_handed_out(seen: &Seen, work: &WorkContext, to_judge: &mpsc::UnboundedSender<String>) {
    let message = work.message();
    let number: u64 = message.message_id.parse().unwrap_or_default();
    let place = (message.stream.clone(), work.fencing_token());
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let gap = seen.get(&place).is_some_and(|last| number > last + 1);
    if gap || number != message.sequence {
        let what = format!(
            "{} handed out {number} at {}",
            message.stream, message.sequence
        );
        // The judge runs as long as the process.
        let _told = to_judge.send(what);
    }
    seen.insert(place, number);
}

/// Stores violations, with retries.
async fn judge(container: ContainerClient<Measured>, mut told: mpsc::UnboundedReceiver<String>) {
    while let Some(what) = told.recv().await {
        let violation = Violation {
            partition: "violations".to_owned(),
            unique: uuid::Uuid::new_v4().to_string(),
            what,
        };
        while container.run(violation.upsert()).await.is_err() {}
    }
}
