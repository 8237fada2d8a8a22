//! A store of documents: its errors after concurrent writes, and its writes after lost answers.

use std::time::Duration;

use cdb_coordination::Repository;
use cdb_coordination::repository::{Criteria, RepositoryError};
use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_model::{Container, Document, Timestamp};
use serde::{Deserialize, Serialize};

use crate::lease::account::{Account, Order, Shop, order};

const SECOND: Duration = Duration::from_secs(1);

async fn orders(account: &Account) -> Repository<Shop, Order> {
    Repository::new(&account.shop().await)
}

#[tokio::test(start_paused = true)]
async fn a_write_is_refused_after_another_writer_was_faster() {
    let account = Account::new().await;
    let orders = orders(&account).await;
    let first = orders.run(order("ann", 1).create()).await.unwrap();
    let taken = orders.run(order("ann", 1).create()).await.unwrap_err();
    assert!(matches!(taken, RepositoryError::Exists { .. }), "{taken}");

    let mut paid = first.clone();
    paid.document.state = "paid".to_owned();
    let paid = orders.run(paid.replace()).await.unwrap();
    let late = orders.run(first.replace()).await.unwrap_err();
    assert!(matches!(late, RepositoryError::Changed { .. }), "{late}");
    let late = orders.run(first.delete()).await.unwrap_err();
    assert!(matches!(late, RepositoryError::Changed { .. }), "{late}");
    orders.run(paid.delete()).await.unwrap();
    let late = orders.run(paid.replace()).await.unwrap_err();
    assert!(matches!(late, RepositoryError::Gone { .. }), "{late}");
    assert!(orders.run(paid.delete()).await.unwrap_err().is_conflict());
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_resolved_by_reading() {
    let account = Account::new().await;
    let orders = orders(&account).await;
    let emulator = or_skip!(account.emulator(), "needs the emulator");
    for effect in [
        Effect::DropAnswer,
        Effect::DropRequest,
        Effect::StatusAfterEffect { status: 500 },
    ] {
        emulator.inject(Fault::once(effect.clone()));
        let mut stored = orders.run(order("ann", 1).create()).await.unwrap();
        emulator.inject(Fault::once(effect.clone()));
        stored.document.state = "paid".to_owned();
        let stored = orders.run(stored.replace()).await.unwrap();
        let key = order("ann", 1).key();
        let found = orders.find(&key).await.unwrap().unwrap();
        assert_eq!(
            (found.document.state.as_str(), found.etag),
            ("paid", stored.etag.clone())
        );
        emulator.inject(Fault::once(effect));
        orders.run(key.delete()).await.unwrap();
        assert!(orders.find(&key).await.unwrap().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn equal_content_of_another_writer_does_not_count_as_a_success() {
    let account = Account::new().await;
    let (ours, theirs) = (orders(&account).await, orders(&account).await);
    let emulator = or_skip!(account.emulator(), "needs the emulator");
    let new = order("ann", 1);
    // Our request is lost, and the other writer is faster than the read after it.
    let late = |kind| {
        emulator.inject(Fault::once(Effect::DropRequest).on(kind));
        let read = Fault::script([
            Effect::DropRequest,
            Effect::DropRequest,
            Effect::DropRequest,
        ]);
        emulator.inject(read.on(OperationKind::Read));
    };
    let while_reading = || tokio::time::sleep(Duration::from_millis(3));
    let undecided = |error: RepositoryError| {
        let is_undecided = matches!(error, RepositoryError::Undecided { .. });
        assert!(is_undecided && error.is_ambiguous(), "{error}");
    };

    late(OperationKind::Create);
    let (our, their) = tokio::join!(ours.run(new.create()), async {
        while_reading().await;
        theirs.run(new.create()).await
    });
    undecided(our.unwrap_err());
    let seen = their.unwrap();

    let mut paid = seen.clone();
    paid.document.state = "paid".to_owned();
    late(OperationKind::Replace);
    let (our, their) = tokio::join!(ours.run(paid.replace()), async {
        while_reading().await;
        theirs.run(paid.replace()).await
    });
    undecided(our.unwrap_err());
    let seen = their.unwrap();

    late(OperationKind::Delete);
    let (our, their) = tokio::join!(ours.run(seen.delete()), async {
        while_reading().await;
        theirs.run(seen.delete()).await
    });
    undecided(our.unwrap_err());
    their.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_upsert_creates_or_replaces_and_a_patch_returns_the_version() {
    let account = Account::new().await;
    let orders = orders(&account).await;
    let key = order("ann", 1).key();
    let missing = orders.run(key.patch().set(Order::PARCELS, 1)).await;
    let missing = missing.unwrap_err();
    assert!(matches!(missing, RepositoryError::Gone { .. }), "{missing}");
    for (parcels, effect) in [(1, Effect::Pass), (2, Effect::DropAnswer)] {
        if let Some(emulator) = account.emulator() {
            emulator.inject(Fault::once(effect));
        }
        let order = Order {
            parcels,
            ..order("ann", 1)
        };
        let stored = orders.run(order.upsert()).await.unwrap();
        let found = orders.find(&key).await.unwrap().unwrap();
        assert_eq!((found.parcels, found.etag), (parcels, stored.etag));
    }
    let open = key
        .patch()
        .set(Order::PARCELS, 3)
        .when_eq(Order::STATE, "open");
    let etag = orders.run(open).await.unwrap();
    assert_eq!(orders.find(&key).await.unwrap().unwrap().etag, etag);
    let paid = key
        .patch()
        .set(Order::PARCELS, 4)
        .when_eq(Order::STATE, "paid");
    let refused = orders.run(paid).await.unwrap_err();
    assert!(
        matches!(refused, RepositoryError::Changed { .. }),
        "{refused}"
    );
    orders.run(key.delete()).await.unwrap();
    assert!(orders.find(&key).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn counts_match_the_criteria() {
    let account = Account::new().await;
    let orders = orders(&account).await;
    for number in 0..9 {
        let state = if number < 4 { "open" } else { "paid" };
        let order = Order {
            state: state.to_owned(),
            ..order("ann", number)
        };
        orders.run(order.create()).await.unwrap();
    }
    let paid = Criteria::all().with("state", "paid").limit(1);
    assert_eq!(orders.count(&paid).await.unwrap(), 5);
    let counts = orders.count_each(Order::STATE, ["open", "paid", "lost"]);
    let counted = counts.await.unwrap();
    assert_eq!(counted, [("open", 4), ("paid", 5), ("lost", 0)]);
    let page = orders.query_in("ann", &paid).await.unwrap();
    assert_eq!((page.rows.len(), page.next.is_some()), (1, true));
    let elsewhere = orders.query_in("bob", &paid).await.unwrap();
    assert!(elsewhere.rows.is_empty() && elsewhere.next.is_none());
}

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "invoice", id = "{customer}:invoice")]
struct Invoice {
    #[document(partition_key)]
    customer: String,
    paid: bool,
    #[document(created_at)]
    created_at: Option<Timestamp>,
    #[document(updated_at)]
    updated_at: Option<Timestamp>,
}

#[derive(Container)]
enum Invoices {
    Invoice(Invoice),
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_resolved_for_a_document_with_write_times() {
    let (account, shop) = Account::with_shop().await;
    let emulator = or_skip!(account.emulator(), "needs the emulator");
    shop.run(order("ann", 1).create()).await.unwrap();
    let invoices = Repository::<Invoices, Invoice>::new(&account.container());
    let invoice = Invoice {
        customer: "ann".to_owned(),
        paid: false,
        created_at: None,
        updated_at: None,
    };
    emulator.inject(Fault::once(Effect::DropAnswer));
    invoices.run(invoice.create()).await.unwrap();
    let mut stored = invoices
        .find(&InvoiceKey::new("ann"))
        .await
        .unwrap()
        .unwrap();
    stored.document.paid = true;
    tokio::time::sleep(SECOND).await;
    emulator.inject(Fault::once(Effect::DropAnswer));
    let etag = invoices.run(stored.replace()).await.unwrap().etag;
    let found = invoices.find(&InvoiceKey::new("ann")).await.unwrap();
    let found = found.unwrap();
    assert!(found.document.paid && found.etag == etag);
}
