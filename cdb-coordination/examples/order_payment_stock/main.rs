//! An order, its payment and its stock: three partitions, one outcome, and a process that is killed
//! on the way.
//!
//! ```text
//! cargo run -p cdb-coordination --example order_payment_stock            # killed before its 12th request
//! cargo run -p cdb-coordination --example order_payment_stock -- 30      # before its 31st
//! cargo run -p cdb-coordination --example order_payment_stock -- killed  # SIGKILL before each request
//! ```
//!
//! The last command starts processes; `COSMOS_ENDPOINT` and `COSMOS_KEY` name another store than an
//! embedded emulator. It fails unless money, stock and orders agree each time.

use std::process::Command;
use std::time::Duration;

use cdb_client::{Bootstrap, ConnectionString, ContainerClient, MasterKey};
use cdb_coordination::outbox::OutboxError;
use cdb_emulator::Emulator;
use cdb_model::query::QueriedIn;
use cdb_model::{Document as _, Query};

mod killed;
mod process;
mod shop;
mod trial;

use killed::{Killed, Task};
use process::{Account, Process};
use shop::{Order, Payment, Reservation, Shop, State, Stock};
use trial::Outcome;

/// The poll interval of a process.
const POLL: Duration = Duration::from_millis(100);

#[tokio::main]
async fn main() -> Outcome {
    // Each process is this program.
    if let Some(task) = Task::from_env()? {
        return killed::serve(&task).await;
    }
    let granted = match std::env::args().nth(1).as_deref() {
        Some("killed") => return killed_at_every_step().await,
        Some(number) => number.parse()?,
        None => 12,
    };
    let emulator = Emulator::start().await?;
    let account = Account {
        endpoint: emulator.endpoint(),
        key: emulator.key().to_owned(),
        database: "shop".to_owned(),
        container: "orders".to_owned(),
    };
    let shop = prepare(&account).await?;

    println!("three orders; the first process is killed after {granted} requests");
    let first = Process::start(&account, POLL, Some(granted))?;
    place_orders(&first);
    let ended = tokio::select! {
        () = first.died() => false,
        ended = settled(&shop) => { ended?; true }
    };
    first.kill();
    println!(
        "{}",
        if ended {
            "it finished before"
        } else {
            "it died; a second one takes over"
        }
    );

    let second = Process::start(&account, POLL, None)?;
    place_orders(&second);
    settled(&shop).await?;
    report(&shop).await?;
    println!(
        "dead letters: {}; the second process sent {} requests",
        second.messaging.dead_letters().count().await?,
        second.limit.wanted()
    );
    second.kill();
    Ok(())
}

/// Kills a process at every step, or at every `n` steps.
async fn killed_at_every_step() -> Outcome {
    let every = std::env::args()
        .nth(2)
        .map_or(Ok(1), |every| every.parse())?;
    let emulator = Emulator::start().await?;
    let named = ConnectionString::from_env_or(&emulator.connection_string())?;
    let account = |granted| Account {
        endpoint: named.endpoint().to_owned(),
        key: named.key().to_owned(),
        database: "shop".to_owned(),
        container: format!("killed-after-{granted}"),
    };
    let program = std::env::current_exe()?;
    let killed = Killed::at_every(every, account, || Command::new(&program)).await?;
    println!("{}\n{killed}", Killed::HEADER);
    Ok(())
}

/// Creates an account with 100.00, five lamps and one rug.
async fn prepare(account: &Account) -> Outcome<ContainerClient<Shop>> {
    let shop = account
        .database(MasterKey::new(&account.key)?)?
        .bootstrap::<Shop>(&account.container, Bootstrap::CreateIfMissing)
        .await?;
    let purse = shop::Account {
        place: shop::account_place("ada"),
        cents: 10_000,
    };
    shop.run(purse.create()).await?;
    for (item, on_hand) in [("lamp", 5), ("rug", 1)] {
        let place = shop::stock_place(item);
        shop.run(Stock { place, on_hand }.create()).await?;
    }
    Ok(shop)
}

/// Two lamps, two rugs of which one is in stock, and a lamp that is too expensive.
fn orders() -> Vec<Order> {
    [("lamp", 2, 3_000), ("rug", 2, 2_000), ("lamp", 1, 20_000)]
        .into_iter()
        .zip(1..)
        .map(|((item, quantity, cents), number)| Order {
            place: shop::order_place(number),
            customer: "ada".to_owned(),
            item: item.to_owned(),
            quantity,
            cents,
            state: State::Placed,
        })
        .collect()
}

fn place_orders(process: &Process) {
    for order in orders() {
        let messaging = process.messaging.clone();
        process.run(async move {
            let place = order.place.clone();
            match shop::place_order(&messaging, order).await {
                Ok(()) => println!("  {place} placed"),
                Err(OutboxError::Failed(error)) if error.is_conflict() => {
                    println!("  {place} was placed before");
                }
                Err(error) => println!("  {place} not placed: {error}"),
            }
        });
    }
}

async fn settled(shop: &ContainerClient<Shop>) -> Outcome {
    loop {
        let found = shop
            .query(Query::<Order>::across_partitions())
            .all()
            .await?;
        let open = found
            .iter()
            .any(|order| order.document.state == State::Placed);
        if found.len() == orders().len() && !open {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn report(shop: &ContainerClient<Shop>) -> Outcome {
    for order in all::<Order>(shop).await? {
        let Order {
            place,
            quantity,
            item,
            state,
            ..
        } = order;
        println!("{place}: {quantity} x {item}, {state:?}");
    }
    for account in all::<shop::Account>(shop).await? {
        println!("{}: {} cents left", account.place, account.cents);
    }
    for payment in all::<Payment>(shop).await? {
        let refunded = if payment.refunded { ", refunded" } else { "" };
        println!("{}: paid {}{refunded}", payment.order, payment.cents);
    }
    for stock in all::<Stock>(shop).await? {
        println!("{}: {} on hand", stock.place, stock.on_hand);
    }
    for Reservation {
        place,
        order,
        quantity,
    } in all(shop).await?
    {
        println!("{place}: {quantity} set aside for {order}");
    }
    Ok(())
}

async fn all<T: QueriedIn<Shop>>(shop: &ContainerClient<Shop>) -> Outcome<Vec<T>> {
    let found = shop.query(Query::<T>::across_partitions()).all().await?;
    Ok(found.into_iter().map(|stored| stored.document).collect())
}
