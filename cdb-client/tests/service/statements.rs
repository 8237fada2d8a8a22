//! Statements of `sql!` and `RawSql`, across physical partitions.

use std::collections::BTreeMap;

use cdb_client::query::Continuation;
use cdb_model::operation::BulkBatch;
use cdb_model::query::statement::RawSql;
use cdb_model::{Container as _, Document as _, Stored, sql};
use serde::Deserialize;
use serde_json::Value;

use crate::account::Account;
use crate::shop::{Order, Shop, order, profile};

#[derive(Deserialize, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
struct Line {
    number: u64,
    placed_at: u64,
}

#[derive(Deserialize)]
struct CustomerTotal {
    customer: String,
    orders: u64,
    last: u64,
    average: f64,
}

/// A container with 60 orders and their profiles, and the orders.
async fn stocked(account: &Account) -> (cdb_client::ContainerClient<Shop>, Vec<Order>) {
    let shop = account.shop().await;
    let mut bulk = BulkBatch::<Shop>::new();
    let orders: Vec<_> = (0..60)
        .map(|number| order(&format!("customer-{}", number / 5), number))
        .collect();
    for order in &orders {
        bulk.add(order.create()).unwrap();
        bulk.add(profile(&order.customer).upsert()).unwrap();
    }
    assert!(shop.execute_bulk(&bulk).await.iter().all(Result::is_ok));
    (shop, orders)
}

#[tokio::test]
async fn a_statement_sorts_and_pages_documents_of_its_type_across_partitions() {
    let account = Account::new().await;
    let (shop, mut orders) = stocked(&account).await;
    orders.sort_by_key(|order| std::cmp::Reverse(order.placed_at));
    let all = sql!("SELECT * FROM {Order} ORDER BY {Order::PLACED_AT} DESC");
    let documents = |rows: Vec<Stored<Order>>| rows.into_iter().map(|row| row.document);
    let rows = shop.query(all.clone()).all().await.unwrap();
    assert!(documents(rows).eq(orders.iter().cloned()));
    let (mut paged, mut from) = (Vec::new(), None::<Continuation>);
    loop {
        let page = ok!(shop.query(all.clone()).page(7, from.as_ref()));
        paged.extend(documents(page.rows));
        let Some(next) = page.next else { break };
        from = Some(next);
    }
    assert_eq!(paged, orders);
    let newest = sql!("SELECT TOP 3 {Order::NUMBER}, c.placedAt FROM {Order} ORDER BY {Order::PLACED_AT} DESC" => Line);
    let lines = shop.query(newest).all().await.unwrap();
    let expected = orders.iter().take(3).map(|order| Line {
        number: order.number,
        placed_at: order.placed_at,
    });
    assert_eq!(lines, expected.collect::<Vec<_>>());
    let count = sql!("SELECT VALUE COUNT(1) FROM {Shop}" => u64);
    assert_eq!(shop.query(count).first().await.unwrap(), Some(72));
}

#[tokio::test]
async fn groups_and_distinct_values_of_a_statement_are_merged() {
    let account = Account::new().await;
    let (shop, orders) = stocked(&account).await;
    let status = orders[0].status.clone();
    let mut expected: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for order in orders.iter().filter(|order| order.status == status) {
        expected
            .entry(&order.customer)
            .or_default()
            .push(order.placed_at);
    }
    let totals = sql!(
        "SELECT c.customer, COUNT(1) AS orders, MAX({Order::PLACED_AT}) AS last, AVG({Order::PLACED_AT}) AS average
         FROM {Order} WHERE {Order::STATUS} = {&status} GROUP BY c.customer" => CustomerTotal
    );
    let totals = shop.query(totals).all().await.unwrap();
    assert_eq!(totals.len(), expected.len());
    for total in totals {
        let placed = &expected[&*total.customer];
        assert_eq!(total.orders, u64::try_from(placed.len()).unwrap());
        assert_eq!(Some(&total.last), placed.iter().max());
        assert!(
            (total.average * f64::from(u32::try_from(placed.len()).unwrap())
                - placed
                    .iter()
                    .map(|&at| f64::from(u32::try_from(at).unwrap()))
                    .sum::<f64>())
            .abs()
                < 1e-3
        );
    }
    let mut statuses: Vec<_> = orders.iter().map(|order| order.status.clone()).collect();
    statuses.sort();
    statuses.dedup();
    let distinct = sql!("SELECT DISTINCT VALUE {Order::STATUS} FROM {Order}" => String);
    assert_eq!(shop.query(distinct).all().await.unwrap(), statuses);
}

#[tokio::test]
async fn the_emulator_accepts_conditions_that_the_builder_lacks() {
    let account = Account::new().await;
    let (shop, orders) = stocked(&account).await;
    let (low, high, like) = (
        orders[3].placed_at.min(orders[9].placed_at),
        orders[3].placed_at.max(orders[9].placed_at),
        "%a%",
    );
    let query = sql!(
        "SELECT VALUE {{\"numbers\": [{Order::NUMBER}]}} FROM {Order}
         WHERE {Order::PLACED_AT} BETWEEN {low} AND {high} AND {Order::STATUS} LIKE {like}
         AND ({Order::PLACED_AT} % 2 = 0 OR {Order::STATUS} NOT IN ({\"none\"}, 'nothing'))" => Value
    );
    let rows = shop.query(query).all().await.unwrap();
    let expected = orders
        .iter()
        .filter(|order| (low..=high).contains(&order.placed_at) && order.status.contains('a'));
    assert_eq!(rows.len(), expected.count());
    let one =
        sql!("SELECT VALUE c.id FROM {Shop} WHERE c._ts > 0" => String).in_partition("customer-2");
    assert_eq!(shop.query(one).all().await.unwrap().len(), 6);
}

#[tokio::test]
async fn a_raw_statement_reads_documents_of_every_type() {
    let account = Account::new().await;
    let (shop, _) = stocked(&account).await;
    let all = RawSql::<Value>::new("SELECT * FROM c WHERE c.customer = @customer")
        .parameter("@customer", "customer-3".into());
    let rows = shop.query(all).all().await.unwrap();
    assert_eq!(rows.len(), 6);
    let ordered = RawSql::<String>::new("SELECT VALUE c.type FROM c ORDER BY c.type")
        .in_partition("customer-3");
    let types = shop.query(ordered).all().await.unwrap();
    assert_eq!(
        (types.len(), &*types[0], &*types[5]),
        (6, "order", "profile")
    );
    assert_eq!(Shop::DISCRIMINATOR, "type");
}
