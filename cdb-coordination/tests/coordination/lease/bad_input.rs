//! Missing documents, guards and batches that do not belong together, and extreme durations.

use std::time::Duration;

use cdb_coordination::LeaseError;
use cdb_model::{Batch, Document, Patch};

use crate::lease::account::{Account, Label, Order, OrderKey, leases, order, stored, with_order};

#[tokio::test(start_paused = true)]
async fn a_missing_document_cannot_be_leased_or_broken() {
    let account = Account::new().await;
    let leases = leases(&account.shop().await, "holder");
    let key = OrderKey::new("ann", 404);
    let gone = leases.acquire(&key).await.unwrap_err();
    assert_eq!(gone.to_string(), "order `ann:404` does not exist");
    assert!(leases.break_lease(&key).await.unwrap_err().is_gone());
}

#[tokio::test(start_paused = true)]
async fn a_document_deleted_during_its_lease_is_gone_for_the_holder() {
    let (_account, shop) = Account::with_shop().await;
    for write in 0..4 {
        let order = order("ann", write);
        shop.run(order.create()).await.unwrap();
        let mut guard = leases(&shop, "holder").acquire(&order.key()).await.unwrap();
        shop.run(order.key().delete()).await.unwrap();
        let patch = Patch::new().set(Order::PARCELS, 1);
        let refused = match write {
            0 => guard.run(patch).await,
            1 => guard.run(order.replace()).await,
            2 => guard.refresh().await.map(drop),
            _ => guard.release().await,
        };
        assert!(refused.unwrap_err().is_gone(), "write {write}");
        assert!(shop.read(&order.key()).await.unwrap().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_recreated_document_is_not_leased_by_the_former_holder() {
    let (_account, shop, order) = with_order().await;
    let mut guard = leases(&shop, "holder").acquire(&order.key()).await.unwrap();
    shop.run(order.key().delete()).await.unwrap();
    shop.run(order.create()).await.unwrap();
    let refused = guard.run(Patch::new().set(Order::PARCELS, 1)).await;
    assert!(refused.unwrap_err().is_lost());
    assert_eq!(stored(&shop, &order).await, order);
}

#[tokio::test(start_paused = true)]
async fn an_operation_on_another_document_or_version_is_refused_unsent() {
    let (account, shop, order) = with_order().await;
    let other = crate::lease::account::order("ann", 2);
    shop.run(other.create()).await.unwrap();
    let mut guard = leases(&shop, "holder").acquire(&order.key()).await.unwrap();
    let first = guard.stored().clone();
    let requests = || {
        account
            .emulator()
            .map(|emulator| emulator.requests().data_requests())
    };
    let sent = requests();
    let elsewhere = order.key().in_partition("bob");
    for refused in [
        guard.run(other.replace()).await,
        guard.run(other.key().patch().set(Order::PARCELS, 1)).await,
        guard.run(elsewhere.patch().set(Order::PARCELS, 1)).await,
    ] {
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, LeaseError::OtherDocument { .. }),
            "{refused}"
        );
    }
    let mut batch = Batch::new("ann");
    batch.add(order.replace()).unwrap();
    let refused = guard.run((Patch::new(), batch)).await.unwrap_err();
    assert!(
        matches!(refused, LeaseError::LeasedInBatch { .. }),
        "{refused}"
    );
    assert_eq!(requests(), sent);
    // A renewal does not change what was read.
    guard.renew().await.unwrap();
    guard.renew().await.unwrap();
    ok!(guard.run(first.patch().set(Order::PARCELS, 2)));
    let refused = guard.run(first.patch().set(Order::PARCELS, 3)).await;
    let refused = refused.unwrap_err();
    assert!(matches!(refused, LeaseError::Changed { .. }), "{refused}");
    guard.refresh().await.unwrap();
    let current = guard.stored().patch().set(Order::PARCELS, 1);
    guard.run(current).await.unwrap();
    assert_eq!(stored(&shop, &order).await.parcels, 1);
}

#[tokio::test(start_paused = true)]
async fn a_patch_of_the_version_that_was_read_does_not_change_another() {
    let (_account, shop, order) = with_order().await;
    let mut guard = leases(&shop, "holder").acquire(&order.key()).await.unwrap();
    let foreign = order.key().patch().set(Order::PARCELS, 7);
    shop.run(foreign).await.unwrap();
    let seen = guard.stored().patch().set(Order::PARCELS, 1);
    let refused = guard.run(seen).await.unwrap_err();
    assert!(matches!(refused, LeaseError::Changed { .. }), "{refused}");
    assert_eq!(stored(&shop, &order).await.parcels, 7);
    ok!(guard.run(Patch::new().set(Order::PARCELS, 8)));
    assert_eq!(stored(&shop, &order).await.parcels, 8);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_another_operation_of_a_batch_is_returned_as_it_is() {
    let (_account, shop) = Account::with_shop().await;
    let order = order("ann", 1);
    let label = Label {
        customer: "ann".to_owned(),
        number: 1,
    };
    shop.run(order.create()).await.unwrap();
    shop.run(label.create()).await.unwrap();
    let mut guard = leases(&shop, "holder").acquire(&order.key()).await.unwrap();
    let mut labels = Batch::new("ann");
    labels.add(label.create()).unwrap();
    let parcel = Patch::new().set(Order::PARCELS, 1);
    let refused = guard.run((parcel, labels)).await.unwrap_err();
    let LeaseError::Client(error) = refused else {
        panic!("{refused}")
    };
    assert!(error.is_conflict() && error.operation_index() == Some(1));
    assert_eq!(stored(&shop, &order).await.parcels, 0);
    guard.renew().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_any_duration_can_be_taken_and_released() {
    let (_account, shop, order) = with_order().await;
    for duration in [Duration::MAX, Duration::ZERO] {
        let leases = leases(&shop, "holder").with_duration(duration);
        let guard = leases.acquire(&order.key()).await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(stored(&shop, &order).await.lease.holder(), None);
    }
}
