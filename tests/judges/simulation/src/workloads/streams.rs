//! Ordered work: every node handles streams of numbered messages, and the clients judge the order
//! and the effects.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use cdb_client::{ContainerClient, CosmosClient};
use cdb_coordination::membership::{InMemoryLeaseProvider, LeaseProvider};
use cdb_coordination::{HandlerError, Membership};
use cdb_model::{Container, Document, Patch};
use cdb_work::{
    Completed, DeliveryReason, NewWork, Partitions, RunConfig, Settlement, Work, WorkConfig,
    WorkContext, WorkCoordinator, WorkError, WorkFailure, WorkHandlers, WorkMember, WorkMessage,
};
use serde::{Deserialize, Serialize};
use tokio::time::sleep_until;

use crate::judges::{Handled, Handling, Place};
use crate::network::MEMBERS;
use crate::node::{Pace, SLOW};
use crate::workload::prelude::*;

/// The container of ordered work.
const STREAMS: &str = "work";

/// The number of streams.
const COUNT: usize = 10;

/// Streams whose handlers take minutes, and their number.
const SLOW_STREAM: &str = "slow-stream-";
const SLOW_COUNT: usize = 3;

/// The pause between two renewals of a claim.
const RENEWAL: Duration = Duration::from_secs(60);

/// Streams whose only message no attempt can handle.
const HELD: &str = "held-stream-";

/// How many messages a node holds in memory: few, so that streams that are held exceed them.
const MOST_HELD: usize = 100;

/// The number of virtual partitions.
const VIRTUAL_PARTITIONS: u16 = 8;

/// The effects of a stream: the number of the last applied message, and how many were applied.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "tally", id = "{partition}:tally:{stream}")]
pub(crate) struct Tally {
    #[document(partition_key)]
    partition: String,
    stream: String,
    #[document(index)]
    last: u64,
    count: u64,
}

/// The documents of ordered work, and the effects.
#[derive(Container, Clone, Debug)]
pub(crate) enum Documents {
    #[container(extends)]
    Work(Work),
    Tally(Tally),
}

/// The handled messages of all nodes.
#[derive(Clone, Debug, Default)]
struct Record(Guarded<Progress>);

#[derive(Debug, Default)]
struct Progress {
    /// The highest number of each stream.
    last: BTreeMap<String, u64>,
    problems: Vec<String>,
}

/// Streams whose messages the nodes handle one after the other.
#[derive(Clone, Default)]
pub(super) struct Streams {
    record: Record,
    client: Arc<OnceLock<Client>>,
}

/// Streams whose only message no attempt can handle, more than the nodes hold in memory.
pub(super) struct HeldStreams(pub(super) Streams);

/// A client of the streams.
struct Client {
    work: WorkCoordinator,
    documents: ContainerClient<Documents>,
}

#[async_trait(?Send)]
impl Workload for Streams {
    fn about(&self) -> About {
        About::always(
            "streams",
            "Streams of messages that must be handled in order",
        )
    }

    fn container(&self) -> Option<&'static str> {
        Some(STREAMS)
    }

    async fn prepare(&self, outside: &CosmosClient) -> Result<(), String> {
        let documents = open(outside, STREAMS).await?;
        // A share without slots: the clients handle no message.
        let no_slots = Arc::new(InMemoryLeaseProvider::share(256, 257));
        let work = coordinator(&documents, Pace::Default, no_slots).await?;
        self.client.get_or_init(|| Client { work, documents });
        Ok(())
    }

    /// Opens a coordinator for a share of the streams, and handles their messages. Dropping it sends
    /// farewells; a killed node's do not arrive.
    fn join<'a>(&'a self, node: &'a StartingNode<'a>) -> Joining<'a> {
        Box::pin(async move {
            let (container, pace) = (node.open::<Documents>(STREAMS).await?, node.config.pace);
            let member = pace.member(node.name());
            let membership = Membership::start::<WorkMember, Work>(container.view(), member);
            let work = coordinator(&container, pace, Arc::new(membership)).await?;
            node.handling.add(place(MEMBERS));
            let handlers = self.record.handlers(node.number, node.handling.clone());
            Ok::<Part, String>(Some(Box::new(work.run(RunConfig::default(), handlers))))
        })
    }

    /// Stores messages, and judges how they are handled.
    async fn run(&self, caller: &Caller) -> Seen {
        let mut storing = JoinSet::new();
        let usual = (0..COUNT).map(|number| format!("stream-{number}"));
        let slow = (0..SLOW_COUNT).map(|number| format!("{SLOW_STREAM}{number}"));
        for stream in usual.chain(slow) {
            let (streams, caller) = (self.clone(), caller.clone());
            storing.spawn(async move {
                let stored = streams.store(&caller, &stream).await;
                (stream, stored)
            });
        }
        let (mut stored, mut problems) = (BTreeMap::new(), Vec::new());
        while let Some(one) = storing.join_next().await {
            match one.expect("a client does not panic") {
                (stream, Ok(count)) => drop(stored.insert(stream, count)),
                (stream, Err(error)) => problems.push(format!("{stream}: {error}")),
            }
        }
        problems.extend(self.judge(&stored).await);
        problems.append(&mut self.record.0.lock().problems);
        Seen::of(problems)
    }
}

#[async_trait(?Send)]
impl Workload for HeldStreams {
    fn about(&self) -> About {
        About::half(
            "held-streams",
            "Streams whose first message no attempt can handle",
        )
    }

    async fn run(&self, caller: &Caller) -> Seen {
        let mut problems = Vec::new();
        for number in 0..caller.cluster.profile.nodes * MOST_HELD * 3 / 2 {
            let stored = self.0.client().store(format!("{HELD}{number}"), 1).await;
            problems.extend(stored.err());
        }
        sleep_until(caller.until).await;
        Seen::of(problems)
    }
}

impl Client {
    /// Stores a message of a stream.
    async fn store(&self, stream: String, number: u64) -> Result<(), String> {
        let message = NewWork::inbox(stream, number.to_string());
        let immediate = self.work.immediate();
        let stored = keep_trying(|| immediate.store(message.clone())).await;
        stored.map(drop)
    }
}

impl Record {
    /// Notes that a message is handled. The message before it must have been handled.
    fn note(&self, stream: &str, number: u64) {
        let mut handled = self.0.lock();
        let last = handled.last.entry(stream.to_owned()).or_default();
        let expected = *last + 1;
        *last = number.max(*last);
        if number > expected {
            let problem = format!("{stream}: message {number} is handled before {expected}");
            handled.problems.push(problem);
        }
    }

    /// Handles a message, with an effect that the store refuses out of order or a second time.
    async fn handle(self, work: WorkContext) -> Result<Completed, HandlerError> {
        let message = work.message();
        if message.stream.starts_with(HELD) {
            return Err(HandlerError::permanently("no attempt can succeed"));
        }
        let number: u64 = message.message_id.parse()?;
        self.note(&message.stream, number);
        let until = Instant::now() + work_of(&message.stream, number);
        while Instant::now() < until {
            sleep_until(until.min(Instant::now() + RENEWAL)).await;
            work.renew();
        }
        if number.is_multiple_of(7) && work.delivery() == DeliveryReason::New {
            return Err(HandlerError::temporarily("the first attempt fails"));
        }
        let patch = Patch::<Tally>::new()
            .set(Tally::LAST, number)
            .incr(Tally::COUNT, 1)
            .when(Tally::LAST.eq(number - 1));
        let mut effects = work.effects::<Documents>();
        effects.add(patch.at(&TallyKey::new(&*message.partition, &*message.stream)))?;
        Ok(work.done().with_effects(&effects)?)
    }

    /// Notes failures that no fault explains: a refused effect, and a message that is set aside.
    fn note_failure(&self, failure: &WorkFailure) {
        if failure.message.stream.starts_with(HELD) {
            return;
        }
        if let Err(WorkError::EffectRefused { .. }) | Ok(Settlement::Dead) = failure.settled {
            let (stream, id) = (&failure.message.stream, &failure.message.message_id);
            let problem = format!("{stream}: message {id}: {}", failure.reason);
            let problems = &mut self.0.lock().problems;
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
    }

    fn handlers(&self, node: u32, handling: Handling) -> WorkHandlers {
        let (record, failing) = (self.clone(), self.clone());
        WorkHandlers::new()
            .otherwise(move |work: WorkContext| {
                let (record, message) = (record.clone(), handled(work.message()));
                let running = handling.begin(message, node);
                async move {
                    let done = record.handle(work).await;
                    running.end(done.is_ok());
                    done
                }
            })
            .on_failure(move |failure| failing.note_failure(failure))
    }
}

impl Streams {
    fn client(&self) -> &Client {
        self.client.get().expect("it is prepared")
    }

    /// Stores the messages of a stream one after another. Returns their number.
    async fn store(&self, caller: &Caller, stream: &str) -> Result<u64, String> {
        let partitions = config().partitions;
        let tally = Tally {
            partition: partitions.name(partitions.of_stream(stream)),
            stream: stream.to_owned(),
            last: 0,
            count: 0,
        };
        let client = self.client();
        keep_trying(|| client.documents.create_if_missing(&tally)).await?;
        let mut random = Random::new(caller.seed, stream);
        let time = caller.until.saturating_duration_since(Instant::now());
        let mut number = 0;
        while caller.goes_on() {
            number += 1;
            client.store(stream.to_owned(), number).await?;
            let handling = &caller.cluster.shared.handling;
            handling.stored(stream, number, place(&tally.partition));
            let longest = Duration::from_secs([1, 10, 60, 600, 7200][random.below(5)]);
            let pause = random.duration(Duration::ZERO..longest.min(time / 10));
            // A backlog of messages that take minutes would not end in time.
            let pause = pause.max(work_of(stream, number));
            caller.rest_for(pause).await;
        }
        Ok(number)
    }

    /// Waits until all messages are handled and every effect is written once. The messages of a
    /// stream are handled one after the other.
    async fn judge(&self, stored: &BTreeMap<String, u64>) -> Vec<String> {
        let backlog = stored
            .iter()
            .map(|(stream, last)| self.work_left(stream, *last));
        let deadline = Instant::now() + BOUND + backlog.max().unwrap_or_default();
        loop {
            let unfinished = match keep_trying(|| read_all(&self.client().documents)).await {
                Ok(tallies) => self.unfinished(stored, &tallies),
                Err(error) => vec![format!("the effects cannot be read: {error}")],
            };
            if unfinished.is_empty() || Instant::now() >= deadline {
                return unfinished;
            }
            sleep(Duration::from_secs(5)).await;
        }
    }

    /// Returns the time that the messages of a stream take which are not handled.
    fn work_left(&self, stream: &str, last: u64) -> Duration {
        let handled = self.record.0.lock().last.get(stream).copied();
        // The first attempts at some messages fail.
        let messages = handled.unwrap_or_default().max(1)..=last;
        messages.map(|number| work_of(stream, number) * 2).sum()
    }

    /// Returns the streams with missing or repeated messages or effects.
    fn unfinished(&self, stored: &BTreeMap<String, u64>, tallies: &[Tally]) -> Vec<String> {
        let handled = self.record.0.lock();
        let wrong = stored.iter().filter_map(|(stream, stored)| {
            let last = handled.last.get(stream).unwrap_or(&0);
            let tally = tallies.iter().find(|tally| tally.stream == *stream);
            let (applied, count) = tally.map_or((0, 0), |tally| (tally.last, tally.count));
            ([*last, applied, count] != [*stored; 3]).then(|| {
                format!("{stream}: {stored} messages are stored, handled up to {last}, applied up to {applied}, {count} effects")
            })
        });
        wrong.collect()
    }
}

/// Returns the time that a message takes: some longer than a lease (15 s), some longer than a
/// claim (5 min).
fn work_of(stream: &str, number: u64) -> Duration {
    Duration::from_secs(match number % 4 {
        _ if !stream.starts_with(SLOW_STREAM) => number % 20,
        0 => 40,
        1 => 600,
        2 => 10,
        _ => 120,
    })
}

fn place(partition: &str) -> Place {
    (STREAMS, partition.to_owned())
}

fn handled(message: &WorkMessage) -> Handled {
    let number = message.message_id.parse().unwrap_or_default();
    Handled::in_stream(&message.stream, number, place(&message.partition))
}

fn config() -> WorkConfig {
    let mut config = WorkConfig::default();
    config.most_in_memory = MOST_HELD;
    config.partitions = Partitions::new(VIRTUAL_PARTITIONS).expect("1 to 256");
    // Idle nodes search less often than by default, which shortens long simulations.
    config.longest_pause = Duration::from_secs(10);
    config.sweep = Duration::from_secs(60);
    // Streams that are idle for an hour are deleted.
    config.remember = Duration::from_secs(3600);
    // Kills and refused requests cost attempts, and no message may be set aside.
    config.retry.max_attempts = 10_000;
    config.retry.longest_delay = Duration::from_secs(60);
    config
}

async fn coordinator(
    container: &ContainerClient<Documents>,
    pace: Pace,
    slots: Arc<dyn LeaseProvider>,
) -> Result<WorkCoordinator, String> {
    let mut config = config();
    if pace == Pace::Slow {
        config.lease = SLOW * 6;
        config.longest_pause = SLOW * 3;
    }
    keep_trying(|| WorkCoordinator::open(container.view(), slots.clone(), config.clone())).await
}
