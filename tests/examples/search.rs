//! Measures searches by attributes: stores ended instances with four attributes, and reads pages of
//! them by three.
//!
//! `cargo run --release -p cdb-tests --example search -- 100000`; on an account when
//! `COSMOS_ENDPOINT` and `COSMOS_KEY` are set. docs/search-attributes.md has the figures.

use std::time::{Duration, Instant};

use cdb_provider::documents::{AttributeValue, Durable, Instance, Status};
use cdb_provider::model::operation::BulkBatch;
use cdb_provider::model::query::Filter;
use cdb_provider::model::{Document as _, Timestamp};
use cdb_provider::{CosmosDBProvider, SearchAttributes};
use cdb_tests::Backend;

type Failure = Box<dyn std::error::Error>;

/// Instances per bulk request.
const AT_ONCE: u64 = 500;
/// How many times each page is read. The median is printed.
const READS: usize = 11;
/// The rows of a page.
const ROWS: usize = 20;

#[derive(SearchAttributes)]
struct OrderSearch {
    customer: String,
    country: String,
    total: f64,
    paid: bool,
}

/// An ended instance. One of 1,000 customers and of 20 countries, half of them unpaid, with a total
/// up to 1,000.
fn instance(number: u64) -> Instance {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let at = Timestamp::from_millis(1_700_000_000_000) + Duration::from_millis(number * 10);
    let name = |kind: &str, number: u64| AttributeValue::String(format!("{kind}-{number}"));
    let total = u32::try_from(mixed / 20_000 % 1_000).unwrap_or_default();
    let attributes = [
        ("customer", name("customer", mixed % 1_000)),
        ("country", name("country", mixed / 1_000 % 20)),
        ("total", AttributeValue::Number(total.into())),
        (
            "paid",
            AttributeValue::Bool((mixed / 20_000_000).is_multiple_of(2)),
        ),
    ];
    Instance {
        orchestration_name: "Order".to_owned(),
        orchestration_version: Some("1.0.0".to_owned()),
        status: Status::Completed,
        output: Some("shipped".to_owned().into()),
        started_at: Some(at),
        completed_at: Some(at),
        attributes: attributes
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        ..Instance::pending(&format!("order-{number}"), at)
    }
}

/// Prints the median time and the request units of a page.
async fn measure(
    provider: &CosmosDBProvider,
    what: &str,
    filter: &Filter<Instance>,
    by_total: bool,
) -> Result<(), Failure> {
    let container = provider.container();
    let (mut times, mut rows, mut charge) = (Vec::new(), 0, 0.0);
    for _ in 0..READS {
        let before = container.usage();
        let begun = Instant::now();
        let mut search = provider.instances_where(filter.clone());
        if by_total {
            search = search.order_by(OrderSearch::TOTAL.desc());
        }
        rows = search.page(ROWS, None).await?.rows.len();
        times.push(begun.elapsed());
        charge = container.usage().since(&before).total().charge;
    }
    times.sort();
    let all = provider.instances_where(filter.clone()).count().await?;
    let median = times[READS / 2];
    println!("{what}: {rows} of {all} in {median:.1?}, {charge:.1} RU");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let wanted: u64 = match std::env::args().nth(1) {
        Some(count) => count.parse()?,
        None => 10_000,
    };
    let backend = Backend::start().await;
    let provider = backend.provider().await;
    let begun = Instant::now();
    for first in (0..wanted).step_by(usize::try_from(AT_ONCE)?) {
        let mut bulk = BulkBatch::<Durable>::new();
        for number in first..wanted.min(first + AT_ONCE) {
            bulk.add(instance(number).create())?;
        }
        for result in provider.container().execute_bulk(&bulk).await {
            result?;
        }
    }
    println!("{wanted} instances stored in {:.1?}", begun.elapsed());
    let unpaid = OrderSearch::PAID.eq(false);
    let large = OrderSearch::TOTAL.gt(500.0);
    let of_customer = OrderSearch::CUSTOMER.eq("customer-7") & unpaid.clone() & large.clone();
    let of_country = OrderSearch::COUNTRY.eq("country-7") & unpaid & large;
    for (by_total, order) in [(false, "newest first"), (true, "largest first")] {
        measure(
            &provider,
            &format!("customer, paid, total, {order}"),
            &of_customer,
            by_total,
        )
        .await?;
        measure(
            &provider,
            &format!("country, paid, total, {order}"),
            &of_country,
            by_total,
        )
        .await?;
    }
    let before = provider.container().usage();
    let begun = Instant::now();
    let none = provider
        .instances_where(OrderSearch::CUSTOMER.eq("no one"))
        .page(ROWS, None)
        .await?;
    let charge = provider.container().usage().since(&before).total().charge;
    println!(
        "a customer without instances: {} in {:.1?}, {charge:.1} RU",
        none.rows.len(),
        begun.elapsed()
    );
    backend.stop().await;
    Ok(())
}
