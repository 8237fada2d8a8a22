//! Two orders for the only rug: the initial state, and the checks of the final state.

use std::fmt;
use std::time::Duration;

use cdb_client::{Bootstrap, ContainerClient, MasterKey};
use cdb_coordination::DeadLetters;
use cdb_coordination::messaging::MessagingConfig;
use cdb_coordination::outbox::OutboxError;
use cdb_model::query::QueriedIn;
use cdb_model::{Document as _, Query};

use super::process::{Account, Process};
use super::shop::{self, Order, Payment, Reservation, Shop, State, Stock};

const MONEY: u64 = 10_000;
const RUGS: u32 = 1;

/// The longest time of the orders.
const LONGEST: Duration = Duration::from_secs(1800);

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A shop in its own container.
pub(crate) struct Trial {
    pub(crate) account: Account,
    shop: ContainerClient<Shop>,
}

impl Trial {
    /// Creates the container with a customer who has 100.00, and one rug.
    pub(crate) async fn new(account: Account) -> Outcome<Self> {
        let database = account.database(MasterKey::new(&account.key)?)?;
        let shop = database
            .bootstrap::<Shop>(&account.container, Bootstrap::CreateIfMissing)
            .await?;
        let ada = shop::Account {
            place: shop::account_place("ada"),
            cents: MONEY,
        };
        shop.run(ada.create()).await?;
        let rugs = Stock {
            place: shop::stock_place("rug"),
            on_hand: RUGS,
        };
        shop.run(rugs.create()).await?;
        Ok(Self { account, shop })
    }

    /// Waits until both orders have ended.
    pub(crate) async fn settled(&self) -> Outcome {
        let deadline = tokio::time::Instant::now() + LONGEST;
        loop {
            let query = Query::<Order>::across_partitions();
            let found = self.shop.query(query).all().await.unwrap_or_default();
            let placed = |order: &cdb_model::Stored<Order>| order.document.state == State::Placed;
            if found.len() == orders().len() && !found.iter().any(placed) {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                return Err(format!("not settled: {found:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Checks that one order got the rug and the other its money back, that every effect took place
    /// once, and that there are no dead letters.
    pub(crate) async fn check(&self, case: &str) -> Outcome {
        let orders = self.all::<Order>().await?;
        let payments = self.all::<Payment>().await?;
        let reservations = self.all::<Reservation>().await?;
        let accounts = self.all::<shop::Account>().await?;
        let stock = self.all::<Stock>().await?;

        let is_completed = |order: &&Order| order.state == State::Completed;
        let completed: Vec<_> = orders.iter().filter(is_completed).collect();
        let [winner] = &completed[..] else {
            return Err(format!("{case}: {orders:?}").into());
        };
        expect(case, "payments", &payments.len(), &2)?;
        for payment in &payments {
            let is_winner = payment.order == winner.place;
            expect(case, "refunded", &payment.refunded, &!is_winner)?;
        }
        expect(case, "cents", &accounts[0].cents, &(MONEY - winner.cents))?;
        let left = RUGS - winner.quantity;
        expect(case, "on hand", &stock[0].on_hand, &left)?;
        let reserved: Vec<&str> = reservations.iter().map(|one| &*one.order).collect();
        expect(case, "reserved", &reserved, &vec![&*winner.place])?;
        let dead = DeadLetters::new(self.shop.clone(), MessagingConfig::default());
        expect(case, "dead letters", &dead.count().await?, &0)
    }

    async fn all<T: QueriedIn<Shop>>(&self) -> Outcome<Vec<T>> {
        let query = Query::<T>::across_partitions();
        let found = self.shop.query(query).all().await?;
        Ok(found.into_iter().map(|stored| stored.document).collect())
    }
}

fn expect<T: PartialEq + fmt::Debug>(case: &str, what: &str, found: &T, expected: &T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(format!("{case}: {what}: {found:?} instead of {expected:?}").into())
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

/// Places both orders, and retries until they exist. An order that exists was placed with its
/// message.
pub(crate) fn place_orders(process: &Process) {
    for order in orders() {
        let messaging = process.messaging.clone();
        process.run(async move {
            while let Err(error) = shop::place_order(&messaging, order.clone()).await {
                if matches!(&error, OutboxError::Failed(error) if error.is_conflict()) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    }
}
