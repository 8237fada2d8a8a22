//! The example's shop, its process killed before every one of its requests, and every one of its answers lost: money,
//! stock and orders agree in the end, each of them exactly once.

use std::time::Duration;

use cdb_client::{Bootstrap, ContainerClient, MasterKey};
use cdb_emulator::{Effect, Emulator, Fault};
use cdb_model::{QueriedIn, Query};
use futures::stream::{self, StreamExt as _};

#[path = "../examples/order_payment_stock/process.rs"]
mod process;
#[path = "../examples/order_payment_stock/shop.rs"]
mod shop;

use process::{Account, Process};
use shop::{Order, Payment, Reservation, Shop, State, Stock};

const MONEY: u64 = 10_000;
const RUGS: u32 = 1;

/// How many cases run at once.
const TOGETHER: usize = 10;

/// How often a process looks for what others have left: never while it has something to do of its own, or at once.
const PATIENT: Duration = Duration::from_secs(10);
const EAGER: Duration = Duration::from_millis(50);

struct World {
    emulator: Emulator,
    account: Account,
    shop: ContainerClient<Shop>,
}

impl World {
    async fn new() -> Self {
        let emulator = Emulator::start().await.expect("the emulator starts");
        let account = Account {
            endpoint: emulator.endpoint(),
            key: emulator.key().to_owned(),
            container: "orders".to_owned(),
        };
        let key = MasterKey::new(&account.key).expect("it is a key");
        let database = account.database(key).expect("the endpoint is one");
        let bootstrap = Bootstrap::CreateIfMissing;
        let shop = database.bootstrap::<Shop>("orders", bootstrap).await;
        let shop = shop.expect("the container is made");
        let ada = shop::Account {
            place: shop::account_place("ada"),
            cents: MONEY,
        };
        shop.create(&ada).await.expect("it is new");
        let place = shop::stock_place("rug");
        shop.create(&Stock {
            place,
            on_hand: RUGS,
        })
        .await
        .expect("it is new");
        Self {
            emulator,
            account,
            shop,
        }
    }

    /// Waits until both orders have ended.
    async fn settled(&self) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(120);
        loop {
            let query = Query::<Order>::across_partitions();
            let found = self.shop.query(query).all().await.unwrap_or_default();
            let placed = |order: &cdb_model::Stored<Order>| order.document.state == State::Placed;
            if found.len() == orders().len() && !found.iter().any(placed) {
                return;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "not settled: {found:?}"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// All documents of a type.
    async fn all<T: QueriedIn<Shop>>(&self) -> Vec<T> {
        let query = Query::<T>::across_partitions();
        let found = self.shop.query(query).all().await;
        let found = found.expect("nobody disturbs who looks on any more");
        found.into_iter().map(|stored| stored.document).collect()
    }

    /// One of the two orders got the rug and the other its money back; nothing was taken, given or set aside twice.
    async fn check(&self, case: &str) {
        let orders = self.all::<Order>().await;
        let payments = self.all::<Payment>().await;
        let reservations = self.all::<Reservation>().await;
        let accounts = self.all::<shop::Account>().await;
        let stock = self.all::<Stock>().await;

        let is_completed = |order: &&Order| order.state == State::Completed;
        let completed: Vec<_> = orders.iter().filter(is_completed).collect();
        assert_eq!(completed.len(), 1, "{case}: {orders:?}");
        let winner = &completed[0];
        assert_eq!(payments.len(), 2, "{case}: {payments:?}");
        for payment in &payments {
            let is_winner = payment.order == winner.place;
            assert_eq!(payment.refunded, !is_winner, "{case}: {payment:?}");
        }
        assert_eq!(accounts[0].cents, MONEY - winner.cents, "{case}");
        assert_eq!(stock[0].on_hand, RUGS - winner.quantity, "{case}");
        assert_eq!(reservations.len(), 1, "{case}: {reservations:?}");
        assert_eq!(reservations[0].order, winner.place, "{case}");
    }
}

/// Two orders for the only rug.
fn orders() -> Vec<Order> {
    (1..=2)
        .map(|number| Order {
            place: shop::order_place(number),
            customer: "ada".to_owned(),
            item: "rug".to_owned(),
            quantity: 1,
            cents: 1_000 + u64::from(number),
            state: State::Placed,
        })
        .collect()
}

/// A customer who tries until the order is there. An order that exists was placed with its message.
fn place_orders(process: &Process) {
    for order in orders() {
        let mailbox = process.mailbox.clone();
        process.run(async move {
            while let Err(error) = shop::place_order(&mailbox, order.clone()).await {
                if matches!(&error, cdb_coordination::OutboxError::Failed(error) if error.is_conflict()) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    }
}

/// How many requests both orders take when nothing goes wrong and nobody looks for what others have left.
async fn requests() -> u64 {
    let world = World::new().await;
    let process = Process::start(&world.account, PATIENT, None).expect("a process starts");
    place_orders(&process);
    world.settled().await;
    world.check("undisturbed").await;
    let sent = process.lifeline.wanted();
    process.kill();
    world.emulator.stop().await;
    sent
}

/// Kills a process after `granted` requests, has another one finish.
async fn killed_after(granted: u64) {
    let case = format!("killed after {granted} requests");
    let world = World::new().await;
    let first = Process::start(&world.account, PATIENT, Some(granted)).expect("a process starts");
    place_orders(&first);
    tokio::select! {
        () = first.died() => {}
        () = world.settled() => {}
    };
    first.kill();
    let second = Process::start(&world.account, EAGER, None).expect("a process starts");
    place_orders(&second);
    world.settled().await;
    let dead = second.mailbox.dead_letters().count().await;
    assert_eq!(dead.expect("they can be counted"), 0, "{case}");
    world.check(&case).await;
    second.kill();
    world.emulator.stop().await;
}

/// Loses the answer to request `number`, which has taken effect.
async fn answer_lost(number: u64) {
    let world = World::new().await;
    let process = Process::start(&world.account, EAGER, None).expect("a process starts");
    let lost = Fault::once(Effect::DropAnswer);
    let number = u32::try_from(number).expect("a small number");
    world.emulator.inject(lost.after(number));
    place_orders(&process);
    world.settled().await;
    world.check(&format!("answer {number} lost")).await;
    process.kill();
    world.emulator.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_may_die_before_any_of_its_requests() {
    let requests = requests().await;
    assert!(requests >= 20, "{requests} are not all there is to do");
    let cases = (0..=requests).map(killed_after);
    stream::iter(cases).buffer_unordered(TOGETHER).count().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_answer_may_be_lost() {
    let cases = (0..=requests().await).map(answer_lost);
    stream::iter(cases).buffer_unordered(TOGETHER).count().await;
}
