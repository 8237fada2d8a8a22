//! A shop with three kinds of partitions that share no transaction: orders, accounts, stock.
//!
//! Each step changes one partition and sends the message for the next step, in one batch. There is
//! no coordinator. An order that cannot be served is refunded by messages in the other direction.

use cdb_client::ContainerClient;
use cdb_coordination::OutboxBatch;
use cdb_coordination::messaging::{Handled, MessagingBuilder};
use cdb_coordination::outbox::OutboxError;
use cdb_coordination::{HandlerError, Message, MessageDocument, Messaging, Received};
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

/// An order, in its own partition.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "order", id = "{place}:order")]
pub(crate) struct Order {
    #[document(partition_key)]
    pub(crate) place: String,
    pub(crate) customer: String,
    pub(crate) item: String,
    pub(crate) quantity: u32,
    pub(crate) cents: u64,
    pub(crate) state: State,
}

#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Placed,
    Completed,
    Rejected(String),
}

/// The money of a customer, in its own partition.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "account", id = "{place}:account")]
pub(crate) struct Account {
    #[document(partition_key)]
    pub(crate) place: String,
    pub(crate) cents: u64,
}

/// The payment of an order, in the partition of the account.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "payment", id = "{place}:payment:{order}")]
pub(crate) struct Payment {
    #[document(partition_key)]
    pub(crate) place: String,
    pub(crate) order: String,
    pub(crate) cents: u64,
    pub(crate) refunded: bool,
}

/// The quantity of an item, in its own partition.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "stock", id = "{place}:stock")]
pub(crate) struct Stock {
    #[document(partition_key)]
    pub(crate) place: String,
    pub(crate) on_hand: u32,
}

/// The reservation for an order, in the partition of the stock.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "reservation", id = "{place}:reservation:{order}")]
pub(crate) struct Reservation {
    #[document(partition_key)]
    pub(crate) place: String,
    pub(crate) order: String,
    pub(crate) quantity: u32,
}

#[derive(Container)]
pub(crate) enum Shop {
    Order(Order),
    Account(Account),
    Payment(Payment),
    Stock(Stock),
    Reservation(Reservation),
    Message(MessageDocument<Shop>),
}

/// To the account: pay for an order.
#[derive(Serialize, Deserialize)]
pub(crate) struct PayOrder(Order);

/// To the stock: reserve the items of a paid order.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReserveStock(Order);

/// To the account: refund an order without stock.
#[derive(Serialize, Deserialize)]
pub(crate) struct Refund(Order);

/// To the order: its final state.
#[derive(Serialize, Deserialize)]
pub(crate) struct Settled(State);

impl Message for PayOrder {
    const TYPE: &'static str = "pay-order";
}

impl Message for ReserveStock {
    const TYPE: &'static str = "reserve-stock";
}

impl Message for Refund {
    const TYPE: &'static str = "refund";
}

impl Message for Settled {
    const TYPE: &'static str = "settled";
}

pub(crate) fn order_place(number: u32) -> String {
    format!("order-{number}")
}

pub(crate) fn account_place(customer: &str) -> String {
    format!("account-{customer}")
}

pub(crate) fn stock_place(item: &str) -> String {
    format!("stock-{item}")
}

/// Stores an order and requests its payment, in one batch.
pub(crate) async fn place_order(
    messaging: &Messaging<Shop>,
    order: Order,
) -> Result<(), OutboxError> {
    let mut batch = messaging.batch(&*order.place);
    batch.add(order.create())?;
    let account = account_place(&order.customer);
    batch
        .send(account, &PayOrder(order))
        .expect("an order is JSON");
    messaging.commit(batch).await
}

/// Messaging with the handlers of all steps. Each step could run in another program.
pub(crate) fn messaging(container: ContainerClient<Shop>) -> MessagingBuilder<Shop> {
    let shop = container.clone();
    let pay_shop = shop.clone();
    let reserve_shop = shop.clone();
    let refund_shop = shop.clone();
    Messaging::builder(container)
        .on(move |message, batch| pay(pay_shop.clone(), message, batch))
        .on(move |message, batch| reserve(reserve_shop.clone(), message, batch))
        .on(move |message, batch| refund(refund_shop.clone(), message, batch))
        .on(move |message, batch| settle(shop.clone(), message, batch))
}

async fn pay(
    shop: ContainerClient<Shop>,
    message: Received<PayOrder>,
    mut batch: OutboxBatch<Shop>,
) -> Handled<Shop> {
    let PayOrder(order) = message.message;
    let place = account_place(&order.customer);
    let Some(mut account) = shop.read(&AccountKey::new(&*place)).await? else {
        batch.send(
            &*order.place,
            &Settled(State::Rejected("no such customer".to_owned())),
        )?;
        return Ok(batch);
    };
    let Some(left) = account.document.cents.checked_sub(order.cents) else {
        batch.send(
            &*order.place,
            &Settled(State::Rejected("not enough money".to_owned())),
        )?;
        return Ok(batch);
    };
    account.document.cents = left;
    batch.add(account.replace())?;
    batch.add(
        Payment {
            place,
            order: order.place.clone(),
            cents: order.cents,
            refunded: false,
        }
        .create(),
    )?;
    batch.send(stock_place(&order.item), &ReserveStock(order))?;
    Ok(batch)
}

async fn reserve(
    shop: ContainerClient<Shop>,
    message: Received<ReserveStock>,
    mut batch: OutboxBatch<Shop>,
) -> Handled<Shop> {
    let ReserveStock(order) = message.message;
    let place = stock_place(&order.item);
    let stock = shop.read(&StockKey::new(&*place)).await?;
    let enough = stock.and_then(|mut stock| {
        stock.document.on_hand = stock.document.on_hand.checked_sub(order.quantity)?;
        Some(stock)
    });
    let Some(stock) = enough else {
        batch.send(account_place(&order.customer), &Refund(order))?;
        return Ok(batch);
    };
    batch.add(stock.replace())?;
    batch.add(
        Reservation {
            place,
            order: order.place.clone(),
            quantity: order.quantity,
        }
        .create(),
    )?;
    batch.send(&*order.place, &Settled(State::Completed))?;
    Ok(batch)
}

async fn refund(
    shop: ContainerClient<Shop>,
    message: Received<Refund>,
    mut batch: OutboxBatch<Shop>,
) -> Handled<Shop> {
    let Refund(order) = message.message;
    let place = account_place(&order.customer);
    let account = shop.read(&AccountKey::new(&*place)).await?;
    let payment = shop.read(&PaymentKey::new(&*place, &*order.place)).await?;
    let (Some(mut account), Some(mut payment)) = (account, payment) else {
        return Err(HandlerError::permanently("the order has no payment"));
    };
    account.document.cents += payment.document.cents;
    payment.document.refunded = true;
    batch.add(account.replace())?;
    batch.add(payment.replace())?;
    batch.send(
        &*order.place,
        &Settled(State::Rejected("out of stock".to_owned())),
    )?;
    Ok(batch)
}

async fn settle(
    shop: ContainerClient<Shop>,
    message: Received<Settled>,
    mut batch: OutboxBatch<Shop>,
) -> Handled<Shop> {
    let place = match batch.partition().values() {
        [cdb_model::value::PartitionKeyValue::String(place)] => place.clone(),
        _ => {
            return Err(HandlerError::permanently(
                "this is not the partition of an order",
            ));
        }
    };
    let Some(mut order) = shop.read(&OrderKey::new(place)).await? else {
        return Err(HandlerError::permanently("the order does not exist"));
    };
    order.document.state = message.message.0;
    batch.add(order.replace())?;
    Ok(batch)
}
