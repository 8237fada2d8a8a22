//! Search attributes: orders that wait for their payment are found by customer, total and state.
//!
//! `cargo run -p cdb-examples --bin search_attributes`

use std::sync::Arc;
use std::time::Duration;

use cdb_emulator::Emulator;
use cdb_provider::documents::{Instance, Status};
use cdb_provider::model::Timestamp;
use cdb_provider::{CosmosDBProvider, SearchAttributes};
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{Client, OrchestrationContext, OrchestrationRegistry};

type Failure = Box<dyn std::error::Error>;

/// What an order can be found by.
#[derive(SearchAttributes)]
struct OrderSearch {
    customer: String,
    total: f64,
    due: Timestamp,
    paid: bool,
}

/// An order of `customer total`, which waits for its payment.
async fn order(ctx: OrchestrationContext, input: String) -> Result<String, String> {
    let (customer, total) = input.split_once(' ').ok_or("the input has no total")?;
    let now = ctx.utc_now().await?;
    let now = now
        .duration_since(std::time::UNIX_EPOCH)
        .map_err(|error| error.to_string())?;
    let mut search = OrderSearch {
        customer: customer.to_owned(),
        total: total.parse().map_err(|_| "the total is not a number")?,
        due: Timestamp::from_millis(0) + now + Duration::from_secs(14 * 24 * 3600),
        paid: false,
    };
    search.set(&ctx)?;
    ctx.schedule_wait("paid").await;
    search.paid = true;
    search.set(&ctx)?;
    Ok("shipped".to_owned())
}

/// Prints the running orders of a customer above 100, the largest first.
async fn print_large_orders(provider: &CosmosDBProvider) -> Result<usize, Failure> {
    let wanted = OrderSearch::CUSTOMER.eq("ada")
        & OrderSearch::TOTAL.gt(100.0)
        & OrderSearch::PAID.eq(false)
        & Instance::STATUS.eq(Status::Running);
    let search = provider.instances_where(wanted);
    let page = search
        .order_by(OrderSearch::TOTAL.desc())
        .page(20, None)
        .await?;
    for instance in &page.rows {
        let order = OrderSearch::of(instance)?;
        println!(
            "{}: {} of {}",
            instance.instance_id, order.total, order.customer
        );
    }
    Ok(page.rows.len())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let emulator = Emulator::start().await?;
    let provider = CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
    let store = Arc::new(provider.clone());
    let orchestrations = OrchestrationRegistry::builder()
        .register("Order", order)
        .build();
    let activities = ActivityRegistry::builder().build();
    let runtime = Runtime::start_with_store(store.clone(), activities, orchestrations).await;
    let client = Client::new(store);
    for (id, input) in [
        ("order-1", "ada 120.5"),
        ("order-2", "ada 40"),
        ("order-3", "bob 300"),
        ("order-4", "ada 250"),
    ] {
        client.start_orchestration(id, "Order", input).await?;
    }
    // The attributes are found once the first turn of an instance is committed.
    while provider
        .instances_where(OrderSearch::PAID.eq(false))
        .count()
        .await?
        < 4
    {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(print_large_orders(&provider).await?, 2);

    client.raise_event("order-4", "paid", "").await?;
    client
        .wait_for_orchestration("order-4", Duration::from_secs(60))
        .await?;
    println!("order-4 is paid");
    assert_eq!(print_large_orders(&provider).await?, 1);
    runtime.shutdown(None).await;
    Ok(())
}
