//! Leases of documents by their keys.

use std::time::Duration;

use cdb_model::operation::Leasable;
use cdb_model::{Batch, Document, Patch};

use crate::lease::account::{Account, Order, leases, order, stored, with_order};

#[tokio::test(start_paused = true)]
async fn one_process_holds_a_document_and_the_others_get_its_name() {
    let (account, shop, order) = with_order().await;
    let guard = leases(&shop, "first").acquire(&order.key()).await.unwrap();
    assert_eq!(guard.token(), 1);
    assert!(guard.remaining() > Duration::from_secs(55));

    let other = leases(&account.shop().await, "second");
    let refused = other.acquire(&order.key()).await.unwrap_err();
    assert!(refused.is_held(), "{refused}");
    assert!(refused.to_string().contains("held by `first`"), "{refused}");

    guard.release().await.unwrap();
    let guard = other.acquire(&order.key()).await.unwrap();
    assert!(guard.token() > 1);
    assert_eq!(guard.document().lease().holder(), Some("second"));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn two_processes_with_one_name_do_not_share_a_lease() {
    let (_account, shop, order) = with_order().await;
    let leases = leases(&shop, "worker");
    let _guard = leases.acquire(&order.key()).await.unwrap();
    assert!(leases.acquire(&order.key()).await.unwrap_err().is_held());
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_is_taken_over_and_every_call_of_the_former_holder_is_refused() {
    let (account, shop, order) = with_order().await;
    let short = leases(&shop, "slow").with_duration(Duration::from_millis(300));
    let mut slow = short.acquire(&order.key()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(slow.remaining().is_zero());

    let other = leases(&account.shop().await, "next");
    let next = other.acquire(&order.key()).await.unwrap();
    assert!(next.token() > slow.token());
    let sent = Patch::new().set(Order::STATE, "shipped");
    assert!(slow.run(sent.clone()).await.unwrap_err().is_lost());
    assert!(slow.renew().await.unwrap_err().is_lost());
    assert!(slow.refresh().await.unwrap_err().is_lost());
    let text = slow
        .release_with(order.key().delete())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("with token 1 has ended, the document has token 2"),
        "{text}"
    );
    assert_eq!(stored(&shop, &order).await.state, "open");

    next.release_with(sent).await.unwrap();
    assert_eq!(stored(&shop, &order).await.state, "shipped");
}

#[tokio::test(start_paused = true)]
async fn the_service_refuses_each_write_of_a_holder_that_was_away() {
    let (account, shop) = Account::with_shop().await;
    let short = leases(&shop, "slow").with_duration(Duration::from_millis(1));
    let other = leases(&account.shop().await, "next");
    for write in 0..6 {
        let order = order("ann", write);
        shop.run(order.create()).await.unwrap();
        let mut slow = short.acquire(&order.key()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
        let next = other.acquire(&order.key()).await.unwrap();
        let changed = Order {
            parcels: 7,
            ..order.clone()
        };
        let patch = Patch::new().set(Order::PARCELS, 7);
        let refused = match write {
            0 => slow.run(patch).await,
            1 => slow.run(changed.replace()).await,
            2 => slow.run((patch, Batch::new("ann"))).await,
            3 => slow.release_with(order.key().delete()).await,
            4 => slow.release_with(patch).await,
            _ => slow.release_with(changed.replace()).await,
        };
        assert!(refused.unwrap_err().is_lost(), "write {write}");
        let now = stored(&shop, &order).await;
        assert_eq!((now.parcels, now.lease.holder()), (0, Some("next")));
        next.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_lease_that_was_not_taken_still_fences_and_can_be_renewed() {
    let (_account, shop, order) = with_order().await;
    let short = leases(&shop, "slow").with_duration(Duration::from_millis(100));
    let mut guard = short.acquire(&order.key()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(150)).await;
    let expired = guard.document().lease().until();
    guard.renew().await.unwrap();
    let revived = stored(&shop, &order).await.lease;
    assert!(revived.until() > expired);
    assert_eq!(revived.token(), guard.token());
}

#[tokio::test(start_paused = true)]
async fn a_broken_lease_stays_broken_for_its_holder() {
    let (account, shop, order) = with_order().await;
    let mut guard = ok!(leases(&shop, "hanging").acquire(&order.key()));
    let operator = leases(&account.shop().await, "operator");
    let broken = operator.break_lease(&order.key()).await.unwrap().unwrap();
    assert_eq!(broken.holder(), Some("hanging"));
    assert_eq!(stored(&shop, &order).await.lease().holder(), None);
    assert_eq!(operator.break_lease(&order.key()).await.unwrap(), None);
    assert!(guard.renew().await.unwrap_err().is_lost());
    operator.acquire(&order.key()).await.unwrap();
}
