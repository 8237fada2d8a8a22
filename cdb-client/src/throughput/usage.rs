//! The requests, request units and bytes of a client, by kind of operation.
//!
//! For tests and benchmarks with exact figures; long-running programs use `metrics` instead.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, PoisonError};

use crate::error::{RequestKind, ResponseStatus};

/// A snapshot of a client's usage by kind of operation. Every attempt counts, including failed
/// ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The usage of each kind.
    pub by_kind: BTreeMap<RequestKind, OperationUsage>,
}

/// The usage of one kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct OperationUsage {
    /// HTTP requests sent.
    pub requests: u64,
    /// Requests without a successful answer.
    pub failures: u64,
    /// Requests answered with 429.
    pub throttled: u64,
    /// Request units charged.
    pub charge: f64,
    /// Bytes of request bodies.
    pub bytes_sent: u64,
    /// Bytes of answer bodies.
    pub bytes_received: u64,
}

impl Usage {
    /// Returns the sum over all kinds.
    pub fn total(&self) -> OperationUsage {
        self.by_kind
            .values()
            .fold(OperationUsage::default(), |sum, usage| OperationUsage {
                requests: sum.requests + usage.requests,
                failures: sum.failures + usage.failures,
                throttled: sum.throttled + usage.throttled,
                charge: sum.charge + usage.charge,
                bytes_sent: sum.bytes_sent + usage.bytes_sent,
                bytes_received: sum.bytes_received + usage.bytes_received,
            })
    }

    /// Returns the usage of one kind.
    pub fn of(&self, kind: RequestKind) -> OperationUsage {
        self.by_kind.get(&kind).copied().unwrap_or_default()
    }

    /// Returns the usage since an earlier snapshot of the same client.
    pub fn since(&self, earlier: &Self) -> Self {
        let difference = |kind: &RequestKind, now: &OperationUsage| {
            let before = earlier.of(*kind);
            OperationUsage {
                requests: now.requests.saturating_sub(before.requests),
                failures: now.failures.saturating_sub(before.failures),
                throttled: now.throttled.saturating_sub(before.throttled),
                charge: now.charge - before.charge,
                bytes_sent: now.bytes_sent.saturating_sub(before.bytes_sent),
                bytes_received: now.bytes_received.saturating_sub(before.bytes_received),
            }
        };
        Self {
            by_kind: self
                .by_kind
                .iter()
                .map(|(kind, now)| (*kind, difference(kind, now)))
                .filter(|(_, usage)| usage.requests > 0)
                .collect(),
        }
    }
}

tokio::task_local! {
    /// The request units of the innermost [`measure_charge`] of this task.
    static CHARGE: Cell<f64>;
}

/// Runs a future, and returns the request units of the requests that it awaits with its result.
/// Every attempt counts. Requests of spawned tasks do not count; those of a nested
/// `measure_charge` do, once it has ended.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_client::{ContainerClient, measure_charge};
/// use shop::{OrderKey, Shop};
///
/// /// Returns the request units of a read.
/// async fn charge(shop: &ContainerClient<Shop>) -> cdb_client::Result<f64> {
///     let (found, charge) = measure_charge(shop.read(&OrderKey::new("ann", 1))).await;
///     found.map(|_| charge)
/// }
/// ```
pub async fn measure_charge<F: Future>(work: F) -> (F::Output, f64) {
    let measured = async {
        let output = work.await;
        (output, CHARGE.with(Cell::get))
    };
    let (output, charge) = CHARGE.scope(Cell::new(0.0), measured).await;
    add_charge(charge);
    (output, charge)
}

/// Adds to the innermost scope, if there is one.
fn add_charge(charge: f64) {
    let _unmeasured = CHARGE.try_with(|sum| sum.set(sum.get() + charge));
}

/// One attempt, for the meter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub kind: RequestKind,
    pub status: Option<ResponseStatus>,
    pub charge: f64,
    pub bytes_sent: usize,
    pub bytes_received: usize,
}

/// Counts attempts.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    usage: Mutex<Usage>,
}

impl Meter {
    pub(crate) fn count(&self, attempt: &Attempt) {
        let bytes = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        add_charge(attempt.charge);
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = usage.by_kind.entry(attempt.kind).or_default();
        entry.requests += 1;
        entry.failures += u64::from(!attempt.status.is_some_and(ResponseStatus::is_success));
        entry.throttled += u64::from(attempt.status.is_some_and(|status| status.code == 429));
        entry.charge += attempt.charge;
        entry.bytes_sent += bytes(attempt.bytes_sent);
        entry.bytes_received += bytes(attempt.bytes_received);
    }

    pub(crate) fn snapshot(&self) -> Usage {
        self.usage
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(kind: RequestKind, code: u16) -> Attempt {
        Attempt {
            kind,
            status: Some(ResponseStatus::new(code, 0)),
            charge: 2.5,
            bytes_sent: 10,
            bytes_received: 20,
        }
    }

    #[test]
    fn the_difference_of_snapshots_is_the_usage_between_them() {
        let meter = Meter::default();
        meter.count(&attempt(RequestKind::Read, 200));
        let before = meter.snapshot();
        meter.count(&attempt(RequestKind::Batch, 200));
        meter.count(&attempt(RequestKind::Batch, 429));
        let between = meter.snapshot().since(&before);
        assert_eq!(between.of(RequestKind::Read), OperationUsage::default());
        let batch = between.of(RequestKind::Batch);
        assert_eq!((batch.requests, batch.failures), (2, 1));
        assert_eq!(batch.throttled, 1);
        assert_eq!(between.total().bytes_sent, 20);
    }

    #[tokio::test]
    async fn a_scope_measures_what_it_awaits_and_what_nested_scopes_do() {
        let meter = std::sync::Arc::new(Meter::default());
        let count = async || meter.count(&attempt(RequestKind::Read, 200));
        count().await;
        let (inner, outer) = measure_charge(async {
            count().await;
            let spawned = meter.clone();
            let spawned = async move { spawned.count(&attempt(RequestKind::Read, 200)) };
            tokio::spawn(spawned).await.expect("it ends");
            measure_charge(async { futures::join!(count(), count()) })
                .await
                .1
        })
        .await;
        assert_eq!((inner, outer), (5.0, 7.5));
    }
}
