//! What fails is named by each command from its first failed attempt until it succeeds: messages
//! between partitions, ordered work, change feeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cdb_cli::{Cli, Exit};
use cdb_client::{Bootstrap, ContainerClient};
use cdb_model::{Container, Document};
use cdb_provider::coordination::change_feed::{ChangeFeedState, ChangeProcessorConfig, feed_parts};
use cdb_provider::coordination::membership::InMemoryLeaseProvider;
use cdb_provider::coordination::message::Side;
use cdb_provider::coordination::messaging::MessagingConfig;
use cdb_provider::coordination::retry::RetryPolicy;
use cdb_provider::coordination::{
    ChangeProcessor, HandlerError, Message, MessageDocument, Messaging, Received,
};
use cdb_provider::documents::Durable;
use cdb_work::{NewWork, Work, WorkConfig, WorkCoordinator};
use serde::{Deserialize, Serialize};

use crate::harness::{Account, Run};

/// A container with orchestrations and messages, a type that the built-in command does not know.
#[derive(Container)]
#[expect(clippy::large_enum_variant, reason = "the test creates no value")]
pub(crate) enum Mixed {
    #[container(extends)]
    Durable(Durable),
    Message(MessageDocument<Mixed>),
}

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "parcel", id = "parcel:{number}")]
struct Parcel {
    #[document(partition_key)]
    customer: String,
    number: u64,
}

/// A container with messages and without orchestrations.
#[derive(Container)]
enum Warehouse {
    Parcel(Parcel),
    Message(MessageDocument<Warehouse>),
}

#[derive(Serialize, Deserialize)]
struct Note;

impl Message for Note {
    const TYPE: &'static str = "note";
}

/// The time between two attempts. The commands run in between, or while the next attempt fails too.
fn retry() -> RetryPolicy {
    let delay = Duration::from_millis(50);
    RetryPolicy::default()
        .with_delays(delay, delay)
        .with_max_attempts(1_000_000)
}

/// Starts messaging with a handler that fails until the flag is set, and sends it a message.
pub(crate) async fn failing<C: Container>(
    container: ContainerClient<C>,
    is_fixed: Arc<AtomicBool>,
) -> Messaging<C>
where
    MessageDocument<C>: cdb_model::container::MemberOf<C>,
{
    let config = MessagingConfig::default().with_retry(retry());
    let messaging = Messaging::builder(container).config(config);
    let messaging = messaging.on(move |_: Received<Note>, batch| {
        let is_fixed = is_fixed.load(Ordering::SeqCst);
        async move {
            if is_fixed {
                return Ok(batch);
            }
            Err(HandlerError::temporarily("no parcel for the note"))
        }
    });
    let messaging = messaging.start().expect("the durations fit");
    let mut batch = messaging.batch("ann");
    batch.send("bob", &Note).expect("it is small");
    messaging.commit(batch).await.expect("a commit");
    until_retrying(&messaging, 1).await;
    messaging
}

async fn until_retrying<C: Container>(messaging: &Messaging<C>, count: u64)
where
    MessageDocument<C>: cdb_model::container::MemberOf<C>,
{
    let retrying = messaging.retrying();
    while retrying.count(Side::Inbox).await.expect("a count") != count {}
}

/// Checks that a command prints these texts and has this exit code.
#[track_caller]
fn check(run: &Run, exit: Exit, texts: &[&str]) {
    assert_eq!(run.exit, exit, "{run:?}");
    for text in texts {
        run.prints(text);
    }
}

/// Returns the count of a queue.
fn count(queues: &Run, queue: &str) -> Option<String> {
    let mut lines = queues.out.lines();
    let rest = lines.find_map(|line| line.strip_prefix(queue))?;
    Some(rest.split_whitespace().next()?.to_owned())
}

/// Returns the name in a row of a list.
fn name(list: &Run, row: usize) -> String {
    let line = list.out.lines().nth(row + 1);
    let name = line.and_then(|line| line.split(' ').next());
    name.expect("a row").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_handler_fails_is_named_by_each_command_until_it_succeeds() {
    let account = Account::empty().await;
    let is_fixed = Arc::new(AtomicBool::new(false));
    let mixed = account.container::<Mixed>().await;
    let messaging = failing(mixed, is_fixed.clone()).await;

    let queues = account.cdb("queues").await;
    assert_eq!(count(&queues, "inbox retrying").as_deref(), Some("1"));
    let listed = account.cdb("messages list --source partitions").await;
    let row = [r#"duroxide["bob"]"#, "note", "no parcel for the note"];
    check(&listed, Exit::Ok, &row);
    let doctor = account.cdb("doctor").await;
    let finding = [
        "warning  messages     the handlers of 1 message between partitions fail, and its stream waits; for example: no parcel for the note",
        "→ run cdb messages list --state retrying for the errors",
    ];
    check(&doctor, Exit::Finding, &finding);
    let name = name(&listed, 0);
    let shown = account.cdb(&["messages", "show", &name]).await;
    let facts = ["retrying, not handled", "holds up:", "contents: null"];
    check(&shown, Exit::Ok, &facts);
    let refused = account.cdb(&["messages", "redrive", &name, "--yes"]).await;
    assert_eq!(refused.exit, Exit::Finding, "{refused:?}");
    refused.complains(&format!("retried by itself: `{name}`"));

    is_fixed.store(true, Ordering::SeqCst);
    until_retrying(&messaging, 0).await;
    let queues = account.cdb("queues").await;
    assert_eq!(count(&queues, "inbox retrying").as_deref(), Some("0"));
    let listed = account.cdb("messages list --source partitions").await;
    check(&listed, Exit::Ok, &["no message is dead or retried"]);
    let doctor = account.cdb("doctor").await;
    doctor.prints("ok       messages     no message between partitions is dead or retried");
    messaging.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_container_without_orchestrations_has_the_commands_for_its_messages() {
    let account = Account::empty().await;
    let is_fixed = Arc::new(AtomicBool::new(false));
    let warehouse = account.container::<Warehouse>().await;
    let messaging = failing(warehouse, is_fixed.clone()).await;
    // Nothing has a route to this container.
    let mut batch = messaging.batch("ann");
    batch.send_to("hotel", "bob", &Note).expect("it is small");
    messaging.commit(batch).await.expect("a commit");
    let retrying = messaging.retrying();
    while retrying.count(Side::Outbox).await.expect("a count") == 0 {}

    let cli = Cli::<Warehouse>::new("duroxide");
    let queues = account.run(&cli, "queues").await;
    assert_eq!(count(&queues, "outbox retrying").as_deref(), Some("1"));
    assert!(!queues.out.contains("activities"), "{queues:?}");
    let listed = account.run(&cli, "messages list").await;
    let both = ["no route to container `hotel`", "no parcel for the note"];
    check(&listed, Exit::Ok, &both);
    let doctor = account.run(&cli, "doctor").await;
    let findings = [
        "can write documents",
        "warning  messages     1 message between partitions cannot be delivered",
        "warning  messages     the handlers of 1 message between partitions fail",
    ];
    check(&doctor, Exit::Finding, &findings);
    let work = account.run(&cli, "messages list --source work").await;
    assert_eq!(work.exit, Exit::Usage, "{work:?}");
    work.complains("`Warehouse` holds no ordered work; choose another container");
    messaging.stop().await;
}

/// A coordinator of a container whose messages have one attempt, or are retried after an hour.
pub(crate) async fn coordinator(
    container: ContainerClient<Work>,
    max_attempts: u32,
) -> WorkCoordinator {
    let mut config = WorkConfig::default();
    let hour = Duration::from_secs(3600);
    config.retry = retry()
        .with_delays(hour, hour)
        .with_max_attempts(max_attempts);
    let slots = Arc::new(InMemoryLeaseProvider::all());
    let work = WorkCoordinator::open(container, slots, config).await;
    work.expect("it opens")
}

/// Stores a message of a stream, and reports that its handler failed.
pub(crate) async fn fail(work: &WorkCoordinator, stream: &str, reason: &str) {
    let new = NewWork::inbox(stream, "paid-1").with_body("paid", "{}");
    let (_, claimed) = work.store_and_claim(new).await.expect("it is stored");
    let claimed = claimed.expect("it is the next one");
    ok!(work.immediate().report(claimed.failed(reason)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_message_of_ordered_work_is_named_by_each_command_until_it_succeeds() {
    let account = Account::empty().await;
    let container = account.container::<Work>().await;
    check(&account.cdb("doctor").await, Exit::Ok, &["matches Work"]);
    let work = coordinator(container.clone(), 3).await;
    fail(&work, "order-7", "out of stock").await;

    account.cdb("queues").await.is("work-queues");
    account.cdb("messages list").await.is("messages-work");
    let doctor = account.cdb("doctor").await;
    let finding = [
        "warning  messages     the handlers of 1 message of ordered work fail, and its stream waits; for example: out of stock",
        "→ run cdb messages list --state retrying for the errors",
    ];
    check(&doctor, Exit::Finding, &finding);
    work.shutdown().await.expect("it stops");

    let work = coordinator(container, 1).await;
    fail(&work, "order-8", "no such order").await;
    let listed = account.cdb("messages list --limit 1 --json").await;
    let first: serde_json::Value = serde_json::from_str(&listed.out).expect("JSON");
    assert_eq!(first["messages"][0]["to"], "order-8", "{listed:?}");
    let next = first["next"].as_str().expect("there are more");
    let listed = account.cdb(&["messages", "list", "--from", next]).await;
    check(&listed, Exit::Ok, &["order-7", "out of stock"]);
    let doctor = account.cdb("doctor").await;
    let findings = [
        "PROBLEM  messages     dead, until redriven or discarded: 1 message of ordered work, and its stream waits; for example: no such order",
        "run cdb messages redrive; cdb messages discard gives",
        "warning  messages     the handlers of 1 message of ordered work fail",
    ];
    check(&doctor, Exit::Finding, &findings);
    let shown = account.cdb(&["messages", "show", &name(&listed, 0)]).await;
    check(&shown, Exit::Ok, &["retrying, not handled", "contents: {}"]);
    for message in work.dead_letters(10).await.expect("a list") {
        work.discard(&message).await.expect("it is discarded");
    }
    for message in work.admin().retrying(10, None).await.expect("a page").rows {
        let key = message.key();
        let container = account.container::<Work>().await;
        container.run(key.delete()).await.expect("it is deleted");
    }
    let listed = account.cdb("messages list").await;
    check(&listed, Exit::Ok, &["no message is dead or retried"]);
    let inbox = account.cdb("messages list --source partitions").await;
    inbox.complains("`Work` holds no messages between partitions");
    work.shutdown().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_messages_of_ordered_work_are_redriven_and_discarded() {
    let account = Account::empty().await;
    let work = coordinator(account.container::<Work>().await, 1).await;
    for stream in ["order-7", "order-8", "order-9"] {
        fail(&work, stream, "no such order").await;
    }
    let listed = account.cdb("messages list").await;
    let (first, second) = (&*name(&listed, 0), &*name(&listed, 1));
    let planned = account.cdb(&["messages", "discard", first]).await;
    let plan = ["would discard 1 message\n", first, "no such order"];
    check(&planned, Exit::Usage, &plan);
    planned.complains("nothing was changed; pass --yes");
    account
        .cdb(&["messages", "discard", first, "--yes"])
        .await
        .is("messages-discard-work");
    let again = account.cdb(&["messages", "discard", first, "--yes"]).await;
    check(&again, Exit::Finding, &[]);
    again.complains("not found: `");

    let redriven = account.cdb(&["messages", "redrive", second, "--yes"]).await;
    assert_eq!(redriven.out, "redrove 1 message\n", "{redriven:?}");
    let claimed = work.claim(1, Duration::from_secs(1800)).await;
    let message = claimed.first().expect("it is retried").message();
    assert_eq!((&*message.stream, message.attempts), ("order-8", 0));

    let planned = account.cdb("messages redrive --all --dry-run").await;
    check(&planned, Exit::Ok, &["would redrive 1 message\n"]);
    let all = account.cdb("messages redrive --all --yes");
    assert_eq!(all.await.out, "redrove 1 message\n");
    let listed = account.cdb("messages list").await;
    check(&listed, Exit::Ok, &["no message is dead or retried"]);
    drop(claimed);
    work.shutdown().await.expect("it stops");
}

/// Returns whether a part of a change feed fails.
async fn is_failing(account: &Account) -> bool {
    let state = account.container::<ChangeFeedState>().await;
    let parts = feed_parts(&account.client(), &state).await;
    let parts = parts.expect("parts");
    parts.iter().any(|part| part.failure.is_some())
}

/// Starts a processor whose handler fails until the flag is set, and waits for its first failure.
pub(crate) async fn failing_feed(account: &Account, is_fixed: Arc<AtomicBool>) -> ChangeProcessor {
    let state = account.container::<ChangeFeedState>().await;
    let database = account.database();
    let source = database.bootstrap::<Warehouse>("warehouse", Bootstrap::CreateIfMissing);
    let source = source.await.expect("a container");
    let parcel = Parcel {
        customer: "ann".to_owned(),
        number: 7,
    };
    source.run(parcel.create()).await.expect("it is stored");
    let config = ChangeProcessorConfig {
        retry: retry(),
        member: "east".to_owned(),
        ..ChangeProcessorConfig::default()
    };
    let processor = ChangeProcessor::builder("invoices", &source, &state)
        .config(config)
        .start(move |_| {
            let is_fixed = is_fixed.load(Ordering::SeqCst);
            async move {
                if is_fixed {
                    return Ok(());
                }
                Err("the printer is off".into())
            }
        });
    while !is_failing(account).await {}
    processor.expect("the durations fit")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_change_feed_is_named_by_each_command_until_it_succeeds() {
    let account = Account::empty().await;
    account.container::<ChangeFeedState>().await;
    check(
        &account.cdb("change-feed").await,
        Exit::Ok,
        &["no change feed was started"],
    );
    let is_fixed = Arc::new(AtomicBool::new(false));
    let processor = failing_feed(&account, is_fixed.clone()).await;
    let queues = account.cdb("queues").await;
    assert_eq!(count(&queues, "parts failing").as_deref(), Some("1"));
    let listed = account.cdb("change-feed").await;
    let row = [
        "invoices",
        "duroxide/warehouse",
        "east (",
        "the printer is off",
    ];
    check(&listed, Exit::Ok, &row);
    let doctor = account.cdb("doctor").await;
    let finding = [
        "warning  changefeed",
        "of `invoices` waits after",
        "the printer is off",
    ];
    check(&doctor, Exit::Finding, &finding);

    is_fixed.store(true, Ordering::SeqCst);
    while is_failing(&account).await {}
    let queues = account.cdb("queues").await;
    assert_eq!(count(&queues, "parts failing").as_deref(), Some("0"));
    check(
        &account.cdb("doctor").await,
        Exit::Ok,
        &["1 part of change feeds read"],
    );
    processor.stop().await;
    check(
        &account.cdb("doctor").await,
        Exit::Finding,
        &["no process reads part"],
    );
}

#[cfg(feature = "dashboard")]
mod dashboard;
