//! The change feed.

use std::collections::BTreeSet;

use cdb_client::{ChangeFeed, FeedStart};

use crate::account::Account;
use crate::shop::{Shop, order};

async fn drain(feed: &mut ChangeFeed<Shop>) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    loop {
        let changes = feed.next_changes().await.unwrap();
        if changes.is_empty() {
            return numbers;
        }
        for change in changes {
            if let Shop::Order(order) = change.document {
                numbers.insert(order.number);
            }
        }
    }
}

#[tokio::test]
async fn the_feed_returns_all_changes_once_and_later_ones_after() {
    let account = Account::new().await;
    let shop = account.shop().await;
    for number in 0..12 {
        shop.create(&order(&format!("customer-{number}"), number))
            .await
            .unwrap();
    }
    let mut from_now = shop.change_feed(FeedStart::Now);
    from_now.next_changes().await.unwrap();
    let mut feed = shop.change_feed(FeedStart::Beginning).page_size(2);
    assert_eq!(drain(&mut feed).await, (0..12).collect());

    shop.upsert(&order("customer-5", 5)).await.unwrap();
    shop.create(&order("customer-5", 99)).await.unwrap();
    let mut resumed = shop.resume_change_feed(feed.cursor().clone());
    assert_eq!(drain(&mut resumed).await, BTreeSet::from([5, 99]));
    assert_eq!(drain(&mut from_now).await, BTreeSet::from([5, 99]));
    account.end().await;
}
