//! Equal writers: all nodes write the same content at the same time, while requests and answers are
//! lost. Increments and appended items add up to the calls that succeeded; of the creations of a
//! document, and of the replacements of a version, at most one succeeds.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use cdb_client::{ContainerClient, CosmosClient};
use cdb_coordination::Repository;
use cdb_coordination::repository::RepositoryError;
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

use crate::network::Network;
use crate::workload::prelude::*;

/// The container.
const EQUAL: &str = "equal";

/// The time between two rounds, in which all nodes write.
const ROUND: Duration = Duration::from_secs(15);

/// The rounds after which the nodes append to another list.
const ROUNDS_OF_LIST: u64 = 60;

/// The number of sums.
const SUMS: u64 = 3;

/// The time in which calls end that a node has begun.
const SETTLE: Duration = Duration::from_secs(180);

/// A sum that the nodes increment.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "sum", id = "{place}:sum")]
pub(crate) struct Sum {
    #[document(partition_key)]
    place: String,
    count: u64,
}

/// The numbers of rounds, which the nodes append.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "list", id = "{place}:list")]
pub(crate) struct List {
    #[document(partition_key)]
    place: String,
    rounds: Vec<u64>,
}

/// A document that all nodes create, and whose version they then replace.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "claim", id = "{place}:claim")]
pub(crate) struct Claim {
    #[document(partition_key)]
    place: String,
    replaced: u64,
}

/// The documents of equal writers.
#[derive(Container, Clone, Debug)]
pub(crate) enum Documents {
    Sum(Sum),
    List(List),
    Claim(Claim),
}

/// The writers.
#[derive(Default)]
pub(super) struct Equal {
    calls: Calls,
    documents: OnceLock<ContainerClient<Documents>>,
}

/// The calls of all nodes.
#[derive(Clone, Debug, Default)]
struct Calls {
    gate: Gate,
    counts: Guarded<BTreeMap<String, Count>>,
}

/// The calls of one kind on one document.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    succeeded: u64,
    /// Calls with another error than a refusal, and those of killed nodes.
    unknown: u64,
}

#[async_trait(?Send)]
impl Workload for Equal {
    fn about(&self) -> About {
        About::always("equal", "Equal writes of all nodes at the same time")
    }

    fn container(&self) -> Option<&'static str> {
        Some(EQUAL)
    }

    /// Creates the sums.
    async fn prepare(&self, outside: &CosmosClient) -> Result<(), String> {
        let documents = open(outside, EQUAL).await?;
        for number in 0..SUMS {
            let place = place_of_sum(number);
            let sum = Sum { place, count: 0 };
            keep_trying(|| documents.create_if_missing(&sum)).await?;
        }
        self.documents.get_or_init(|| documents);
        Ok(())
    }

    fn join<'a>(&'a self, node: &'a StartingNode<'a>) -> Joining<'a> {
        Box::pin(async move {
            if node.config.idle {
                return Ok(None);
            }
            let mut writes = JoinSet::new();
            writes.spawn(write_all(node.open(EQUAL).await?, self.calls.clone()));
            Ok::<Part, String>(Some(Box::new(writes)))
        })
    }

    /// Lets the nodes write, and judges.
    async fn run(&self, caller: &Caller) -> Seen {
        self.calls.gate.open_until_end(caller).await;
        sleep(SETTLE).await;
        let problems = keep_trying(|| self.problems(&caller.cluster.network)).await;
        Seen::of(
            problems.unwrap_or_else(|error| {
                vec![format!("equal: the documents cannot be read: {error}")]
            }),
        )
    }
}

impl Count {
    /// Returns whether so many effects are possible.
    fn explains(self, effects: u64) -> bool {
        (self.succeeded..=self.succeeded + self.unknown).contains(&effects)
    }
}

impl Calls {
    /// Counts a call. It is unknown until it returns.
    async fn count<E>(
        &self,
        what: String,
        call: impl Future<Output = Result<(), E>>,
        is_refused: impl FnOnce(&E) -> bool,
    ) {
        self.counts.lock().entry(what.clone()).or_default().unknown += 1;
        let done = call.await;
        let mut counts = self.counts.lock();
        let count = counts.entry(what).or_default();
        match done {
            Ok(()) => {
                count.unknown -= 1;
                count.succeeded += 1;
            }
            Err(error) if is_refused(&error) => count.unknown -= 1,
            Err(_) => {}
        }
    }
}

/// Writes at the same times as all other nodes.
async fn write_all(container: ContainerClient<Documents>, calls: Calls) {
    let store = Repository::<Documents, Claim>::new(&container);
    loop {
        let round = elapsed().as_secs() / ROUND.as_secs() + 1;
        let next = Duration::from_secs(round * ROUND.as_secs());
        sleep(next.saturating_sub(elapsed())).await;
        if !calls.gate.is_open() {
            continue;
        }
        match round % 3 {
            0 => add(&container, &calls, round).await,
            1 => append(&container, &calls, round).await,
            _ => claim(&store, &calls, round).await,
        }
    }
}

async fn add(container: &ContainerClient<Documents>, calls: &Calls, round: u64) {
    let place = place_of_sum(round / 3 % SUMS);
    let key = SumKey::new(&*place);
    let update = container.update(&key, |sum: &mut Sum| sum.count += 1);
    let refused = |error: &cdb_client::Error| !error.is_ambiguous();
    calls.count(place, update, refused).await;
}

async fn append(container: &ContainerClient<Documents>, calls: &Calls, round: u64) {
    let place = format!("list-{}", round / ROUNDS_OF_LIST);
    let list = List {
        place: place.clone(),
        rounds: Vec::new(),
    };
    // The update tells whether the list exists.
    let _unknown = container.create_if_missing(&list).await;
    let key = ListKey::new(&*place);
    let update = container.update(&key, |list: &mut List| list.rounds.push(round));
    let refused = |error: &cdb_client::Error| !error.is_ambiguous();
    calls
        .count(format!("{place} {round}"), update, refused)
        .await;
}

async fn claim(store: &Repository<Documents, Claim>, calls: &Calls, round: u64) {
    let claim = Claim {
        place: format!("claim-{round}"),
        replaced: 0,
    };
    let refused = |error: &RepositoryError| match error {
        RepositoryError::Exists { .. }
        | RepositoryError::Changed { .. }
        | RepositoryError::Gone { .. } => true,
        RepositoryError::Client(error) => !error.is_ambiguous(),
        _ => false,
    };
    let create = async { store.run(claim.create()).await.map(drop) };
    calls.count(claim.place.clone(), create, refused).await;
    // The other nodes read at the same time.
    sleep(Duration::from_secs(2)).await;
    let read = store.find(&ClaimKey::new(&*claim.place)).await;
    if let Ok(Some(mut found)) = read {
        let what = format!("{} {}", claim.place, found.etag);
        found.document.replaced += 1;
        let replace = async { store.run(found.replace()).await.map(drop) };
        calls.count(what, replace, refused).await;
    }
}

impl Equal {
    async fn problems(&self, network: &Network) -> Result<Vec<String>, cdb_client::Error> {
        let documents = self.documents.get().expect("it is prepared");
        let mut effects: BTreeMap<String, u64> = BTreeMap::new();
        for Sum { place, count } in read_all(documents).await? {
            effects.insert(place, count);
        }
        for List { place, rounds } in read_all(documents).await? {
            for round in rounds {
                *effects.entry(format!("{place} {round}")).or_default() += 1;
            }
        }
        for Claim { place, .. } in read_all(documents).await? {
            effects.insert(place, 1);
        }
        let counts = self.calls.counts.lock().clone();
        let mut problems = Vec::new();
        let mut replaced: BTreeMap<&str, Count> = BTreeMap::new();
        for (what, count) in &counts {
            let mut count = *count;
            if let Some((place, _)) = what.split_once(' ').filter(|_| what.starts_with("claim")) {
                let all = replaced.entry(place).or_default();
                all.succeeded += count.succeeded;
                all.unknown += count.unknown;
                if count.succeeded > 1 {
                    let succeeded = count.succeeded;
                    problems.push(format!("{what}: {succeeded} replacements of this version"));
                }
                continue;
            }
            let found = effects.remove(what).unwrap_or_default();
            count.unknown += late(network, what);
            if !count.explains(found) {
                problems.push(format!("{what}: {found} effects of {count:?}"));
            }
        }
        let unasked = effects.into_iter().filter(|(_, count)| *count > 0);
        problems.extend(unasked.map(|(what, count)| format!("{what}: {count} effects of no call")));
        for claim in read_all::<_, Claim>(documents).await? {
            let mut calls = replaced.get(&*claim.place).copied().unwrap_or_default();
            calls.unknown += late(network, &claim.place);
            if !calls.explains(claim.replaced) {
                let (place, found) = (&claim.place, claim.replaced);
                problems.push(format!("{place}: {found} replacements of {calls:?}"));
            }
        }
        Ok(problems)
    }
}

/// Returns how many writes took place when their request arrived the second time. The caller may
/// have the answer of the first, which was refused (docs/errors.md, "Not covered").
fn late(network: &Network, what: &str) -> u64 {
    let (place, round) = what.split_once(' ').unwrap_or((what, ""));
    let place = format!("\"place\":\"{place}\"");
    let end = format!("{round}]}}");
    let is_of = |body: &str| body.contains(&place) && (round.is_empty() || body.ends_with(&end));
    network.late_writes(is_of)
}

fn place_of_sum(number: u64) -> String {
    format!("sum-{number}")
}
