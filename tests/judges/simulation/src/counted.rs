//! Counts how often a mechanism ran: a run that never met it says nothing about it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// The counters of hand-overs. Their label `result` is `consumed` for messages that were never stored.
const HAND_OVERS: [&str; 2] = [
    "cdb.provider.completions.handed_over",
    "cdb.provider.starts.handed_over",
];

/// The messages of a run that turns consumed before they were stored.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandOvers(Arc<AtomicU64>);

impl HandOvers {
    /// Counts those of all nodes of this process from now on.
    ///
    /// # Errors
    /// When something else records the metrics of this process.
    pub(crate) fn record() -> Result<Self, String> {
        let counted = Self::default();
        let recorded = metrics::set_global_recorder(counted.clone());
        recorded.map_err(|error| error.to_string())?;
        Ok(counted)
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Recorder for HandOvers {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let is_consumed = |label: &metrics::Label| label.value() == "consumed";
        if HAND_OVERS.contains(&key.name()) && key.labels().any(is_consumed) {
            Counter::from_arc(self.0.clone())
        } else {
            Counter::noop()
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
