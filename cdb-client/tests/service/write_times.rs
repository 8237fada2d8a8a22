//! The times of writes: what the service stores after each kind of write.

use std::time::Duration;

use cdb_client::{ContainerClient, measure_charge};
use cdb_model::operation::BulkBatch;
use cdb_model::{Batch, Container, Document, Patch, Query, Timestamp};
use serde::{Deserialize, Serialize};

use crate::account::Account;

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{customer}:order:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    state: String,
    #[document(created_at)]
    created_at: Option<Timestamp>,
    #[document(updated_at, index)]
    updated_at: Option<Timestamp>,
}

/// The same without times.
#[derive(Document, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[document(type = "plain", id = "{customer}:plain:{number}")]
struct Plain {
    #[document(partition_key)]
    customer: String,
    number: u64,
    state: String,
}

#[derive(Container)]
enum Shop {
    Order(Order),
    Plain(Plain),
}

fn order(number: u64) -> Order {
    Order {
        customer: "ann".to_owned(),
        number,
        state: "open".to_owned(),
        created_at: None,
        updated_at: None,
    }
}

fn paid() -> Patch<Order> {
    Patch::new().set(Order::STATE, "paid")
}

/// Returns the times of creation and of the last write.
async fn times(shop: &ContainerClient<Shop>, number: u64) -> (Timestamp, Timestamp) {
    let stored = shop.read(&order(number).key()).await.unwrap().unwrap();
    (stored.created_at.unwrap(), stored.updated_at.unwrap())
}

/// Waits until the next write has a later time.
async fn later(shop: &ContainerClient<Shop>) {
    let before = shop.now();
    while shop.now() <= before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn every_kind_of_write_sets_its_time() {
    let account = Account::new().await;
    let shop: ContainerClient<Shop> = account.open("shop").await;
    shop.run(order(1).create()).await.unwrap();
    let (created, updated) = times(&shop, 1).await;
    assert_eq!(created, updated);
    assert!(
        shop.now().since(created) < Duration::from_secs(60),
        "{created}"
    );

    later(&shop).await;
    let key = order(1).key();
    shop.run(paid().at(&key)).await.unwrap();
    let patched = times(&shop, 1).await;
    assert_eq!(patched.0, created);
    assert!(patched.1 > updated);

    later(&shop).await;
    let stored = shop.read(&key).await.unwrap().unwrap();
    ok!(shop.run(stored.document.replace().if_match(&stored.etag)));
    let replaced = times(&shop, 1).await;
    assert_eq!(
        replaced.0, created,
        "a document that was read keeps its time of creation"
    );
    assert!(replaced.1 > patched.1);

    later(&shop).await;
    shop.run(order(1).upsert()).await.unwrap();
    let upserted = times(&shop, 1).await;
    assert!(upserted.0 > created, "a new document in its place");
}

#[tokio::test]
async fn the_operations_of_a_batch_have_one_time() {
    let account = Account::new().await;
    let shop: ContainerClient<Shop> = account.open("shop").await;
    shop.run(order(1).create()).await.unwrap();
    let first = times(&shop, 1).await;
    later(&shop).await;
    let mut batch = Batch::<Shop>::new("ann");
    batch.add(paid().at(&order(1).key())).unwrap();
    batch.add(order(2).create()).unwrap();
    later(&shop).await;
    shop.execute(&batch).await.unwrap();
    let (one, two) = (times(&shop, 1).await, times(&shop, 2).await);
    assert_eq!((one.0, one.1), (first.0, two.1));
    assert_eq!(two.0, two.1);

    let mut bulk = BulkBatch::<Shop>::new();
    bulk.add(order(3).create()).unwrap();
    let stored = shop.read(&order(2).key()).await.unwrap().unwrap();
    bulk.add(paid().at(&stored)).unwrap();
    later(&shop).await;
    for result in shop.execute_bulk(&bulk).await {
        result.unwrap();
    }
    let three = times(&shop, 3).await;
    assert_eq!(times(&shop, 2).await, (two.0, three.1));

    let recent = Query::<Order>::in_partition("ann").filter(Order::UPDATED_AT.ge(Some(three.1)));
    assert_eq!(shop.query(recent).all().await.unwrap().len(), 2);
}

#[tokio::test]
async fn the_times_cost_what_the_docs_say() {
    let account = Account::new().await;
    let shop: ContainerClient<Shop> = account.open("shop").await;
    let plain = Plain {
        customer: "ann".to_owned(),
        number: 1,
        state: "open".to_owned(),
    };
    let charges = [
        measure_charge(shop.run(order(1).create())).await.1,
        measure_charge(shop.run(plain.create())).await.1,
    ];
    let docs = include_str!("../../../docs/writing.md");
    let text = format!(
        "costs {:.2} RU instead of {:.2} without times",
        charges[0], charges[1]
    );
    if account.emulator().is_some() {
        assert!(docs.contains(&text), "{text}");
    }
}
