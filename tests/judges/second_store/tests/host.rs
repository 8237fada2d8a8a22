//! The host answers what the suites need most.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use cdb_client::feed::FeedStart;
use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_model::{Batch, Container, Document, Patch, Query};
use cdb_second_store::{Host, KEY, Partitions};
use serde::{Deserialize, Serialize};

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[document(type = "order", id = "{customer}:order:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u32,
    #[document(index)]
    cents: u64,
}

#[derive(Container, Clone, Debug, PartialEq)]
enum Shop {
    Order(Order),
}

fn order(number: u32, cents: u64) -> Order {
    Order {
        customer: "ada".to_owned(),
        number,
        cents,
    }
}

async fn shop(partitions: Partitions) -> (Host, ContainerClient<Shop>) {
    let host = Host::start(partitions).await.unwrap();
    let client = CosmosClient::builder(host.endpoint());
    let client = client.credential(MasterKey::new(KEY).unwrap());
    let database = client.build().unwrap().database("host");
    let shop = database.bootstrap("shop", Bootstrap::CreateIfMissing);
    let shop = shop.await.unwrap();
    (host, shop)
}

#[tokio::test]
async fn documents_are_written_read_queried_and_fed() {
    for (partitions, count) in [(Partitions::One, 1), (Partitions::Four, 4)] {
        let (_host, shop) = shop(partitions).await;
        assert_eq!(shop.physical_partitions().await.unwrap().len(), count);
        write_and_find(&shop).await;
    }
}

async fn write_and_find(shop: &ContainerClient<Shop>) {
    shop.run(order(1, 990).create()).await.unwrap();
    let found = shop.read(&order(1, 0).key()).await.unwrap();
    assert_eq!(found.unwrap().document, order(1, 990));
    let query = Query::<Order>::in_partition("ada").filter(Order::CENTS.eq(990_u64));
    assert_eq!(shop.query(query).all().await.unwrap().len(), 1);
    let mut feed = shop.change_feed(FeedStart::Beginning);
    assert_eq!(feed.next_changes().await.unwrap().len(), 1);
}

/// The condition is judged on what the batch wrote before.
#[tokio::test]
async fn a_conditional_patch_in_a_batch_sees_the_writes_of_the_batch() {
    let (_host, shop) = shop(Partitions::Four).await;
    shop.run(order(1, 100).create()).await.unwrap();
    let twice = |expected: u64| {
        let mut batch = Batch::<Shop>::new("ada");
        let raised = Patch::<Order>::new().incr(Order::CENTS, 1);
        batch.add(raised.at(&order(1, 0).key())).unwrap();
        let raised = raised.when(Order::CENTS.eq(expected));
        batch.add(raised.at(&order(1, 0).key())).unwrap();
        batch
    };
    let failed = shop.execute(&twice(100)).await.unwrap_err();
    assert!(failed.is_precondition_failed(), "{failed}");
    shop.execute(&twice(101)).await.unwrap();
    let found = shop.read(&order(1, 0).key()).await.unwrap();
    assert_eq!(found.unwrap().document.cents, 102);
}
