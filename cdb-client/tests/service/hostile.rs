//! Hostile data: SQL fragments, headers and paths in ids, partition keys and values.

use cdb_client::{ContainerClient, Error};
use cdb_model::{Document, PartitionKey, Query};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::account::Account;
use crate::shop::{Order, Profile, Shop, order, profile};

/// Texts with a special meaning in SQL, HTTP or URLs.
const FRAGMENTS: [&str; 14] = [
    "\" OR true --",
    "' OR 1=1; DROP",
    "@p0",
    "\\",
    "\"]",
    "\r\nx-ms-documentdb-is-upsert: true",
    "../../colls/other",
    "%2F%00",
    "\0",
    "?$filter=",
    "#",
    "\u{202e}",
    "😀é",
    "~3A",
];

fn hostile() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        prop::sample::select(FRAGMENTS.as_slice()).prop_map(str::to_owned),
        prop::collection::vec(any::<char>(), 0..6).prop_map(|chars| chars.into_iter().collect()),
    ];
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.concat())
}

/// Writes, reads, queries and deletes documents with this text as partition key, id and value.
async fn behaves(shop: &ContainerClient<Shop>, text: &str) -> Result<(), Error> {
    let mut stored = order(text, 7);
    text.clone_into(&mut stored.status);
    stored.note = Some(text.to_owned());
    shop.run(stored.upsert()).await?;
    // The id contains the text.
    let named = profile(text);
    shop.run(named.upsert()).await?;
    let partition = PartitionKey::from(text);
    let read = shop.read(stored.key().in_partition(&partition)).await?;
    assert_eq!(read.expect("it was written").document, stored);
    let read = shop.read(&named.key()).await?.expect("it was written");
    assert_eq!(read.document, named);
    let here = Query::<Order>::in_partition(text).filter(Order::STATUS.eq(text));
    let here = shop.query(here).all().await?;
    assert_eq!(here.len(), 1, "{text:?}");
    let everywhere = Query::<Order>::across_partitions().filter(Order::STATUS.eq(text));
    let everywhere = shop.query(everywhere).all().await?;
    assert!(
        everywhere.iter().all(|found| found.document.status == text),
        "{text:?}"
    );
    assert_eq!(everywhere.len(), 1, "{text:?}");
    shop.run(named.key().delete()).await?;
    shop.run(stored.key().in_partition(&partition).delete())
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_becomes_sql_or_a_header_or_a_path() {
    let (account, shop) = Account::with_shop().await;
    let bystander = profile("bystander");
    shop.run(bystander.create()).await.unwrap();
    let runtime = tokio::runtime::Handle::current();
    let container = shop.clone();
    let checked = tokio::task::spawn_blocking(move || {
        let mut runner = TestRunner::new(Config::with_cases(64));
        runner.run(&hostile(), |text| {
            let behaved = runtime.block_on(behaves(&container, &text));
            behaved.map_err(|error| TestCaseError::fail(format!("{text:?}: {error}")))
        })
    });
    checked.await.unwrap().unwrap();
    let kept = ok!(shop.query(Query::<Shop>::across_partitions()).all());
    assert_eq!(kept.len(), 1, "no other document was written or deleted");
    assert_eq!(kept[0].document, Shop::Profile(bystander));
    if let Some(emulator) = account.emulator() {
        let asked = emulator.requests().queries;
        // One SQL text per query in this test, whatever the data.
        assert!(asked.len() <= 3, "SQL depends on data: {asked:#?}");
    }
}

#[tokio::test]
async fn a_long_id_is_refused_before_anything_is_sent() {
    let (account, shop) = Account::with_shop().await;
    let sent = account.client.usage().total().requests;
    let long = Profile {
        customer: "é".repeat(600),
        name: String::new(),
    };
    let error = shop.run(long.create()).await.unwrap_err();
    assert!(error.call().is_none(), "{error}");
    assert_eq!(account.client.usage().total().requests, sent);
}
