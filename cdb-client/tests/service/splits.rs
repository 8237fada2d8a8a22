//! Splits of physical partitions while a client works: no row is lost or repeated.

use std::collections::BTreeSet;

use cdb_client::feed::{ChangeFeed, FeedStart};
use cdb_client::{Bootstrap, ContainerClient};
use cdb_emulator::Emulator;
use cdb_model::container::{ContainerDefinition, DefaultTtl};
use cdb_model::document::DecodeError;
use cdb_model::operation::BulkBatch;
use cdb_model::shape::DocumentShape;
use cdb_model::{Container, Document as _, PartitionKey, Query};

use crate::account::Account;
use crate::shop::{Order, OrderKey, Shop, order};

const SHOP: &str = "shop";

/// Creates one order for each of these customers, in one bulk.
async fn place(shop: &ContainerClient<Shop>, numbers: std::ops::Range<u64>) {
    place_for(shop, numbers, |number| format!("customer-{number}")).await;
}

async fn place_for(
    shop: &ContainerClient<Shop>,
    numbers: std::ops::Range<u64>,
    customer_of: fn(u64) -> String,
) {
    let mut bulk = BulkBatch::<Shop>::new();
    for number in numbers {
        let customer = customer_of(number);
        bulk.add(order(&customer, number).create()).unwrap();
    }
    for result in shop.execute_bulk(&bulk).await {
        result.unwrap();
    }
}

/// Returns the orders of all customers from a sorted query across physical partitions.
async fn found(shop: &ContainerClient<Shop>) -> Vec<u64> {
    let all = Query::<Order>::across_partitions().order_by(Order::PLACED_AT.asc());
    let rows = shop.query(all).page_size(7).all().await.unwrap();
    let times: Vec<u64> = rows.iter().map(|row| row.document.placed_at).collect();
    assert!(times.is_sorted(), "{times:?}");
    let mut numbers: Vec<u64> = rows.iter().map(|row| row.document.number).collect();
    numbers.sort_unstable();
    numbers
}

async fn drain(feed: &mut ChangeFeed<Shop>) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        let changes = feed.next_changes().await.unwrap();
        if changes.is_empty() {
            numbers.sort_unstable();
            return numbers;
        }
        for change in changes {
            if let Shop::Order(order) = change.document {
                numbers.push(order.number);
            }
        }
    }
}

/// Splits the physical partition with this id.
fn split(emulator: &Emulator, account: &Account, id: &str) -> [String; 2] {
    emulator.split(account.database.name(), SHOP, id).unwrap()
}

#[tokio::test]
async fn queries_bulks_and_the_change_feed_work_across_splits() {
    let account = Account::new().await;
    let emulator = or_skip!(account.emulator(), "needs the emulator");
    let shop = account.shop().await;
    place(&shop, 0..40).await;
    let mut feed = shop.change_feed(FeedStart::Beginning).page_size(5);
    assert_eq!(drain(&mut feed).await, (0..40).collect::<Vec<u64>>());
    assert_eq!(shop.physical_partitions().await.unwrap().len(), 4);

    let [low, _] = split(emulator, &account, "0");
    split(emulator, &account, "3");
    assert_eq!(found(&shop).await, (0..40).collect::<Vec<u64>>());
    let known: BTreeSet<String> = shop
        .physical_partitions()
        .await
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(known.len(), 6, "{known:?}");
    assert!(known.contains(&low), "{known:?}");

    split(emulator, &account, "1");
    place(&shop, 40..80).await;
    split(emulator, &account, "2");
    assert_eq!(drain(&mut feed).await, (40..80).collect::<Vec<u64>>());
    split(emulator, &account, &low);
    let mut resumed = shop.resume_change_feed(feed.cursor().clone());
    assert!(drain(&mut resumed).await.is_empty());
    assert_eq!(found(&shop).await, (0..80).collect::<Vec<u64>>());
}

#[tokio::test]
async fn queries_bulks_and_the_change_feed_work_across_merges() {
    let account = Account::new().await;
    let emulator = or_skip!(account.emulator(), "needs the emulator");
    let shop = account.shop().await;
    place(&shop, 0..40).await;
    let mut feed = shop.change_feed(FeedStart::Beginning).page_size(1);
    let begun = feed.next_changes().await.unwrap().len();
    let position = feed.cursor().clone();
    let merge = |ids| emulator.merge(account.database.name(), SHOP, ids).unwrap();
    let low = merge(["0", "1"]);
    assert_eq!(found(&shop).await, (0..40).collect::<Vec<u64>>());
    place(&shop, 40..60).await;
    // Both parents continue at their own positions: no change is read twice.
    assert_eq!(drain(&mut feed).await.len(), 60 - begun);
    merge([&low, "2"]);
    let mut shares = Vec::new();
    for part in position.parts(9) {
        let share = drain(&mut shop.resume_change_feed(part)).await;
        assert!((1..60).contains(&share.len()), "{share:?}");
        shares.extend(share);
    }
    assert_eq!(shares.len(), 60 - begun);
    assert!(drain(&mut feed).await.is_empty());
    assert_eq!(found(&shop).await, (0..60).collect::<Vec<u64>>());
}

/// The model of [`Shop`] with partition key version 1, as old tools create it.
#[derive(Debug)]
enum OldShop {}

impl Container for OldShop {
    const NAME: &'static str = "OldShop";
    const DISCRIMINATOR: &'static str = Shop::DISCRIMINATOR;
    const PARTITION_KEY: &'static [&'static str] = Shop::PARTITION_KEY;
    const DOCUMENTS: &'static [&'static DocumentShape] = &[];
    const DEFAULT_TTL: DefaultTtl = Shop::DEFAULT_TTL;

    fn decode(discriminator: &str, _: &str) -> Result<Self, DecodeError> {
        Err(DecodeError::UnknownType {
            container: Self::NAME,
            discriminator: discriminator.to_owned(),
        })
    }

    fn shape(&self) -> &'static DocumentShape {
        match *self {}
    }

    fn definition() -> ContainerDefinition {
        let mut definition = Shop::definition();
        definition.partition_key.version = 1;
        definition
    }
}

#[tokio::test]
async fn a_container_of_partition_key_version_1_works_across_splits() {
    let account = Account::new().await;
    let emulator = or_skip!(account.emulator(), "needs the emulator");
    let create = account
        .database
        .bootstrap::<OldShop>(SHOP, Bootstrap::CreateIfMissing);
    create.await.unwrap();
    let differences = account.database.differences::<Shop>(SHOP).await.unwrap();
    assert_eq!(differences.len(), 1);
    let text = differences[0].to_string();
    assert!(text.contains("version 1"), "{text}");
    assert!(text.contains("101 bytes"), "{text}");
    let shop = account.shop().await;
    let mut feed = shop.change_feed(FeedStart::Beginning);
    place(&shop, 0..40).await;
    assert_eq!(found(&shop).await, (0..40).collect::<Vec<u64>>());
    for range in ["0", "1", "2", "3"] {
        split(emulator, &account, range);
    }
    place(&shop, 40..80).await;
    assert_eq!(found(&shop).await, (0..80).collect::<Vec<u64>>());
    assert_eq!(drain(&mut feed).await, (0..80).collect::<Vec<u64>>());
    // Around the 100 characters that count, with characters of one to four bytes, of one and two units. The
    // emulator refuses operations of another partition, and has this hash from another source.
    place_for(&shop, 80..400, |number| {
        let length = usize::try_from(number / 4 % 20).unwrap();
        let last = ["a", "é", "東", "🚀"][usize::try_from(number % 4).unwrap()];
        format!("{:090}{}", number / 80, last.repeat(length))
    })
    .await;
    assert_eq!(found(&shop).await, (0..400).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_split_restarts_a_query_or_fails_its_next_page() {
    let account = Account::new().await;
    let emulator = or_skip!(account.emulator(), "needs the emulator");
    let shop = account.shop().await;
    place(&shop, 0..60).await;
    let all = Query::<Order>::across_partitions().order_by(Order::PLACED_AT.asc());
    let mut pages = shop.query(all).page_size(3).pages();
    assert!(pages.next_page().await.unwrap().is_some());
    for range in ["0", "1", "2", "3"] {
        split(emulator, &account, range);
    }
    let error = loop {
        match pages.next_page().await {
            Ok(page) => assert!(
                page.is_some(),
                "the pages ended without a word about the split"
            ),
            Err(error) => break error,
        }
    };
    assert!(error.is_partition_split(), "{error}");
    assert_eq!(found(&shop).await, (0..60).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_process_reads_its_own_writes_after_a_split() {
    let account = Account::new().await;
    let emulator = or_skip!(account.emulator(), "needs the emulator");
    let shop = account.shop().await;
    for number in 0..12 {
        let customer = format!("customer-{number}");
        let placed = order(&customer, number);
        shop.run(placed.create()).await.unwrap();
        if number % 4 == 3 {
            split(emulator, &account, &(number / 4).to_string());
        }
        let mine = Query::<Order>::in_partition(customer.as_str());
        let rows = shop.query(mine).all().await.unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].document, placed);
    }
}

#[tokio::test]
async fn documents_are_found_by_their_keys_after_a_split() {
    let account = Account::new().await;
    let emulator = or_skip!(account.emulator(), "needs the emulator");
    let shop = account.shop().await;
    place(&shop, 0..40).await;
    shop.physical_partitions().await.unwrap();
    split(emulator, &account, "0");
    split(emulator, &account, "3");
    let keys: Vec<_> = (0..40_u64)
        .map(|number| {
            (
                PartitionKey::from(format!("customer-{number}")),
                OrderKey::new(number),
            )
        })
        .collect();
    let found = shop
        .read_many(
            keys.iter()
                .map(|(partition, key)| key.in_partition(partition)),
        )
        .await
        .unwrap();
    let numbers: Vec<_> = found
        .into_iter()
        .flatten()
        .map(|order| order.number)
        .collect();
    assert_eq!(numbers, (0..40).collect::<Vec<u64>>());
}
