//! Clients whose view of the service's time is wrong by ten seconds. A correct service prevents
//! this: each answer has the time. A wrong clock costs time, and never leads to two holders.

use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Document, Patch};

use crate::lease::account::{Account, Order, Shop, leases, order, stored};
use crate::skewed::Skewed;

/// A client that is ten seconds ahead, and a client that is ten seconds behind.
async fn apart(account: &Account) -> [ContainerClient<Shop>; 2] {
    let ahead = account.shop_through(|time| Skewed::new(time, true)).await;
    let behind = account.shop_through(|time| Skewed::new(time, false)).await;
    let apart = ahead.now().since(behind.now());
    assert!(apart > Duration::from_secs(18), "only {apart:?} apart");
    [ahead, behind]
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_sixty_seconds_holds_between_clocks_twenty_seconds_apart() {
    let account = Account::new().await;
    let [ahead, behind] = apart(&account).await;
    let order = order("ann", 1);
    ahead.run(order.create()).await.unwrap();
    let guard = ok!(leases(&behind, "behind").acquire(&order.key()));
    let refused = leases(&ahead, "ahead").acquire(&order.key()).await;
    assert!(refused.unwrap_err().is_held());
    guard.release().await.unwrap();
    let _guard = leases(&ahead, "ahead").acquire(&order.key()).await.unwrap();
    let refused = leases(&behind, "behind").acquire(&order.key()).await;
    assert!(refused.unwrap_err().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_too_early_by_a_wrong_clock_stops_the_former_holder() {
    let account = Account::new().await;
    let [ahead, behind] = apart(&account).await;
    let order = order("ann", 1);
    ahead.run(order.create()).await.unwrap();
    let short = leases(&behind, "behind").with_duration(Duration::from_secs(9));
    let mut victim = short.acquire(&order.key()).await.unwrap();
    assert!(victim.remaining() > Duration::from_secs(4));

    let taker = leases(&ahead, "ahead").acquire(&order.key()).await.unwrap();
    let refused = victim.run(Patch::new().incr(Order::PARCELS, 1)).await;
    assert!(refused.unwrap_err().is_lost());
    ok!(taker.release_with(Patch::new().incr(Order::PARCELS, 1)));
    assert_eq!(stored(&behind, &order).await.parcels, 1);
}
