//! The operations of a guard, and the lease after the guard is dropped.

use std::time::Duration;

use cdb_coordination::LeaseError;
use cdb_model::{Batch, Document, Patch};

use crate::lease::account::{Account, Guard, Label, Order, leases, order, stored, with_order};

async fn held(account: &Account) -> (Order, Guard) {
    let shop = account.shop().await;
    let order = order("ann", 1);
    shop.run(order.create()).await.unwrap();
    let guard = leases(&shop, "holder").acquire(&order.key()).await.unwrap();
    (order, guard)
}

#[tokio::test(start_paused = true)]
async fn every_write_of_the_holder_renews_the_lease() {
    let account = Account::new().await;
    let (order, mut guard) = held(&account).await;
    let shop = account.shop().await;
    let first = stored(&shop, &order).await.lease.until();
    ok!(guard.run(Patch::new().incr(Order::PARCELS, 1)));
    let parcels = guard.refresh().await.unwrap().parcels;
    let more = Order {
        parcels: parcels + 1,
        ..order.clone()
    };
    guard.run(more.replace()).await.unwrap();
    let label = Label {
        customer: "ann".to_owned(),
        number: 1,
    };
    let mut labels = Batch::new("ann");
    labels.add(label.create()).unwrap();
    let parcel = Patch::new().incr(Order::PARCELS, 1);
    guard.run((parcel, labels)).await.unwrap();
    let now = stored(&shop, &order).await;
    assert_eq!((now.parcels, now.lease.token()), (3, 1));
    assert!(now.lease.until() >= first);
    assert!(shop.read(&label.key()).await.unwrap().is_some());
    guard.refresh().await.unwrap();
    guard.release_with(order.key().delete()).await.unwrap();
    assert!(shop.read(&order.key()).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_releases_its_lease() {
    let account = Account::new().await;
    let (order, guard) = held(&account).await;
    drop(guard);
    let others = leases(&account.shop().await, "next");
    for _ in 0..200 {
        if others.acquire(&order.key()).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the lease was not released within two seconds");
}

#[tokio::test(start_paused = true)]
async fn a_guard_dropped_outside_of_a_runtime_leaves_its_lease_to_expire() {
    let account = Account::new().await;
    let (order, guard) = held(&account).await;
    std::thread::spawn(move || drop(guard)).join().unwrap();
    let lease = stored(&account.shop().await, &order).await.lease;
    assert_eq!(lease.holder(), Some("holder"));
}

#[tokio::test(start_paused = true)]
async fn a_change_by_a_writer_without_a_lease_is_not_a_lost_lease() {
    let account = Account::new().await;
    let (order, mut guard) = held(&account).await;
    let shop = account.shop().await;
    let foreign = Patch::new().set(Order::STATE, "cancelled");
    shop.run(foreign.at(&order.key())).await.unwrap();
    let changed = guard.run(order.replace()).await.unwrap_err();
    assert!(matches!(changed, LeaseError::Changed { .. }), "{changed}");
    assert_eq!(guard.refresh().await.unwrap().state, "cancelled");
    let open = Patch::new()
        .set(Order::PARCELS, 1)
        .when(Order::STATE.eq("open"));
    let refused = guard.run(open).await.unwrap_err();
    assert!(matches!(refused, LeaseError::Changed { .. }), "{refused}");
    ok!(guard.run(Patch::new().set(Order::PARCELS, 1)));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_does_not_hide_a_change_by_a_writer_without_a_lease() {
    for is_deletion in [false, true] {
        let account = Account::new().await;
        let (order, mut guard) = held(&account).await;
        let shop = account.shop().await;
        let foreign = Patch::new().set(Order::STATE, "cancelled");
        shop.run(foreign.at(&order.key())).await.unwrap();
        guard.renew().await.unwrap();
        guard.renew().await.unwrap();
        let refused = if is_deletion {
            guard.release_with(order.key().delete()).await.unwrap_err()
        } else {
            let refused = guard.run(order.replace()).await.unwrap_err();
            let seen = guard.refresh().await.unwrap().clone();
            assert_eq!(seen.state, "cancelled");
            guard.run(seen.replace()).await.unwrap();
            refused
        };
        assert!(matches!(refused, LeaseError::Changed { .. }), "{refused}");
        assert_eq!(stored(&shop, &order).await.state, "cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_never_undoes_a_change_that_was_not_read() {
    let account = Account::new().await;
    let (order, mut guard) = held(&account).await;
    let shop = account.shop().await;
    let foreign = Patch::new().set(Order::STATE, "cancelled");
    shop.run(foreign.at(&order.key())).await.unwrap();
    ok!(guard.run(Patch::new().set(Order::PARCELS, 1)));
    let refused = guard.release_with(order.key().delete()).await.unwrap_err();
    assert!(matches!(refused, LeaseError::Unread { .. }), "{refused}");
    assert_eq!(stored(&shop, &order).await.state, "cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_replacement_never_undoes_a_patch_that_was_not_read() {
    let account = Account::new().await;
    let (order, mut guard) = held(&account).await;
    ok!(guard.run(Patch::new().set(Order::PARCELS, 1)));
    let refused = guard.run(order.replace()).await.unwrap_err();
    assert!(matches!(refused, LeaseError::Unread { .. }), "{refused}");
    guard.refresh().await.unwrap();
    guard.run(order.replace()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_only_after_half_of_its_duration() {
    let (_account, shop, order) = with_order().await;
    let short = leases(&shop, "holder").with_duration(Duration::from_secs(4));
    let mut guard = short.acquire(&order.key()).await.unwrap();
    assert!(!guard.renew_if_due().await.unwrap());
    tokio::time::sleep(Duration::from_millis(2200)).await;
    assert!(guard.renew_if_due().await.unwrap());
    assert!(!guard.renew_if_due().await.unwrap());
}
