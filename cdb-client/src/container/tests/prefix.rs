//! Queries of a prefix of a hierarchical partition key.

use cdb_model::value::AnyPartitionKey;
use cdb_model::{Batch, Container, Document, PartitionKey, Patch, Query};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::fixture::{client, listing, page};
use crate::container::ContainerClient;
use crate::error::ErrorKind;
use crate::partitions::EpkPart;
use crate::transport::{Script, Step};

#[derive(Document, Serialize, Deserialize, Debug)]
#[document(type = "invoice", id = "invoice:{number}")]
struct Invoice {
    #[document(index)]
    number: u64,
    #[document(partition_key(1))]
    tenant: String,
    #[document(partition_key(2))]
    user: String,
    cents: u64,
}

#[derive(Container, Debug)]
enum Ledger {
    Invoice(Invoice),
}

fn ledger(script: &Script) -> ContainerClient<Ledger> {
    client(script).database("db").container("c")
}

fn invoices(numbers: &[u64]) -> Step {
    let rows = numbers.iter().map(|number| {
        let id = format!("invoice:{number}");
        json!({ "id": id, "type": "invoice", "number": number, "tenant": "acme", "user": "ada", "cents": 5, "_etag": "e", "_ts": 5 })
    });
    page(&rows.collect())
}

fn of_acme() -> Query<Invoice> {
    Query::in_partition_prefix("acme").order_by(Invoice::NUMBER.asc())
}

/// Sources: azure-cosmos-dotnet-v3 `RequestInvokerHandler.cs`, azure-sdk-for-python
/// `_cosmos_client_connection_async.py` (`isPrefixPartitionQuery`), azure-sdk-for-rust#4729.
#[tokio::test(start_paused = true)]
async fn only_the_parts_of_the_prefix_are_read() {
    let EpkPart { min, max } = EpkPart::of_prefix(&"acme".into()).unwrap();
    let (low, middle) = (min.to_string(), format!("{min}20"));
    let high = max.to_string();
    assert_eq!(high, format!("{low}FF"));
    let ranges = || {
        listing(&[
            ("0", "", &low[..4], &[]),
            ("1", &low[..4], &middle, &[]),
            ("2", &middle, "FF", &[]),
        ])
    };
    let more = || invoices(&[1]).header("x-ms-continuation", "more");
    let script = Script::new([
        ranges(),
        invoices(&[1, 3]),
        invoices(&[2]),
        more(),
        invoices(&[2]),
        more(),
        invoices(&[2]),
    ]);
    let ledger = ledger(&script);
    let rows = ledger.query(of_acme()).all().await.unwrap();
    let numbers: Vec<u64> = rows.iter().map(|row| row.document.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
    let sent = |name| script.sent_header(name).split_off(1);
    let both = |texts: [&str; 2]| texts.map(|text| Some(text.to_owned()));
    assert_eq!(
        sent("x-ms-documentdb-partitionkeyrangeid"),
        both(["1", "2"])
    );
    assert_eq!(sent("x-ms-start-epk"), both([&low, &middle]));
    assert_eq!(sent("x-ms-end-epk"), both([&middle, &high]));
    let kind = "EffectivePartitionKeyRange";
    assert_eq!(sent("x-ms-read-key-type"), both([kind, kind]));
    assert_eq!(sent("x-ms-documentdb-partitionkey"), [None, None]);
    // A page continues within the same bounds.
    let page = ledger.query(of_acme()).page(1, None).await.unwrap();
    ledger
        .query(of_acme())
        .page(1, page.next.as_ref())
        .await
        .unwrap();
    assert_eq!(sent("x-ms-start-epk")[4], Some(low));
}

#[tokio::test(start_paused = true)]
async fn a_whole_key_is_one_partition() {
    let script = Script::new([invoices(&[1])]);
    let one = Query::<Invoice>::in_partition_prefix(("acme", "ada"));
    ledger(&script).query(one).all().await.unwrap();
    let key = Some(r#"["acme","ada"]"#.to_owned());
    assert_eq!(script.sent_header("x-ms-documentdb-partitionkey"), [key]);
}

#[tokio::test(start_paused = true)]
async fn a_key_without_all_levels_is_refused_before_sending() {
    let script = Script::new([]);
    let ledger = ledger(&script);
    let key = InvoiceKey::new(1);
    let patch = Patch::<Invoice>::new().set(Invoice::CENTS, 2_u64);
    let mut batch = Batch::<Ledger>::new("acme");
    batch.add(patch.at(&key)).unwrap();
    let query = |query: Query<Invoice>| ledger.query(query);
    let refused = [
        query(Query::in_partition("acme")).all().await.map(drop),
        query(Query::in_partition("acme"))
            .page(1, None)
            .await
            .map(drop),
        query(Query::in_partition(("acme", "ada", 1)))
            .all()
            .await
            .map(drop),
        query(Query::in_partition_prefix(("acme", "ada", 1)))
            .all()
            .await
            .map(drop),
        ledger.execute(&batch).await.map(drop),
        ledger.read(key.in_partition("acme")).await.map(drop),
        ledger
            .run(patch.at(key.in_partition("acme")))
            .await
            .map(drop),
        ledger.run(key.in_partition("acme").delete()).await,
        ledger
            .read_many(
                std::slice::from_ref(&key)
                    .iter()
                    .map(|key| key.in_partition("acme")),
            )
            .await
            .map(drop),
        ledger
            .read_many(
                [("acme", key)]
                    .iter()
                    .map(|(partition, key)| key.in_partition(partition)),
            )
            .await
            .map(drop),
        ledger.physical_partition_of(&"acme".into()).await.map(drop),
    ];
    for result in refused {
        let text = result.unwrap_err().to_string();
        assert!(
            text.contains("of 2 levels of `Ledger` (/tenant, /user)"),
            "{text}"
        );
        assert!(text.contains("`Query::in_partition_prefix`"), "{text}");
    }
}

/// Source: concepts-limits, "Per-item limits": a partition key value has at most 2,048 bytes.
#[tokio::test(start_paused = true)]
async fn a_key_with_a_value_that_is_too_long_is_refused_before_sending() {
    let script = Script::new([]);
    let ledger = ledger(&script);
    // 2,050 bytes, but only 1,025 characters.
    let long = "ä".repeat(1025);
    let (whole, number) = (("acme", &*long), InvoiceKey::new(1));
    let invoice = Invoice {
        number: 1,
        tenant: "acme".to_owned(),
        user: long.clone(),
        cents: 5,
    };
    let address = number.in_partition(whole);
    let patch = Patch::<Invoice>::new().set(Invoice::CENTS, 2_u64);
    let mut batch = Batch::<Ledger>::new(whole);
    batch.add(invoice.create()).unwrap();
    let other = InvoiceKey::new(2);
    let query = |query: Query<Invoice>| ledger.query(query);
    let of_null = json!({ "tenant": null, "user": long });
    let paths = ["/tenant".to_owned(), "/user".to_owned()];
    let of_null = AnyPartitionKey::of(&of_null, &paths).unwrap();
    let refused = [
        ledger.run(invoice.create()).await.map(drop),
        ledger.create_if_missing(&invoice).await.map(drop),
        ledger.run(patch.at(&address)).await.map(drop),
        ledger.run(address.clone().delete()).await,
        ledger.read(&address).await.map(drop),
        ledger
            .read_many([&address, &other.in_partition(whole)])
            .await
            .map(drop),
        ledger.execute(&batch).await.map(drop),
        query(Query::in_partition(whole)).all().await.map(drop),
        query(Query::in_partition(whole))
            .page(1, None)
            .await
            .map(drop),
        query(Query::in_partition_prefix(whole))
            .all()
            .await
            .map(drop),
        ledger.physical_partition_of(&whole.into()).await.map(drop),
        ledger
            .upsert_json(&PartitionKey::from(whole).into(), "{}")
            .await,
        ledger.upsert_json(&of_null, "{}").await,
    ];
    for (place, refused) in refused.into_iter().enumerate() {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadRequest, "{place}: {error}");
        let text = error.to_string();
        let named = "level 2 of the partition key has 2050 bytes, the service allows 2048";
        assert!(text.contains(named), "{place}: {text}");
    }
    let prefix = Query::<Invoice>::in_partition_prefix(&*long);
    let error = ledger.query(prefix).all().await.unwrap_err().to_string();
    assert!(
        error.contains("level 1 of the partition key has 2050 bytes"),
        "{error}"
    );
    assert_eq!(script.requests().len(), 0);
}
