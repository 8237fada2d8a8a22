//! Faults: an emulator that fails one request in ten, in six ways.

use cdb_client::ContainerClient;
use cdb_emulator::{Effect, Fault};
use cdb_model::{Batch, Document, Patch, Query};

use crate::account::Account;
use crate::shop::{Order, Profile, Shop, order, profile};

/// Every sixtieth request in each way: refused, throttled, lost before or after execution, timed
/// out before or after it.
fn faults() -> [Fault; 6] {
    let status = |status, substatus, retry_after_ms| Effect::Status {
        status,
        substatus,
        retry_after_ms,
    };
    [
        status(503, 0, None),
        status(429, 3200, Some(3)),
        status(408, 0, None),
        Effect::DropRequest,
        Effect::DropAnswer,
        Effect::StatusAfterEffect { status: 500 },
    ]
    .map(|effect| Fault::with_probability(effect, 1.0 / 60.0))
}

/// An account with faults, if it is the emulator.
async fn failing() -> Option<(Account, ContainerClient<Shop>)> {
    let (account, shop) = Account::with_shop().await;
    let Some(emulator) = account.emulator() else {
        eprintln!("skipped: a real account does not fail on demand");
        return None;
    };
    for fault in faults() {
        emulator.inject(fault);
    }
    Some((account, shop))
}

/// Creates one document; resolves an ambiguous outcome by reading. Returns the number of ambiguous
/// outcomes.
async fn create_exactly_once(shop: &ContainerClient<Shop>, order: &Order) -> u32 {
    let partition = order.partition_key();
    for resolved in 0.. {
        match shop.run(order.create()).await {
            Err(error) if error.is_ambiguous() => {
                let stored = ok!(shop.read(order.key().in_partition(&partition)));
                if stored.is_some() {
                    return resolved + 1;
                }
            }
            created => {
                created.unwrap();
                return resolved;
            }
        }
    }
    unreachable!("the loop ends by returning")
}

#[tokio::test]
async fn creates_are_exactly_once_when_ambiguous_outcomes_are_read() {
    let (_account, shop) = or_skip!(failing().await);
    let mut resolved = 0;
    for number in 0..600 {
        resolved +=
            create_exactly_once(&shop, &order(&format!("customer-{}", number % 7), number)).await;
    }
    let count = Query::<Order>::across_partitions().count();
    assert_eq!(shop.query(count).first().await.unwrap(), Some(600));
    assert!(
        resolved > 0,
        "no outcome was ever open, so this showed nothing"
    );
}

#[tokio::test]
async fn batches_are_exactly_once_when_ambiguous_outcomes_are_read() {
    let (_account, shop) = or_skip!(failing().await);
    let counter = order("ann", 1_000_000);
    create_exactly_once(&shop, &counter).await;
    for number in 0..300 {
        let mut batch = Batch::<Shop>::new("ann");
        batch.add(order("ann", number).create()).unwrap();
        let count = Patch::<Order>::new().incr(Order::VIEW_COUNT, 1);
        batch.add(count.at(&counter.key())).unwrap();
        while let Err(error) = shop.execute(&batch).await {
            assert!(error.is_ambiguous(), "{error}");
            let key = order("ann", number).key();
            if shop.read(key.in_partition("ann")).await.unwrap().is_some() {
                break;
            }
        }
    }
    let stored = shop.read(counter.key().in_partition("ann")).await.unwrap();
    assert_eq!(stored.unwrap().document.view_count, 300);
}

#[tokio::test]
async fn repeatable_requests_never_fail() {
    let (_account, shop) = or_skip!(failing().await);
    for round in 0..60 {
        let name = format!("round {round}");
        let ann = Profile {
            name,
            ..profile("ann")
        };
        shop.run(ann.upsert()).await.unwrap();
        let stored = shop.read(&ann.key()).await.unwrap().unwrap();
        assert_eq!(stored.document, ann);
        shop.run(order("ann", round).upsert()).await.unwrap();
        let orders = Query::<Order>::across_partitions().order_by(Order::PLACED_AT.asc());
        let rows = shop.query(orders).page_size(9).all().await.unwrap();
        assert_eq!(u64::try_from(rows.len()).unwrap(), round + 1);
    }
    shop.run(profile("ann").key().delete()).await.unwrap();
    assert!(shop.read(&profile("ann").key()).await.unwrap().is_none());
}
