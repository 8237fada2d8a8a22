//! Money transfers as documents with a state. Workers lease the transfers in a state that meet
//! their criteria, and book them under the lease. One worker dies; others take its transfers over.
//!
//! `cargo run -p cdb-examples --bin transfers`

use std::{error::Error, time::Duration};

use cdb_provider::client::{ConnectionString, ContainerClient};
use cdb_provider::coordination::lease::LeaseGuard;
use cdb_provider::coordination::repository::Criteria;
use cdb_provider::coordination::{LeaseError, Leases};
use cdb_provider::model::operation::Lease;
use cdb_provider::model::{Batch, Container, Document, Patch, Query, Scalar};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Scalar, Serialize, Deserialize)]
enum State {
    Requested,
    Completed,
    Refused,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "transfer", id = "{branch}:transfer:{number}")]
struct Transfer {
    #[document(partition_key)]
    branch: String,
    number: u32,
    #[document(index)]
    cents: i64,
    #[document(index)]
    state: State,
    #[document(lease)]
    lease: Lease,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "account", id = "{branch}:account:{name}")]
struct Account {
    #[document(partition_key)]
    branch: String,
    name: String,
    #[document(index)]
    cents: i64,
}

#[derive(Container)]
#[container(partition_key = "/branch")]
enum Bank {
    Transfer(Transfer),
    Account(Account),
}

type Failure = Box<dyn Error + Send + Sync>;
type Client = ContainerClient<Bank>;
type Own = Leases<Bank, Transfer>;
type Held = LeaseGuard<Bank, Transfer>;

/// Leases transfers in a state that meet the criteria, those first that have been free for longest.
async fn next_for_state(leases: &Own, state: State, json: &str) -> Result<Vec<Held>, Failure> {
    let criteria: Criteria = serde_json::from_str(json)?;
    let query = criteria.across_partitions()?;
    let query = query.filter(Transfer::STATE.eq(state));
    Ok(leases.take_next(query, 2).await?)
}

/// Moves the money and the state in one batch, which takes place only under the lease.
async fn book(mut held: Held) -> Result<(), Failure> {
    let moved = |state| Patch::new().set(Transfer::STATE, state);
    let account = |name| AccountKey::new("berlin", name).patch();
    let cents = held.document().cents;
    let mut booking = Batch::new("berlin");
    let debit = account("ann").incr(Account::CENTS, -cents);
    booking.add(debit.when(Account::CENTS.ge(cents)))?;
    booking.add(account("bob").incr(Account::CENTS, cents))?;
    match held.run((moved(State::Completed), booking)).await {
        Err(LeaseError::Client(error)) if error.is_precondition_failed() => {
            held.release_with(moved(State::Refused)).await?;
        }
        Err(error) if error.is_lost() => {} // another worker has the transfer
        booked => booked.and(held.release().await)?,
    }
    Ok(())
}

async fn work(bank: &Client, name: &str, criteria: &str) -> Result<(), Failure> {
    let leases = Leases::new(bank, name).with_duration(Duration::from_secs(2));
    while count(bank, State::Requested).await? > 0 {
        for held in next_for_state(&leases, State::Requested, criteria).await? {
            println!("{name} leases transfer {}", held.document().number);
            book(held).await?;
        }
        tokio::time::sleep(Duration::from_millis(50)).await; // others may hold the rest
    }
    Ok(())
}

async fn count(bank: &Client, state: State) -> Result<u64, Failure> {
    let query = Query::across_partitions().filter(Transfer::STATE.eq(state));
    Ok(bank.query(query.count()).first().await?.unwrap_or(0))
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let emulator = cdb_emulator::Emulator::start().await?;
    let account = ConnectionString::parse(&emulator.connection_string())?;
    let cosmos = account.client()?.build()?;
    let bank: Client = cosmos.open("bank", "accounts").await?;
    let branch = || "berlin".to_owned();
    for (name, cents) in [("ann", 2_000), ("bob", 0)] {
        let (branch, name) = (branch(), name.to_owned());
        bank.run(
            Account {
                branch,
                name,
                cents,
            }
            .create(),
        )
        .await?;
    }
    for (number, cents) in (1..).zip([100, 5_000, 300, 700, 200]) {
        let (branch, state, lease) = (branch(), State::Requested, Lease::free());
        let transfer = Transfer {
            branch,
            number,
            cents,
            state,
            lease,
        };
        bank.run(transfer.create()).await?;
    }
    let dying = Leases::new(&bank, "dying").with_duration(Duration::from_secs(2));
    let taken = next_for_state(&dying, State::Requested, "{}").await?;
    taken.into_iter().for_each(std::mem::forget);
    let small = r#"{"filter": [{"field": "cents", "operator": "lt", "value": 500}]}"#;
    tokio::try_join!(work(&bank, "left", small), work(&bank, "right", "{}"))?;
    assert_eq!(count(&bank, State::Completed).await?, 4);
    assert_eq!(count(&bank, State::Refused).await?, 1); // ann has not so much
    Ok(())
}
