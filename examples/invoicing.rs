//! Invoices of several tenants: a partition key of two levels, payments that count once, pages for a
//! web service, totals by SQL that is checked against the model, and reminders that workers lease.
//!
//! `cargo run -p cdb-examples --bin invoicing`

use std::time::Duration;

use cdb_provider::client::{ConnectionString, Error, Page};
use cdb_provider::model::{PartitionKeyFields, sql};
use cdb_provider::prelude::*;
use serde::{Deserialize, Serialize};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A customer of a tenant: the partition key of all documents about the customer.
#[derive(PartitionKeyFields, Serialize, Deserialize, Clone, Debug)]
struct Account {
    tenant: String,
    customer: String,
}

#[derive(Scalar, Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
enum State {
    Open,
    Paid,
    Reminded,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
struct Line {
    text: String,
    cents: u64,
}

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "invoice", id = "invoice:{number}")]
#[document(composite(BY_DUE = r#type, state, due))]
struct Invoice {
    #[serde(flatten)]
    #[document(partition_key)]
    account: Account,
    number: u64,
    #[document(index)]
    state: State,
    #[document(index)]
    due: Timestamp,
    #[document(index)]
    cents: u64,
    lines: Vec<Line>,
    #[document(lease)]
    #[serde(default)]
    lease: Lease,
}

/// A payment of the bank. Its reference is its id, so that a repeated notice pays once.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "payment", id = "payment:{reference}")]
struct Payment {
    #[serde(flatten)]
    #[document(partition_key)]
    account: Account,
    reference: String,
    invoice: u64,
    cents: u64,
}

#[derive(Container, Debug)]
enum Books {
    Invoice(Invoice),
    Payment(Payment),
}

/// The sum of a tenant's invoices in a state.
#[derive(Deserialize, Debug)]
struct Total {
    state: State,
    cents: u64,
}

impl Account {
    fn new(tenant: &str, customer: &str) -> Self {
        let (tenant, customer) = (tenant.to_owned(), customer.to_owned());
        Self { tenant, customer }
    }

    fn invoice(&self, number: u64, due: Timestamp, lines: &[(&str, u64)]) -> Invoice {
        let lines = lines.iter().map(|(text, cents)| Line {
            text: (*text).to_owned(),
            cents: *cents,
        });
        let lines: Vec<Line> = lines.collect();
        Invoice {
            account: self.clone(),
            number,
            state: State::Open,
            due,
            cents: lines.iter().map(|line| line.cents).sum(),
            lines,
            lease: Lease::default(),
        }
    }
}

/// What became of a notice of the bank.
#[derive(Debug, PartialEq)]
enum Booked {
    Paid,
    KnownBefore,
    NotOpen,
}

/// Stores the payment and marks the invoice as paid: both or neither.
async fn pay(books: &ContainerClient<Books>, payment: &Payment) -> Result<Booked, Failure> {
    let invoice = InvoiceKey::new(payment.invoice);
    let paid = invoice.patch().set(Invoice::STATE, State::Paid);
    let mut batch = Batch::new(&payment.account);
    let receipt = batch.add(payment.create())?;
    batch.add(paid.when(Invoice::STATE.ne(State::Paid) & Invoice::CENTS.eq(payment.cents)))?;
    match books.execute(&batch).await {
        Ok(_) => Ok(Booked::Paid),
        Err(error) if error.is_conflict() && error.operation_index() == Some(receipt.get()) => {
            Ok(Booked::KnownBefore)
        }
        Err(error) if error.is_precondition_failed() => Ok(Booked::NotOpen),
        Err(error) => Err(error.into()),
    }
}

/// Adds a line to an invoice that is still open, whatever other writers do.
async fn add_line(
    books: &ContainerClient<Books>,
    account: &Account,
    number: u64,
    line: Line,
) -> Result<(), Failure> {
    let invoice = InvoiceKey::new(number).in_partition(account);
    let add = |invoice: &mut Invoice| -> Result<(), Failure> {
        if invoice.state != State::Open {
            return Err(format!("invoice {number} is {:?}", invoice.state).into());
        }
        invoice.cents += line.cents;
        invoice.lines.push(line.clone());
        Ok(())
    };
    books.try_update(&invoice, add).await
}

/// Returns a page of a tenant's open invoices for a web service, which puts the position of the next
/// page into a link.
async fn open_invoices(
    books: &ContainerClient<Books>,
    tenant: &str,
    from: Option<&str>,
) -> Result<Page<Stored<Invoice>>, Failure> {
    let query =
        Query::<Invoice>::in_partition_prefix(tenant).filter(Invoice::STATE.eq(State::Open));
    let from = from.map(str::parse).transpose()?;
    let page = books.query(query.order_by(Invoice::BY_DUE));
    Ok(page.page(2, from.as_ref()).await?)
}

/// Sums up a tenant's invoices by state.
async fn totals(books: &ContainerClient<Books>, tenant: &str) -> Result<Vec<Total>, Error> {
    let by_state = sql!(
        "SELECT {Invoice::STATE}, SUM({Invoice::CENTS}) AS cents FROM {Invoice} GROUP BY {Invoice::STATE}" => Total
    );
    books
        .query(by_state.in_partition_prefix(tenant))
        .all()
        .await
}

/// Reminds the customers of overdue invoices. Any number of workers may run; each invoice has one.
async fn remind(books: &ContainerClient<Books>, worker: &str) -> Result<usize, Failure> {
    let leases = Leases::<Books, Invoice>::new(books, worker);
    let overdue = Invoice::STATE.eq(State::Open) & Invoice::DUE.lt(books.now());
    let query = Query::across_partitions().filter(overdue);
    let held = leases.take_next(query, 10).await?;
    let count = held.len();
    for invoice in held {
        println!(
            "{worker} reminds {} of {}",
            invoice.document().account.customer,
            invoice.document().number
        );
        let reminded = Patch::new().set(Invoice::STATE, State::Reminded);
        invoice.release_with(reminded).await?;
    }
    Ok(count)
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let emulator = cdb_emulator::Emulator::start().await?;
    // The account of COSMOS_ENDPOINT and COSMOS_KEY, if they are set.
    let account = ConnectionString::from_env_or(&emulator.connection_string())?;
    let cosmos = account.client()?.build()?;
    let books = cosmos.open::<Books>("invoicing", "books").await?;

    let (ada, bob) = (Account::new("acme", "ada"), Account::new("acme", "bob"));
    let day = Duration::from_secs(24 * 60 * 60);
    let (late, soon) = (books.now() - day, books.now() + day);
    let mut bulk = BulkBatch::new();
    bulk.add(ada.invoice(1, soon, &[("lamp", 4_200)]).upsert())?;
    bulk.add(ada.invoice(2, late, &[("desk", 19_900)]).upsert())?;
    bulk.add(bob.invoice(3, soon, &[("chair", 8_900)]).upsert())?;
    bulk.add(
        Account::new("other", "eve")
            .invoice(1, soon, &[("lamp", 4_200)])
            .upsert(),
    )?;
    for stored in books.execute_bulk(&bulk).await {
        stored?;
    }

    let line = Line {
        text: "bulb".to_owned(),
        cents: 300,
    };
    add_line(&books, &ada, 1, line).await?;
    let payment = Payment {
        account: ada.clone(),
        reference: "bank-7".to_owned(),
        invoice: 1,
        cents: 4_500,
    };
    println!(
        "notice: {:?}, repeated: {:?}",
        pay(&books, &payment).await?,
        pay(&books, &payment).await?
    );
    let second = Payment {
        reference: "bank-8".to_owned(),
        ..payment
    };
    println!("a second payment: {:?}", pay(&books, &second).await?);

    let mut page = open_invoices(&books, "acme", None).await?;
    loop {
        for invoice in &page.rows {
            println!(
                "open: {} of {}, {} cents",
                invoice.number, invoice.account.customer, invoice.cents
            );
        }
        let Some(next) = page.next else { break };
        page = open_invoices(&books, "acme", Some(&next.to_string())).await?;
    }
    println!("{} reminded", remind(&books, "worker-1").await?);
    for total in totals(&books, "acme").await? {
        println!("{:?}: {} cents", total.state, total.cents);
    }
    Ok(())
}
