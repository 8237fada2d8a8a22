//! The change feed and the physical partitions.

use std::collections::BTreeSet;

use azure_data_cosmos::FeedScope;
use azure_data_cosmos::feed::ChangeFeedPageIterator;
use azure_data_cosmos::models::ChangeFeedItem;
use azure_data_cosmos::options::{ChangeFeedOptions, ChangeFeedStartFrom};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::account::Account;

/// Ids of the changes up to the end: the feed is at its end when every physical partition had
/// nothing.
async fn drain(feed: &mut ChangeFeedPageIterator<ChangeFeedItem<Value>>) -> BTreeSet<String> {
    let (mut ids, mut empty) = (BTreeSet::new(), 0);
    while empty < 4 {
        let page = feed
            .next()
            .await
            .expect("a feed has no end")
            .expect("a page");
        empty = if page.items().is_empty() {
            empty + 1
        } else {
            0
        };
        let documents = page
            .items()
            .iter()
            .filter_map(|item| item.current().cloned());
        ids.extend(documents.filter_map(|document| document["id"].as_str().map(str::to_owned)));
    }
    ids
}

#[tokio::test]
async fn the_change_feed_resumes_from_its_token() {
    let account = Account::start().await;
    let container = account.filled().await;
    let feed = |start, options| {
        container.query_change_feed::<Value>(FeedScope::full_container(), start, options)
    };
    let mut all = feed(ChangeFeedStartFrom::Beginning, None)
        .await
        .expect("a feed");
    assert_eq!(drain(&mut all).await.len(), 30);
    let token = all.to_continuation_token().expect("a token");
    container
        .upsert_item("p1", "new", json!({ "id": "new", "pk": "p1" }), None)
        .await
        .expect("an upsert");
    let options = ChangeFeedOptions::default().with_continuation_token(token);
    let mut later = feed(ChangeFeedStartFrom::Beginning, Some(options))
        .await
        .expect("a feed");
    assert_eq!(drain(&mut later).await, BTreeSet::from(["new".to_owned()]));
}

#[tokio::test]
async fn the_change_feed_of_one_partition_excludes_other_partitions() {
    let account = Account::start().await;
    let container = account.filled().await;
    let scope = FeedScope::partition("p4");
    let feed = container.query_change_feed::<Value>(scope, ChangeFeedStartFrom::Beginning, None);
    let expected = ["04", "14", "24"].map(str::to_owned);
    assert_eq!(
        drain(&mut feed.await.expect("a feed")).await,
        BTreeSet::from(expected)
    );
}

#[tokio::test]
async fn the_physical_partitions_share_the_documents() {
    let account = Account::start().await;
    let container = account.filled().await;
    let ranges = container.read_feed_ranges(None).await.expect("ranges");
    assert_eq!(ranges.len(), 3);
    let mut found = 0;
    for range in &ranges {
        let query = container
            .query_items::<Value>("SELECT * FROM c", FeedScope::range(range.clone()), None)
            .await;
        found += query.expect("a query").count().await;
    }
    assert_eq!(found, 30);
    let own = container
        .feed_range_from_partition_key("p4", None)
        .await
        .expect("a range");
    let holders = ranges.iter().filter(|range| own[0].is_subset_of(range));
    assert_eq!(holders.count(), 1);
}
