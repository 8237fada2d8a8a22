//! Queries in one logical partition and across physical partitions.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cdb_client::query::Continuation;
use cdb_client::{ContainerClient, measure_charge};
use cdb_model::operation::BulkBatch;
use cdb_model::{Document as _, Query};
use futures::TryStreamExt as _;
use serde_json::json;

use crate::account::Account;
use crate::shop::{Order, Profile, Shop, order, profile};

/// Orders of 20 customers, ten each, and their profiles.
async fn stocked(account: &Account) -> ContainerClient<Shop> {
    let shop = account.shop().await;
    let mut bulk = BulkBatch::<Shop>::new();
    for customer in 0..20_u64 {
        let name = format!("customer-{customer}");
        bulk.add(profile(&name).create()).unwrap();
        for number in 0..10 {
            bulk.add(order(&name, customer * 10 + number).create())
                .unwrap();
        }
    }
    assert!(shop.execute_bulk(&bulk).await.iter().all(Result::is_ok));
    shop
}

fn expected(of: impl Fn(&Order) -> bool) -> Vec<Order> {
    let mut orders: Vec<Order> = (0..200)
        .map(|number| order(&format!("customer-{}", number / 10), number))
        .filter(of)
        .collect();
    orders.sort_by_key(|order| order.placed_at);
    orders
}

#[tokio::test]
async fn a_query_in_one_partition_filters_orders_and_pages() {
    let account = Account::new().await;
    let shop = stocked(&account).await;
    let paid = Query::<Order>::in_partition("customer-7")
        .filter(Order::STATUS.eq("paid"))
        .order_by(Order::PLACED_AT.desc());
    let mut pages = shop.query(paid).page_size(2).pages();
    let mut rows = Vec::new();
    while let Some(page) = pages.next_page().await.unwrap() {
        assert!(page.len() <= 2);
        rows.extend(page.into_iter().map(|stored| stored.document));
    }
    let mut orders = expected(|order| order.customer == "customer-7" && order.status == "paid");
    orders.reverse();
    assert_eq!(rows, orders);
}

#[tokio::test]
async fn a_stream_has_the_rows_and_the_charges_of_the_whole_query() {
    let account = Account::new().await;
    let shop = stocked(&account).await;
    let sorted = Query::<Order>::across_partitions().order_by(Order::PLACED_AT.asc());
    let run = || shop.query(sorted.clone()).page_size(7);
    let (all, whole) = measure_charge(run().all()).await;
    let (mut rows, mut streamed, mut charge) = (run().stream(), Vec::new(), 0.0);
    loop {
        let (row, part) = measure_charge(rows.try_next()).await;
        charge += part;
        let Some(row) = row.unwrap() else { break };
        streamed.push(row.document);
    }
    let all = all.unwrap().into_iter().map(|stored| stored.document);
    assert_eq!(streamed, all.collect::<Vec<_>>());
    assert!(
        (charge - whole).abs() < 1e-6 && whole > 0.0,
        "{charge} {whole}"
    );
    let pages: Vec<_> = run().pages().stream().try_collect().await.unwrap();
    assert!(pages.len() > 20 && pages.iter().all(|page| !page.is_empty()));
}

/// Returns all rows, read in pages of `size`, each by a new client with the continuation of the
/// page before.
async fn paged(account: &Account, query: &Query<Order>, size: usize) -> Vec<Order> {
    let (mut rows, mut from) = (Vec::new(), None::<Continuation>);
    loop {
        let shop = account.other_client().database(account.database.name());
        let shop = shop.container::<Shop>("shop");
        let page = shop.query(query.clone()).page(size, from.as_ref());
        let page = page.await.unwrap();
        assert!(page.rows.len() == size || page.next.is_none());
        rows.extend(page.rows.into_iter().map(|stored| stored.document));
        let Some(next) = page.next else { return rows };
        from = Some(next.to_string().parse().unwrap());
    }
}

#[tokio::test]
async fn another_process_continues_pages_without_loss_or_repetition() {
    let account = Account::new().await;
    let _shop = stocked(&account).await;
    let sorted = Query::<Order>::across_partitions().order_by(Order::PLACED_AT.asc());
    let all = expected(|_| true);
    for size in [1, 7, 64, 200, 500] {
        assert_eq!(paged(&account, &sorted, size).await, all, "pages of {size}");
    }
    assert_eq!(
        paged(&account, &sorted.clone().limit(33), 10).await,
        all[..33]
    );
    let mut unsorted = paged(&account, &Query::across_partitions(), 9).await;
    unsorted.sort_by_key(|order| order.placed_at);
    assert_eq!(unsorted, all);
    let one = Query::in_partition("customer-7").order_by(Order::PLACED_AT.asc());
    let expected = expected(|order| order.customer == "customer-7");
    assert_eq!(paged(&account, &one, 3).await, expected);
}

#[tokio::test]
async fn a_continuation_of_another_query_is_refused() {
    let account = Account::new().await;
    let shop = stocked(&account).await;
    let all = || Query::<Order>::across_partitions().order_by(Order::PLACED_AT.asc());
    let one = Query::<Order>::in_partition;
    let placed = |at: u64| Order::PLACED_AT.gt(at);
    for (query, other) in [
        (all(), one("customer-7")),
        (one("customer-7"), one("customer-8")),
        (all(), all().filter(placed(10))),
        (all().filter(placed(10)), all()),
        (all().filter(placed(10)), all().filter(placed(11))),
        (all(), all().order_by(Order::PLACED_AT.desc())),
    ] {
        let next = shop.query(query).page(5, None).await.unwrap().next;
        assert!(next.is_some());
        let refused = shop.query(other).page(5, next.as_ref()).await.unwrap_err();
        assert!(refused.to_string().contains("another query"), "{refused}");
    }
}

#[tokio::test]
async fn a_forged_continuation_is_refused_before_many_requests_are_sent() {
    let account = Account::new().await;
    let shop = stocked(&account).await;
    let sorted = || Query::<Order>::across_partitions().order_by(Order::PLACED_AT.asc());
    let next = shop.query(sorted()).page(5, None).await.unwrap().next;
    let token = URL_SAFE_NO_PAD.decode(next.unwrap().to_string()).unwrap();
    let (query, _) = token.split_at(6);
    let position = json!(["0", null, u64::MAX]);
    let pages = |positions: usize| {
        let progress = json!([null, vec![position.clone(); positions]]).to_string();
        let token = [query, progress.as_bytes()].concat();
        let text = URL_SAFE_NO_PAD.encode(token);
        text.parse::<Continuation>().unwrap()
    };
    let refused = shop.query(sorted()).page(5, Some(&pages(10_000))).await;
    assert!(refused.unwrap_err().to_string().contains("start over"));
    let skipped = shop.query(sorted()).page(5, Some(&pages(1))).await;
    assert!(skipped.unwrap_err().to_string().contains("start over"));
    let refused = shop.query(sorted()).skip_unavailable().page(5, None).await;
    assert!(refused.unwrap_err().to_string().contains("all_available"));
}

#[tokio::test]
async fn top_across_partitions_costs_one_page_of_each() {
    let account = Account::new().await;
    let shop = stocked(&account).await;
    let ranges = shop.physical_partitions().await.unwrap().len();
    let before = account.client.usage();
    let first = Query::<Order>::across_partitions()
        .filter(Order::STATUS.eq("new"))
        .order_by(Order::PLACED_AT.asc())
        .limit(5);
    let rows = shop.query(first).all().await.unwrap();
    let times: Vec<u64> = rows.iter().map(|row| row.document.placed_at).collect();
    let expected: Vec<u64> = expected(|order| order.status == "new")
        .iter()
        .take(5)
        .map(|order| order.placed_at)
        .collect();
    assert_eq!(times, expected);
    let requests = account.client.usage().since(&before).total().requests;
    assert_eq!(requests, u64::try_from(ranges).unwrap());
}

#[tokio::test]
async fn one_query_reads_documents_of_all_types() {
    let account = Account::new().await;
    let shop = stocked(&account).await;
    let everything = Query::<Shop>::in_partition("customer-1");
    let rows = shop.query(everything).all().await.unwrap();
    let profiles = rows
        .iter()
        .filter(|row| matches!(row.document, Shop::Profile(_)))
        .count();
    assert_eq!((rows.len(), profiles), (11, 1));
    let one = Query::<Profile>::in_partition("customer-1");
    let first = shop.query(one).first().await.unwrap().unwrap();
    assert_eq!(first.document, profile("customer-1"));
}
