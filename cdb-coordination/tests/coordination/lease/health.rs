//! The metrics of leases.

use std::time::Duration;

use cdb_model::Document;

use crate::lease::account::{leases, with_order};
use crate::recorded::Recorded;

#[tokio::test(start_paused = true)]
async fn lease_events_are_counted_by_document_type() {
    let recorded = Recorded::default();
    let _recording = metrics::set_default_local_recorder(&recorded);
    let (_account, shop, order) = with_order().await;
    let short = leases(&shop, "slow").with_duration(Duration::from_millis(50));
    let mut slow = short.acquire(&order.key()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    let mut next = leases(&shop, "next").acquire(&order.key()).await.unwrap();
    assert!(slow.renew().await.unwrap_err().is_lost());
    next.renew().await.unwrap();
    ok!(leases(&shop, "operator").break_lease(&order.key()));
    assert!(next.release().await.unwrap_err().is_lost());
    leases(&shop, "last")
        .acquire(&order.key())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let counted = recorded.under("cdb.lease.").into_iter();
    let counted: Vec<String> = counted
        .map(|(name, count)| format!("{name} {}", count[0]))
        .collect();
    let expected = [
        "acquired order 3",
        "broken order 1",
        "lost order 2",
        "released order 1",
        "renewed order 1",
        "taken_over order 1",
    ];
    assert_eq!(counted, expected);
}
