//! What leases tell `metrics`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_model::Document;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::account::{Account, leases, order};

/// Counters by their names and labels.
#[derive(Default)]
struct Counted(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl Recorder for Counted {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels = key.labels().map(metrics::Label::value);
        let name = format!("{} {}", key.name(), labels.collect::<Vec<_>>().join(","));
        let mut known = self.0.lock().unwrap();
        Counter::from_arc(known.entry(name).or_default().clone())
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[tokio::test]
async fn what_happens_to_leases_is_counted_by_document_type() {
    let counted = Counted::default();
    let _recording = metrics::set_default_local_recorder(&counted);
    let account = Account::new().await;
    let shop = account.shop().await;
    let order = order("ann", 1);
    shop.create(&order).await.unwrap();
    let short = leases(&shop, "slow").with_duration(Duration::from_millis(50));
    let mut slow = short.acquire(&order.key()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    let mut next = leases(&shop, "next").acquire(&order.key()).await.unwrap();
    assert!(slow.renew().await.unwrap_err().is_lost());
    next.renew().await.unwrap();
    leases(&shop, "operator")
        .break_lease(&order.key())
        .await
        .unwrap();
    assert!(next.release().await.unwrap_err().is_lost());
    leases(&shop, "last")
        .acquire(&order.key())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let counted: Vec<String> = counted
        .0
        .lock()
        .unwrap()
        .iter()
        .filter_map(|(name, count)| {
            let name = name.strip_prefix("cdb.lease.")?;
            Some(format!("{name} {}", count.load(Ordering::Relaxed)))
        })
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
    account.end().await;
}
