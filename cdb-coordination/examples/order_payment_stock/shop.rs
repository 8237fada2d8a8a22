//! A shop with three kinds of partition that never share a transaction: orders, accounts, stock.
//!
//! Each step changes one partition and sends the message that leads to the next, in one batch. Nobody coordinates: an
//! order that cannot be served takes the same way back.

use cdb_client::ContainerClient;
use cdb_coordination::Draft;
use cdb_coordination::{
    Failed, Handled, Mail, Mailbox, MailboxBuilder, Message, OutboxError, Received,
};
use cdb_model::{Container, Document};
use serde::{Deserialize, Serialize};

/// An order, in a partition of its own.
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

/// What a customer has, in a partition of its own.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "account", id = "{place}:account")]
pub(crate) struct Account {
    #[document(partition_key)]
    pub(crate) place: String,
    pub(crate) cents: u64,
}

/// What a customer has paid for an order, beside the account.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "payment", id = "{place}:payment:{order}")]
pub(crate) struct Payment {
    #[document(partition_key)]
    pub(crate) place: String,
    pub(crate) order: String,
    pub(crate) cents: u64,
    pub(crate) refunded: bool,
}

/// What is on hand of an item, in a partition of its own.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "stock", id = "{place}:stock")]
pub(crate) struct Stock {
    #[document(partition_key)]
    pub(crate) place: String,
    pub(crate) on_hand: u32,
}

/// What is set aside for an order, beside the stock.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "reservation", id = "{place}:reservation:{order}")]
pub(crate) struct Reservation {
    #[document(partition_key)]
    pub(crate) place: String,
    pub(crate) order: String,
    pub(crate) quantity: u32,
}

#[derive(Container)]
#[container(partition_key = "/place")]
pub(crate) enum Shop {
    Order(Order),
    Account(Account),
    Payment(Payment),
    Stock(Stock),
    Reservation(Reservation),
    Mail(Mail<Shop>),
}

/// To the account: pay for an order.
#[derive(Serialize, Deserialize)]
pub(crate) struct PayOrder(Order);

/// To the stock: set aside what was paid for.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReserveStock(Order);

/// To the account: there is not enough on hand.
#[derive(Serialize, Deserialize)]
pub(crate) struct Refund(Order);

/// To the order: how it ended.
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

/// Stores an order and asks for its payment, in one batch.
pub(crate) async fn place_order(mailbox: &Mailbox<Shop>, order: Order) -> Result<(), OutboxError> {
    let mut draft = mailbox.draft(&*order.place);
    draft.batch().create(&order)?;
    let account = account_place(&order.customer);
    draft
        .send(account, &PayOrder(order))
        .expect("an order is JSON");
    mailbox.commit(draft).await
}

/// A mailbox that takes every step. Programs that take one of them each would do as well.
pub(crate) fn mailbox(container: ContainerClient<Shop>) -> MailboxBuilder<Shop> {
    let shop = container.clone();
    let pay_shop = shop.clone();
    let reserve_shop = shop.clone();
    let refund_shop = shop.clone();
    Mailbox::builder(container)
        .on(move |message, draft| pay(pay_shop.clone(), message, draft))
        .on(move |message, draft| reserve(reserve_shop.clone(), message, draft))
        .on(move |message, draft| refund(refund_shop.clone(), message, draft))
        .on(move |message, draft| settle(shop.clone(), message, draft))
}

async fn pay(
    shop: ContainerClient<Shop>,
    message: Received<PayOrder>,
    mut draft: Draft<Shop>,
) -> Handled<Shop> {
    let PayOrder(order) = message.message;
    let place = account_place(&order.customer);
    let Some(mut account) = shop.read(&AccountKey::new(&*place)).await? else {
        draft.send(
            &*order.place,
            &Settled(State::Rejected("no such customer".to_owned())),
        )?;
        return Ok(draft);
    };
    let Some(left) = account.document.cents.checked_sub(order.cents) else {
        draft.send(
            &*order.place,
            &Settled(State::Rejected("not enough money".to_owned())),
        )?;
        return Ok(draft);
    };
    account.document.cents = left;
    draft.batch().replace_stored(&account)?;
    draft.batch().create(&Payment {
        place,
        order: order.place.clone(),
        cents: order.cents,
        refunded: false,
    })?;
    draft.send(stock_place(&order.item), &ReserveStock(order))?;
    Ok(draft)
}

async fn reserve(
    shop: ContainerClient<Shop>,
    message: Received<ReserveStock>,
    mut draft: Draft<Shop>,
) -> Handled<Shop> {
    let ReserveStock(order) = message.message;
    let place = stock_place(&order.item);
    let stock = shop.read(&StockKey::new(&*place)).await?;
    let enough = stock.and_then(|mut stock| {
        stock.document.on_hand = stock.document.on_hand.checked_sub(order.quantity)?;
        Some(stock)
    });
    let Some(stock) = enough else {
        draft.send(account_place(&order.customer), &Refund(order))?;
        return Ok(draft);
    };
    draft.batch().replace_stored(&stock)?;
    draft.batch().create(&Reservation {
        place,
        order: order.place.clone(),
        quantity: order.quantity,
    })?;
    draft.send(&*order.place, &Settled(State::Completed))?;
    Ok(draft)
}

async fn refund(
    shop: ContainerClient<Shop>,
    message: Received<Refund>,
    mut draft: Draft<Shop>,
) -> Handled<Shop> {
    let Refund(order) = message.message;
    let place = account_place(&order.customer);
    let account = shop.read(&AccountKey::new(&*place)).await?;
    let payment = shop.read(&PaymentKey::new(&*place, &*order.place)).await?;
    let (Some(mut account), Some(mut payment)) = (account, payment) else {
        return Err(Failed::permanently("there is nothing to refund"));
    };
    account.document.cents += payment.document.cents;
    payment.document.refunded = true;
    draft.batch().replace_stored(&account)?;
    draft.batch().replace_stored(&payment)?;
    draft.send(
        &*order.place,
        &Settled(State::Rejected("out of stock".to_owned())),
    )?;
    Ok(draft)
}

async fn settle(
    shop: ContainerClient<Shop>,
    message: Received<Settled>,
    mut draft: Draft<Shop>,
) -> Handled<Shop> {
    let place = match draft.partition().values() {
        [cdb_model::PartitionKeyValue::String(place)] => place.clone(),
        _ => return Err(Failed::permanently("this is no order's partition")),
    };
    let Some(mut order) = shop.read(&OrderKey::new(place)).await? else {
        return Err(Failed::permanently("there is no such order"));
    };
    order.document.state = message.message.0;
    draft.batch().replace_stored(&order)?;
    Ok(draft)
}
