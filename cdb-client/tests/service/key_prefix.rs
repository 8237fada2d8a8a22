//! Hierarchical partition keys: a prefix reads the documents of its tenant, and no others.

use cdb_client::Bootstrap;
use cdb_model::operation::BulkBatch;
use cdb_model::{Container, Document, Query, Timestamp};
use serde::{Deserialize, Serialize};

use crate::account::Account;

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "invoice", id = "invoice:{number}")]
struct Invoice {
    number: u64,
    #[document(partition_key(1))]
    tenant: String,
    #[document(partition_key(2))]
    user: String,
    cents: u64,
    #[document(soft_delete)]
    #[serde(default)]
    deleted_at: Option<Timestamp>,
}

#[derive(Container, Debug)]
enum Ledger {
    Invoice(Invoice),
}

#[tokio::test]
async fn a_prefix_reads_its_tenant_only() {
    let account = Account::new().await;
    let bootstrap = account
        .database
        .bootstrap::<Ledger>("ledger", Bootstrap::CreateIfMissing);
    let ledger = bootstrap.await.unwrap();
    let mut bulk = BulkBatch::<Ledger>::new();
    for number in 0..60 {
        let invoice = Invoice {
            number,
            tenant: format!("tenant-{}", number % 6),
            user: format!("user-{}", number % 5),
            cents: number,
            deleted_at: None,
        };
        bulk.add(invoice.create()).unwrap();
    }
    for result in ledger.execute_bulk(&bulk).await {
        result.unwrap();
    }
    for tenant in 0..6 {
        let all = || Query::<Invoice>::in_partition_prefix(format!("tenant-{tenant}"));
        let rows = ledger.query(all()).all().await.unwrap();
        let mut numbers: Vec<u64> = rows.iter().map(|row| row.document.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..10).map(|n| n * 6 + tenant).collect::<Vec<_>>());
        assert_eq!(ledger.query(all().count()).one().await.unwrap(), 10);
        let first = ledger.query(all()).page(7, None).await.unwrap();
        let rest = ok!(ledger.query(all()).page(7, first.next.as_ref()));
        assert_eq!((first.rows.len(), rest.rows.len()), (7, 3));
    }
    let (partition, key) = (("tenant-1", "user-2"), InvoiceKey::new(7));
    let invoice = key.in_partition(partition);
    ledger.soft_delete(invoice.clone()).await.unwrap();
    let rows = ledger
        .query(Query::<Invoice>::in_partition(partition))
        .all();
    assert_eq!(rows.await.unwrap().len(), 1);
    ledger.restore(invoice.clone()).await.unwrap();
    let raised = invoice.clone().patch().set(Invoice::CENTS, 5_u64);
    ledger.run(raised).await.unwrap();
    let found = ledger.read_many([invoice]).await.unwrap();
    let invoice = found[0].as_ref().unwrap();
    assert_eq!(
        (invoice.document.cents, invoice.document.deleted_at),
        (5, None)
    );
}
