//! A leasing store: the application keeps invoices as its own documents, and senders claim them
//! with leases. An invoice is sent while one sender holds it. A sender dies with two invoices; the
//! others send them when the leases have expired.
//!
//!     cargo run -p cdb-coordination --example leased_invoices

use std::error::Error;
use std::time::Duration;

use cdb_client::{Bootstrap, ContainerClient, CosmosClient, MasterKey};
use cdb_coordination::{LeaseError, LeaseGuard, Leases, Store};
use cdb_emulator::Emulator;
use cdb_model::{Container, Document, Lease, Patch, Query};
use serde::{Deserialize, Serialize};

const INVOICES: u32 = 20;

/// Short, so that the example does not wait for a minute after the sender dies.
const LEASE: Duration = Duration::from_secs(2);

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "invoice", id = "{customer}:invoice:{number}")]
struct Invoice {
    #[document(partition_key)]
    customer: String,
    number: u32,
    #[document(index)]
    state: String,
    sent_by: Option<String>,
    #[document(lease)]
    lease: Lease,
}

#[derive(Container, Clone, Debug)]
#[container(partition_key = "/customer")]
enum Billing {
    Invoice(Invoice),
}

/// The invoices as one sender sees them.
struct InvoiceStore {
    sender: String,
    store: Store<Billing, Invoice>,
    leases: Leases<Billing, Invoice>,
}

impl InvoiceStore {
    fn new(container: &ContainerClient<Billing>, sender: &str) -> Self {
        let store = Store::new(container);
        Self {
            sender: sender.to_owned(),
            leases: store.leases(sender).with_duration(LEASE),
            store,
        }
    }

    /// Leases up to `count` open invoices.
    async fn claim(&self, count: usize) -> Result<Vec<LeaseGuard<Billing, Invoice>>, LeaseError> {
        let open = Query::across_partitions().filter(Invoice::STATE.eq("open"));
        self.leases.take_next(open, count).await
    }

    /// Notes that an invoice was sent, and releases it: refused after the lease was lost.
    async fn sent(&self, invoice: LeaseGuard<Billing, Invoice>) -> Result<(), LeaseError> {
        let sent = Patch::new()
            .set(Invoice::STATE, "sent")
            .set(Invoice::SENT_BY, Some(self.sender.clone()));
        invoice.release_with(sent).await
    }

    async fn count(&self, state: &str) -> Result<u64, Box<dyn Error>> {
        let counts = self.store.count_each(Invoice::STATE, [state]).await?;
        Ok(counts[0].1)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // An embedded emulator instead of an account.
    let emulator = Emulator::start().await?;
    let client = CosmosClient::builder(emulator.endpoint())
        .credential(MasterKey::new(emulator.key())?)
        .build()?;
    let database = client.database("billing");
    let container = database.bootstrap("invoices", Bootstrap::CreateIfMissing);
    let container: ContainerClient<Billing> = container.await?;
    let stores = ["left", "right"].map(|sender| InvoiceStore::new(&container, sender));
    for number in 0..INVOICES {
        let invoice = Invoice {
            customer: format!("customer-{}", number % 5),
            number,
            state: "open".to_owned(),
            sent_by: None,
            lease: Lease::free(),
        };
        stores[0].store.create(invoice).await?;
    }

    let dying = InvoiceStore::new(&container, "dying").claim(2).await?;
    println!("a sender dies with {} invoices", dying.len());
    dying.into_iter().for_each(std::mem::forget);

    let (left, right) = tokio::try_join!(send_all(&stores[0]), send_all(&stores[1]))?;
    println!("left has sent {left} invoices, right {right}");
    assert_eq!(left + right, INVOICES, "each invoice is sent once");
    Ok(())
}

/// Sends until no invoice is open. Returns how many this sender has sent.
async fn send_all(store: &InvoiceStore) -> Result<u32, Box<dyn Error>> {
    let mut sent = 0;
    while store.count("open").await? > 0 {
        let claimed = store.claim(3).await?;
        if claimed.is_empty() {
            // Another sender holds the rest, until it has sent them or its leases expire.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        for invoice in claimed {
            // Here the invoice would be printed or mailed.
            store.sent(invoice).await?;
            sent += 1;
        }
    }
    Ok(sent)
}
