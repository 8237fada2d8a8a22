//! Leases, outbox and inbox on every node: counters that one holder at a time writes, and transfers
//! between accounts, which take place exactly once.

use std::sync::OnceLock;

use cdb_client::{ContainerClient, CosmosClient};
use cdb_coordination::messaging::{Handled, MessagingConfig};
use cdb_coordination::outbox::OutboxError;
use cdb_coordination::retry::RetryPolicy;
use cdb_coordination::{Leases, Message, MessageDocument, Messaging, OutboxBatch, Received};
use cdb_model::operation::Lease;
use cdb_model::{Container, Document, Patch};
use serde::{Deserialize, Serialize};

use crate::judges::{Handled as HandledMessage, Handling};
use crate::node::Pace;
use crate::workload::prelude::*;

/// The container of leases and messages.
const BANK: &str = "bank";

/// The number of counters, and of accounts.
const PLACES: usize = 6;

/// Shorter than some holders take between two writes.
const LEASE: Duration = Duration::from_secs(20);

/// A document under a lease. Each write of a holder sets `written` to what the holder knows, plus
/// one, and lets the store count: they differ after a write of a former holder.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "counter", id = "{place}:counter")]
pub(crate) struct Counter {
    #[document(partition_key)]
    place: String,
    written: u64,
    count: u64,
    #[document(lease)]
    lease: Lease,
}

/// An account and the numbers of its transfers.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "account", id = "{place}:account")]
pub(crate) struct Account {
    #[document(partition_key)]
    place: String,
    balance: i64,
    sent: u64,
    received: u64,
    confirmed: u64,
}

/// The receipt of a transfer, in the partition of its receiver.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "receipt", id = "{place}:receipt:{transfer}")]
pub(crate) struct Receipt {
    #[document(partition_key)]
    place: String,
    transfer: String,
}

/// The documents of the bank.
#[derive(Container, Clone, Debug)]
pub(crate) enum Documents {
    Counter(Counter),
    Account(Account),
    Receipt(Receipt),
    Message(MessageDocument<Documents>),
}

/// To the receiver of a transfer.
#[derive(Serialize, Deserialize)]
struct Credit {
    transfer: String,
    from: String,
    to: String,
    amount: i64,
}

/// To the sender of a transfer: the receiver has it.
#[derive(Serialize, Deserialize)]
struct Confirm {
    sender: String,
}

impl Message for Credit {
    const TYPE: &'static str = "credit";
}

impl Message for Confirm {
    const TYPE: &'static str = "confirm";
}

/// The bank, whose nodes transfer and write.
#[derive(Default)]
pub(super) struct Bank {
    gate: Gate,
    documents: OnceLock<ContainerClient<Documents>>,
}

#[async_trait(?Send)]
impl Workload for Bank {
    fn about(&self) -> About {
        About::always("bank", "Leases, and transfers by outbox and inbox")
    }

    fn container(&self) -> Option<&'static str> {
        Some(BANK)
    }

    /// Creates the accounts and counters.
    async fn prepare(&self, outside: &CosmosClient) -> Result<(), String> {
        let documents = open(outside, BANK).await?;
        for number in 0..PLACES {
            let account = Account {
                place: place("account", number),
                balance: 0,
                sent: 0,
                received: 0,
                confirmed: 0,
            };
            keep_trying(|| documents.create_if_missing(&account)).await?;
            let counter = Counter {
                place: place("counter", number),
                written: 0,
                count: 0,
                lease: Lease::free(),
            };
            keep_trying(|| documents.create_if_missing(&counter)).await?;
        }
        self.documents.get_or_init(|| documents);
        Ok(())
    }

    fn join<'a>(&'a self, node: &'a StartingNode<'a>) -> Joining<'a> {
        Box::pin(async move {
            let (bank, name) = (node.open(BANK).await?, node.name());
            let messaging = messaging(&bank, node.config.pace, node.number, node.handling.clone());
            let random =
                |purpose| Random::new(u64::from(node.number), &format!("{purpose} {name}"));
            let mut tasks = JoinSet::new();
            let gate = self.gate.clone();
            tasks.spawn(transfer_all(
                messaging.clone(),
                name.clone(),
                random("bank"),
                gate,
            ));
            let leases = Leases::new(&bank, name.clone()).with_duration(LEASE);
            tasks.spawn(write_all(leases, random("leases"), self.gate.clone()));
            Ok::<Part, String>(Some(Box::new((tasks, messaging))))
        })
    }

    /// Lets the nodes work, and judges.
    async fn run(&self, caller: &Caller) -> Seen {
        self.gate.open_until_end(caller).await;
        let deadline = Instant::now() + BOUND;
        loop {
            let unfinished = keep_trying(|| self.unfinished()).await;
            let unfinished = unfinished
                .unwrap_or_else(|error| vec![format!("the bank cannot be read: {error}")]);
            if unfinished.is_empty() || Instant::now() >= deadline {
                return Seen::of(unfinished);
            }
            sleep(Duration::from_secs(5)).await;
        }
    }
}

impl Bank {
    /// Returns transfers that did not take place exactly once, and counters that two holders wrote.
    async fn unfinished(&self) -> Result<Vec<String>, cdb_client::Error> {
        let documents = self.documents.get().expect("it is prepared");
        let (mut problems, mut sums, mut balance) = (Vec::new(), [0; 3], 0);
        for account in read_all::<_, Account>(documents).await? {
            let counts = [account.sent, account.received, account.confirmed];
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum += count;
            }
            balance += account.balance;
        }
        let receipts = read_all::<_, Receipt>(documents).await?.len() as u64;
        if sums != [receipts; 3] || balance != 0 {
            let [sent, received, confirmed] = sums;
            problems.push(format!(
                "account-*: {sent} transfers are sent, {received} received, {confirmed} confirmed, \
                 with {receipts} receipts and a balance of {balance}"
            ));
        }
        for counter in read_all::<_, Counter>(documents).await? {
            let Counter {
                place,
                written,
                count,
                ..
            } = counter;
            if written != count {
                problems.push(format!("{place}: {written} is written, {count} counted"));
            }
        }
        Ok(problems)
    }
}

fn place(kind: &str, number: usize) -> String {
    format!("{kind}-{number}")
}

fn messaging(
    bank: &ContainerClient<Documents>,
    pace: Pace,
    node: u32,
    handling: Handling,
) -> Messaging<Documents> {
    // Refused requests cost attempts, and no message may become a dead letter.
    let retry = RetryPolicy::default().with_max_attempts(10_000);
    let config = MessagingConfig::default()
        .with_retry(retry)
        .with_poll_interval(pace.messages());
    Messaging::builder(bank.clone())
        .config(config)
        .on(move |message: Received<Credit>, batch| {
            let account = (BANK, message.message.to.clone());
            let running = handling.begin(
                HandledMessage {
                    of_stream: None,
                    name: format!("transfer {}", message.message.transfer),
                    place: account,
                },
                node,
            );
            async move {
                // Some transfers take longer than the claims of 2 s and 30 s.
                sleep(work_of(&message.message)).await;
                let done = credit(message, batch);
                running.end(done.is_ok());
                done
            }
        })
        .on(confirm)
        .start()
        .expect("the durations fit")
}

/// Returns how long a transfer takes its receiver.
fn work_of(credit: &Credit) -> Duration {
    Duration::from_secs(match credit.amount % 10 {
        0 | 1 => 5,
        2 => 12,
        3 => 40,
        _ => 0,
    })
}

fn credit(message: Received<Credit>, mut batch: OutboxBatch<Documents>) -> Handled<Documents> {
    let Credit {
        transfer,
        from,
        to,
        amount,
    } = message.message;
    let patch = Patch::new()
        .incr(Account::BALANCE, amount)
        .incr(Account::RECEIVED, 1);
    batch.add(patch.at(&AccountKey::new(&*to)))?;
    let receipt = Receipt {
        place: to,
        transfer,
    };
    batch.add(receipt.create())?;
    let sender = from.clone();
    batch.send(from, &Confirm { sender })?;
    Ok(batch)
}

async fn confirm(
    message: Received<Confirm>,
    mut batch: OutboxBatch<Documents>,
) -> Handled<Documents> {
    let patch = Patch::new().incr(Account::CONFIRMED, 1);
    let account = AccountKey::new(message.message.sender);
    batch.add(patch.at(&account))?;
    Ok(batch)
}

/// Waits until the bank is open.
async fn closed(gate: &Gate) {
    while !gate.is_open() {
        sleep(Duration::from_secs(60)).await;
    }
}

/// Transfers between accounts. A failed commit may have taken place; the account knows.
async fn transfer_all(
    messaging: Messaging<Documents>,
    name: String,
    mut random: Random,
    gate: Gate,
) {
    for number in 0_u64.. {
        sleep(random.duration(SECOND..Duration::from_secs(600))).await;
        closed(&gate).await;
        let credit = Credit {
            transfer: format!("{name}-{number}"),
            from: place("account", random.below(PLACES)),
            to: place("account", random.below(PLACES)),
            amount: 1 + i64::try_from(random.below(100)).unwrap_or(0),
        };
        // The judgement compares what the accounts have sent and received.
        let _unknown = transfer(&messaging, &credit).await;
    }
}

async fn transfer(messaging: &Messaging<Documents>, credit: &Credit) -> Result<(), OutboxError> {
    let mut batch = messaging.batch(&*credit.from);
    let patch = Patch::new()
        .incr(Account::BALANCE, -credit.amount)
        .incr(Account::SENT, 1);
    let account = AccountKey::new(&*credit.from);
    batch.add(patch.at(&account))?;
    batch.send(&*credit.to, credit).expect("a transfer is JSON");
    messaging.commit(batch).await
}

/// Leases counters and writes them. Some holders take longer than their lease.
async fn write_all(leases: Leases<Documents, Counter>, mut random: Random, gate: Gate) {
    loop {
        sleep(random.duration(SECOND..Duration::from_secs(300))).await;
        closed(&gate).await;
        let key = CounterKey::new(place("counter", random.below(PLACES)));
        let Ok(mut guard) = leases.acquire(&key).await else {
            continue;
        };
        let mut written = guard.document().written;
        for _ in 0..3 {
            sleep(random.duration(Duration::ZERO..LEASE * 3 / 2)).await;
            written += 1;
            let patch = Patch::new()
                .set(Counter::WRITTEN, written)
                .incr(Counter::COUNT, 1);
            if guard.run(patch).await.is_err() {
                break;
            }
        }
        // A lease that is not released expires.
        let _lost = guard.release().await;
    }
}
