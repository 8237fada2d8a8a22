//! A store of contract negotiations, as the connectors of a data space use it. Two independent
//! connectors take thirty negotiations from request to agreement. A third connector dies while it
//! holds some of them.
//!
//! `cargo run -p cdb-coordination --example contract_negotiation`; on an account with
//! `COSMOS_ENDPOINT` and `COSMOS_KEY`.

mod negotiation;
mod store;

use std::error::Error;
use std::time::Duration;

use cdb_client::{Bootstrap, ConnectionString};
use cdb_emulator::Emulator;

use negotiation::{ContractNegotiation, Dataspace, State};
use store::NegotiationStore;

const NEGOTIATIONS: u32 = 30;

/// Short, so that the example does not wait for a minute after the connector dies.
const LEASE: Duration = Duration::from_secs(2);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let emulator = Emulator::builder().physical_partitions(2).start().await?;
    let account = ConnectionString::from_env_or(&emulator.connection_string())?;
    let open = async |holder: &str| -> Result<NegotiationStore, Box<dyn Error>> {
        let client = account.client()?.build()?;
        let container = client
            .database("dataspace")
            .bootstrap::<Dataspace>("negotiations", Bootstrap::CreateIfMissing)
            .await?;
        Ok(NegotiationStore::new(&container, holder, LEASE))
    };

    let (first, second) = (open("connector-1").await?, open("connector-2").await?);
    for number in 0..NEGOTIATIONS {
        let id = format!("negotiation-{number}");
        let negotiation = ContractNegotiation::requested(&id, "did:web:provider", first.now());
        first.create(negotiation).await?;
    }
    show("requested", &first).await?;

    let mut refused = first.lease("negotiation-7").await?;
    first
        .failed(&mut refused, "the provider does not answer")
        .await?;
    first.terminate(refused).await?;

    let dying = open("connector-3").await?;
    let lost = dying.next_for_state(State::Requested, 5).await?;
    println!("connector-3 takes {} of them and dies", lost.len());
    lost.into_iter().for_each(std::mem::forget);

    tokio::try_join!(carry_on(&first), carry_on(&second))?;
    show("carried on", &first).await?;
    let agreed = first.count(State::Agreed).await?;
    assert_eq!(
        agreed,
        u64::from(NEGOTIATIONS) - 1,
        "all but the terminated negotiation"
    );

    let latest = first.latest(State::Agreed, 3).await?;
    println!("the latest: {}", latest.join(", "));
    let terminated = first
        .find("negotiation-7")
        .await?
        .map(|found| found.document);
    if let Some(detail) = terminated.and_then(|negotiation| negotiation.error_detail) {
        println!("negotiation-7 was terminated: {detail}");
    }
    Ok(())
}

/// Works until all negotiations have ended: answers requests with offers, and offers with
/// agreements.
async fn carry_on(store: &NegotiationStore) -> Result<(), Box<dyn Error>> {
    loop {
        let requested = store.next_for_state(State::Requested, 4).await?;
        let offered = store.next_for_state(State::Offered, 4).await?;
        if requested.is_empty() && offered.is_empty() {
            let left = store.count(State::Requested).await? + store.count(State::Offered).await?;
            if left == 0 {
                return Ok(());
            }
            // The other connector holds the rest, until it releases them or its leases expire.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for negotiation in requested {
            store.offer(negotiation).await?;
        }
        for negotiation in offered {
            store.agree(negotiation).await?;
        }
    }
}

async fn show(when: &str, store: &NegotiationStore) -> Result<(), Box<dyn Error>> {
    let counts = store.counts().await?;
    let counts = counts
        .iter()
        .map(|(state, count)| format!("{count} {state:?}"));
    println!("{when}: {}", counts.collect::<Vec<_>>().join(", "));
    Ok(())
}
