//! The change feed.

use std::collections::{BTreeMap, BTreeSet};

use cdb_client::feed::{Change, ChangeFeed, FeedCursor, FeedStart, VersionRow};
use cdb_model::{Document, DocumentKey, Query};
use futures::TryStreamExt as _;

use crate::account::Account;
use crate::catalog::Numbers;
use crate::shop::{Order, OrderKey, Shop, order};

async fn drain(feed: &mut ChangeFeed<Shop>) -> BTreeSet<u64> {
    let pages: Vec<_> = feed.stream().try_collect().await.unwrap();
    let rows = pages.into_iter().flatten();
    let numbers = rows.filter_map(|row| match row.row.unwrap().document {
        Shop::Order(order) => Some(order.number),
        Shop::Profile(_) => None,
    });
    numbers.collect()
}

#[tokio::test]
async fn the_feed_returns_all_changes_once_and_later_ones_after() {
    let (_account, shop) = Account::with_shop().await;
    for number in 0..12 {
        shop.run(order(&format!("customer-{number}"), number).create())
            .await
            .unwrap();
    }
    let mut from_now = shop.change_feed(FeedStart::Now);
    from_now.next_changes().await.unwrap();
    let mut feed = shop.change_feed(FeedStart::Beginning).page_size(2);
    assert_eq!(drain(&mut feed).await, (0..12).collect());

    shop.run(order("customer-5", 5).upsert()).await.unwrap();
    shop.run(order("customer-5", 99).create()).await.unwrap();
    let mut resumed = shop.resume_change_feed(feed.cursor().clone());
    assert_eq!(drain(&mut resumed).await, BTreeSet::from([5, 99]));
    assert_eq!(drain(&mut from_now).await, BTreeSet::from([5, 99]));
}

/// The orders that a reader of all versions knows, each with the number of its last transaction.
#[derive(Default)]
struct Replica(BTreeMap<u64, (Order, u64)>);

impl Replica {
    fn apply(&mut self, row: VersionRow<Shop>) {
        let order = |document| match document {
            Shop::Order(order) => order,
            other @ Shop::Profile(_) => panic!("{other:?}"),
        };
        match row.change {
            Change::Created(stored) => {
                let order = order(stored.unwrap().document);
                let before = self.0.insert(order.number, (order, row.lsn));
                assert_eq!((before, row.previous_lsn), (None, None));
            }
            Change::Replaced { current, .. } => {
                let order = order(current.unwrap().document);
                let before = self.0.insert(order.number, (order, row.lsn));
                assert_eq!(before.map(|(_, lsn)| lsn), row.previous_lsn);
            }
            Change::Deleted {
                id,
                partition_key,
                expired,
                ..
            } => {
                let number = OrderKey::parse(&id).unwrap().number;
                let (order, lsn) = self.0.remove(&number).unwrap();
                assert_eq!(Some(lsn), row.previous_lsn);
                assert_eq!(
                    (partition_key, expired),
                    (Some(order.partition_key()), false)
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_feed_of_all_versions_rebuilds_the_container_across_restarts_and_splits() {
    let account = Account::new().await;
    let emulator = or_skip!(account.emulator(), "the account may lack the feature");
    let shop = account.shop().await;
    shop.run(order("before", 500).create()).await.unwrap();
    let mut feed = shop.versions_feed().page_size(3);
    assert!(feed.next_rows().await.unwrap().is_empty());
    ok!(shop.run(OrderKey::new(500).in_partition("before").delete()));
    let rows = feed.next_rows().await.unwrap();
    assert!(matches!(rows[0].change, Change::Deleted { .. }), "{rows:?}");

    let mut random = Numbers(5);
    let mut replica = Replica::default();
    let (mut rows_read, mut writes) = (0, 0);
    for step in 0..300 {
        let number = random.below(20);
        let mut order = order(&format!("customer-{number}"), number);
        order.placed_at = random.below(9);
        if random.below(3) == 0 {
            let deleted = shop.run(order.address().delete()).await;
            writes += usize::from(deleted.is_ok());
        } else {
            shop.run(order.upsert()).await.unwrap();
            writes += 1;
        }
        if step == 150 {
            let name = account.database.name();
            let first = shop.physical_partitions().await.unwrap()[0].to_string();
            emulator.split(name, "shop", &first).unwrap();
        }
        if step % 20 == 0 {
            for row in feed.next_rows().await.unwrap() {
                rows_read += 1;
                replica.apply(row);
            }
            // A restart at the stored position.
            let stored = serde_json::to_string(feed.cursor()).unwrap();
            let cursor: FeedCursor = serde_json::from_str(&stored).unwrap();
            feed = shop.resume_feed(cursor).page_size(3);
        }
    }
    loop {
        let rows = feed.next_rows().await.unwrap();
        if rows.is_empty() {
            break;
        }
        rows_read += rows.len();
        for row in rows {
            replica.apply(row);
        }
    }
    assert_eq!(rows_read, writes);
    let stored = shop.query(Query::<Order>::across_partitions()).all().await;
    let stored = stored.unwrap().into_iter().map(|stored| stored.document);
    let stored: BTreeMap<u64, Order> = stored.map(|order| (order.number, order)).collect();
    let known = replica.0.into_iter();
    let known: BTreeMap<u64, Order> = known.map(|(number, (order, _))| (number, order)).collect();
    assert_eq!(known, stored);
}
