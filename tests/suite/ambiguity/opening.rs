//! Fails each request of opening a container, one per run and with each kind of fault: the
//! container opens and is complete.

use cdb_client::{Bootstrap, CosmosClient, DatabaseClient, MasterKey};
use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use cdb_model::container::{ContainerDefinition, DefaultTtl};
use cdb_model::document::DecodeError;
use cdb_model::shape::DocumentShape;
use cdb_model::{Container, Query};
use cdb_provider::CosmosDBProvider;
use cdb_provider::documents::{Durable, SCHEMA_PARTITION};
use duroxide::providers::ProviderError;
use futures::StreamExt;

/// Concurrent runs.
const AT_ONCE: usize = 6;

/// The requests that opening can send.
const REQUESTS: [OperationKind; 4] = [
    OperationKind::Metadata,
    OperationKind::Read,
    OperationKind::Create,
    OperationKind::Batch,
];

/// The schema document, and a message and an activity for each of 16 slots.
const SCHEMA_AND_GATE: usize = 1 + 2 * 16;

/// What exists before the container is opened.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// An account without a database.
    NewAccount,
    /// A container without composite indexes and expiry, as another program creates it.
    LacksIndexes,
    /// A container that a provider has opened.
    Opened,
}

/// The container of [`Before::LacksIndexes`].
#[derive(Debug)]
enum Lacking {}

untyped!(<> Lacking, "Lacking", {
    let mut definition = Durable::definition();
    definition.default_ttl = None;
    definition.indexing_policy.composite_indexes.clear();
    definition
});

impl Before {
    async fn prepare(self, emulator: &Emulator) {
        match self {
            Self::NewAccount => {}
            Self::LacksIndexes => {
                let created = database(emulator)
                    .bootstrap::<Lacking>("duroxide", Bootstrap::CreateIfMissing)
                    .await;
                created.expect("the container is created");
            }
            Self::Opened => {
                open(emulator).await.expect("the container opens");
            }
        }
    }
}

fn database(emulator: &Emulator) -> DatabaseClient {
    let key = MasterKey::new(emulator.key()).expect("a key");
    let client = CosmosClient::builder(emulator.endpoint()).credential(key);
    client.build().expect("a client").database("duroxide")
}

async fn open(emulator: &Emulator) -> Result<CosmosDBProvider, ProviderError> {
    CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await
}

/// Every fault of one request that a retry can overcome.
fn effects() -> Vec<Effect> {
    let refused = |status| Effect::error(status, 0);
    let throttled = Effect::Status {
        status: 429,
        substatus: 3200,
        retry_after_ms: Some(5),
    };
    let refused = [408, 410, 449, 500, 502, 503, 504].map(refused);
    let late = [408, 500, 502, 503, 504].map(|status| Effect::StatusAfterEffect { status });
    let mut effects = vec![Effect::DropRequest, Effect::DropAnswer, throttled];
    effects.extend(refused);
    effects.extend(late);
    effects
}

fn on_opening(fault: Fault) -> Fault {
    REQUESTS.into_iter().fold(fault, Fault::on)
}

/// Opens once, with `fault` if there is one. Returns how many requests that took.
async fn run(before: Before, fault: Option<Fault>) -> u64 {
    let emulator = Emulator::start().await.expect("the emulator starts");
    before.prepare(&emulator).await;
    emulator.reset_requests();
    let what = format!("{before:?} with {fault:?}");
    if let Some(fault) = fault {
        emulator.inject(fault);
    }
    let opened = open(&emulator).await;
    let counts = emulator.requests().counts;
    emulator.clear_faults();
    let provider = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    let differences = database(&emulator).differences::<Durable>("duroxide").await;
    let differences = differences.expect("the definition can be read");
    assert!(differences.is_empty(), "{what}: {differences:?}");
    let schema_and_gate = Query::<Durable>::in_partition(SCHEMA_PARTITION);
    let stored = provider.container().query(schema_and_gate).all().await;
    let stored = stored.expect("the schema can be read").len();
    assert_eq!(stored, SCHEMA_AND_GATE, "{what}");
    let counts = REQUESTS.iter().filter_map(|kind| counts.get(kind));
    counts.sum()
}

async fn fail_each_request(before: Before) {
    let requests = u32::try_from(run(before, None).await).expect("a few requests");
    assert!(requests >= 2, "opening reads the container and its schema");
    let faults = (0..requests).flat_map(|n| {
        let faults = effects().into_iter().map(Fault::once);
        faults.map(move |fault| on_opening(fault.after(n)))
    });
    let runs = futures::stream::iter(faults)
        .map(|fault| run(before, Some(fault)))
        .buffer_unordered(AT_ONCE);
    let runs = runs.count().await;
    println!("{before:?}: {requests} requests failed in {runs} runs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_account_opens_when_any_request_fails() {
    fail_each_request(Before::NewAccount).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_that_lacks_indexes_opens_when_any_request_fails() {
    fail_each_request(Before::LacksIndexes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_existing_container_opens_when_any_request_fails() {
    fail_each_request(Before::Opened).await;
}

#[tokio::test]
async fn opening_retries_the_schema_until_an_answer_arrives() {
    for effect in [
        Effect::DropRequest,
        Effect::StatusAfterEffect { status: 503 },
    ] {
        let lost = Fault::once(effect).times(3).on(OperationKind::Batch);
        run(Before::NewAccount, Some(lost)).await;
    }
}

#[tokio::test]
async fn opening_fails_when_the_schema_never_arrives() {
    let emulator = Emulator::start().await.expect("the emulator starts");
    // A 500 does not tell whether the batch took effect.
    let failed = Effect::error(500, 0);
    emulator.inject(Fault::always(failed).on(OperationKind::Batch));
    let error = open(&emulator).await.expect_err("no batch succeeds");
    assert!(error.is_retryable(), "{error}");
    let sent = emulator
        .requests()
        .counts
        .get(&OperationKind::Batch)
        .copied();
    assert_eq!(sent, Some(4));
}
