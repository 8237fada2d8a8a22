//! Global secondary indexes, compared with a projection of the source in Rust. Only the emulator
//! derives an index at once, so these tests need it.

use std::collections::{BTreeMap, BTreeSet};

use cdb_client::{
    Bootstrap, BootstrapConfig, ContainerClient, Difference, ErrorKind, OnDifference, Throughput,
};
use cdb_model::{BulkBatch, Container, Document, Patch, Projection, Query, Stored};
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::catalog::Numbers;
use crate::query_costs::assert_table;

const STATES: [&str; 3] = ["open", "paid", "sent"];
const CUSTOMERS: u64 = 5;

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "order", id = "{customer}:order:{number}")]
struct Order {
    #[document(partition_key)]
    customer: String,
    number: u64,
    #[document(index)]
    status: String,
    total_cents: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    remark: String,
}

#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[document(type = "profile", id = "{customer}:profile")]
struct Profile {
    #[document(partition_key)]
    customer: String,
    status: String,
}

#[derive(Container, Clone, Debug, PartialEq)]
#[container(partition_key = "/customer")]
enum Shop {
    Order(Order),
    Profile(Profile),
}

#[derive(Document, Projection, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[projection(of = Order)]
#[document(type = "order", id = "{customer}:order:{number}")]
struct OrderByStatus {
    #[document(partition_key)]
    status: String,
    customer: String,
    number: u64,
    #[document(index)]
    total_cents: u64,
    note: Option<String>,
}

#[derive(Container, Clone, Debug, PartialEq)]
#[container(index_of = Shop, partition_key = "/status")]
enum ShopByStatus {
    Order(OrderByStatus),
}

/// The fields of `OrderByStatus` in another order.
#[derive(Document, Projection, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[projection(of = Order)]
#[document(type = "order", id = "{customer}:order:{number}")]
struct ReorderedByStatus {
    note: Option<String>,
    number: u64,
    #[document(index)]
    total_cents: u64,
    #[document(partition_key)]
    status: String,
    customer: String,
}

#[derive(Container, Clone, Debug, PartialEq)]
#[container(index_of = Shop, partition_key = "/status")]
enum ShopReordered {
    Order(ReorderedByStatus),
}

/// An index with another query.
#[derive(Document, Projection, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[projection(of = Profile)]
#[document(type = "profile", id = "{customer}:profile")]
struct ProfileByStatus {
    #[document(partition_key)]
    status: String,
    customer: String,
}

#[derive(Container, Clone, Debug, PartialEq)]
#[container(index_of = Shop, partition_key = "/status")]
enum ProfilesByStatus {
    Profile(ProfileByStatus),
}

fn order(number: u64, random: &mut Numbers) -> Order {
    Order {
        customer: format!("customer-{}", number % CUSTOMERS),
        number,
        status: STATES[usize::try_from(random.below(3)).unwrap()].to_owned(),
        total_cents: random.below(1_000),
        note: random.chance().then(|| "fragile".to_owned()),
        remark: "r".repeat(300),
    }
}

/// The brute-force projection.
fn projected(order: &Order) -> OrderByStatus {
    OrderByStatus {
        status: order.status.clone(),
        customer: order.customer.clone(),
        number: order.number,
        total_cents: order.total_cents,
        note: order.note.clone(),
    }
}

async fn shop(account: &Account) -> ContainerClient<Shop> {
    let mode = Bootstrap::CreateIfMissing;
    account.database.bootstrap("shop", mode).await.unwrap()
}

async fn index(account: &Account, shop: &ContainerClient<Shop>) -> ContainerClient<ShopByStatus> {
    let config = BootstrapConfig::from(Bootstrap::CreateIfMissing)
        .with_throughput(Throughput::Autoscale(1_000));
    let opened = account.database.bootstrap_index("by-status", shop, config);
    opened.await.unwrap()
}

fn numbered(rows: Vec<Stored<OrderByStatus>>) -> BTreeMap<u64, OrderByStatus> {
    let rows = rows.into_iter();
    rows.map(|row| (row.document.number, row.document))
        .collect()
}

/// Checks that the index has exactly the projections of these orders.
async fn assert_derived(index: &ContainerClient<ShopByStatus>, orders: &BTreeMap<u64, Order>) {
    let all = index.query(Query::<OrderByStatus>::across_partitions());
    let expected: BTreeMap<u64, OrderByStatus> = orders
        .iter()
        .map(|(number, order)| (*number, projected(order)))
        .collect();
    assert_eq!(numbered(all.all().await.unwrap()), expected);
    for status in STATES {
        let mut own = expected.clone();
        own.retain(|_, order| order.status == status && order.total_cents >= 500);
        let query = Query::<OrderByStatus>::in_partition(status)
            .filter(OrderByStatus::TOTAL_CENTS.ge(500_u64));
        let found = index.query(query).all().await.unwrap();
        assert_eq!(numbered(found), own, "{status}");
    }
    let whole = index.query(Query::<ShopByStatus>::across_partitions());
    assert_eq!(whole.all().await.unwrap().len(), expected.len());
}

#[tokio::test]
async fn an_index_equals_the_projection_of_its_source_after_random_writes() {
    let account = Account::new().await;
    if account.emulator().is_none() {
        return;
    }
    let shop = shop(&account).await;
    let mut random = Numbers(7);
    let mut orders = BTreeMap::new();
    for number in 0..30 {
        let order = order(number, &mut random);
        shop.create(&order).await.unwrap();
        orders.insert(number, order);
    }
    let profile = Profile {
        customer: "customer-1".to_owned(),
        status: "open".to_owned(),
    };
    shop.create(&profile).await.unwrap();
    let index = index(&account, &shop).await;
    assert_derived(&index, &orders).await;

    for step in 0..400 {
        let number = random.below(60);
        let order = order(number, &mut random);
        match random.below(5) {
            0 => {
                let deleted = shop.delete(&order.key()).await;
                assert_eq!(deleted.is_ok(), orders.remove(&number).is_some());
            }
            1 => {
                let patch = Patch::new().set(Order::STATUS, order.status.clone());
                let patched = shop.patch(&order.key(), &patch).await;
                match orders.get_mut(&number) {
                    Some(known) => known.status = order.status,
                    None => assert!(patched.unwrap_err().is_not_found()),
                }
            }
            2 => {
                let mut bulk = BulkBatch::<Shop>::new();
                bulk.upsert(&order).unwrap();
                for result in shop.execute_bulk(&bulk).await {
                    result.unwrap();
                }
                orders.insert(number, order);
            }
            _ => {
                shop.upsert(&order).await.unwrap();
                orders.insert(number, order);
            }
        }
        if step % 50 == 0 {
            assert_derived(&index, &orders).await;
        }
    }
    assert_derived(&index, &orders).await;
}

#[tokio::test]
async fn a_row_of_an_index_leads_to_the_document_of_the_source() {
    let account = Account::new().await;
    if account.emulator().is_none() {
        return;
    }
    let shop = shop(&account).await;
    let index = index(&account, &shop).await;
    let order = order(1, &mut Numbers(1));
    shop.create(&order).await.unwrap();
    let rows = index.query(Query::<OrderByStatus>::across_partitions());
    let row = rows.first().await.unwrap().unwrap();
    let source = shop
        .read(&OrderKey::new(row.customer.clone(), row.number))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (&source.document, &source.id, source.timestamp),
        (&order, &row.id, row.timestamp)
    );
}

#[tokio::test]
async fn an_index_is_opened_only_as_the_index_of_its_source() {
    let account = Account::new().await;
    if account.emulator().is_none() {
        return;
    }
    let database = &account.database;
    let shop = shop(&account).await;
    let mode = Bootstrap::CreateIfMissing;
    let missing = database.bootstrap::<ShopByStatus>("by-status", mode).await;
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::Configuration);
    index(&account, &shop).await;
    index(&account, &shop).await; // exists now
    database
        .bootstrap::<ShopByStatus>("by-status", mode)
        .await
        .unwrap();
    let same = database.differences::<ShopByStatus>("by-status").await;
    assert_eq!(same.unwrap(), []);
    let reordered = database.differences::<ShopReordered>("by-status").await;
    assert_eq!(reordered.unwrap(), []);

    // The same definition of another source.
    let second: ContainerClient<Shop> = database.bootstrap("second", mode).await.unwrap();
    let opened = database.bootstrap_index::<ShopByStatus, _>("by-status", &second, mode);
    let error = opened.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ContainerMismatch, "{error}");
    let opened = database.bootstrap_index::<ProfilesByStatus, _>("by-status", &second, mode);
    let error = opened.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ContainerMismatch, "{error}");
    // A container that is no index, and an index that is opened as a container.
    let opened = database.bootstrap_index::<ShopByStatus, _>("second", &shop, mode);
    let error = opened.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ContainerMismatch, "{error}");
    let error = database.bootstrap::<Shop>("by-status", mode).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::ContainerMismatch);
    // Another query.
    let found = database.differences::<ProfilesByStatus>("by-status").await;
    let found = found.unwrap();
    assert!(
        matches!(&found[0], Difference::SecondaryIndex { .. }),
        "{found:?}"
    );
    let strict = BootstrapConfig::from(mode).with_on_difference(OnDifference::Fail);
    let opened = database.bootstrap_index::<ProfilesByStatus, _>("by-status", &shop, strict);
    assert_eq!(
        opened.await.unwrap_err().kind(),
        ErrorKind::ContainerMismatch
    );

    let error = index(&account, &shop)
        .await
        .upsert_json(&"open".into(), r#"{"id":"1","status":"open"}"#)
        .await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Forbidden);
}

#[tokio::test]
async fn the_costs_of_an_index_in_the_docs_are_measured() {
    let account = Account::new().await;
    if account.emulator().is_none() {
        return; // the docs have the charges of the emulator
    }
    let shop = shop(&account).await;
    let index = index(&account, &shop).await;
    let mut random = Numbers(3);
    let mut bulk = BulkBatch::<Shop>::new();
    let mut open = BTreeSet::new();
    for number in 0..2_000 {
        let mut order = order(number, &mut random);
        if number % 100 != 0 {
            order.status = "sent".to_owned();
        } else {
            order.status = "open".to_owned();
            open.insert(number);
        }
        bulk.create(&order).unwrap();
    }
    for result in shop.execute_bulk(&bulk).await {
        result.unwrap();
    }
    let mut lines = Vec::new();
    let mut charges = Vec::new();
    let mut add = |what: &str, before: &cdb_client::Usage| {
        let used = account.client.usage().since(before).total();
        lines.push(format!(
            "| {what} | {} | {:.1} | {} |",
            used.requests,
            used.charge,
            used.bytes_received.div_ceil(1_000)
        ));
        charges.push(used.charge);
    };
    let before = account.client.usage();
    let across = Query::<Order>::across_partitions().filter(Order::STATUS.eq("open"));
    let found = shop.query(across).all().await.unwrap();
    add("20 open orders, from the source", &before);
    assert_eq!(
        found.iter().map(|row| row.number).collect::<BTreeSet<_>>(),
        open
    );

    let before = account.client.usage();
    let own = Query::<OrderByStatus>::in_partition("open");
    let found = index.query(own).all().await.unwrap();
    add("20 open orders, from the index", &before);
    assert_eq!(
        found.iter().map(|row| row.number).collect::<BTreeSet<_>>(),
        open
    );

    assert!(charges[1] < charges[0], "{charges:?}");
    assert_table("search.md", "### Cost of an index", &lines.join("\n"));
}
