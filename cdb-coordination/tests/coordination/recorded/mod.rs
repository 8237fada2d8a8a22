//! Records the metrics of the crate.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// All recorded metrics, by name and labels.
#[derive(Default)]
pub(crate) struct Recorded {
    counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    gauges: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    histograms: Mutex<BTreeMap<String, Arc<Values>>>,
}

#[derive(Default)]
struct Values(Mutex<Vec<f64>>);

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

impl Recorded {
    /// Metrics whose names begin with `prefix`, without the prefix: the count, the last value, or
    /// all values.
    pub(crate) fn under(&self, prefix: &str) -> BTreeMap<String, Vec<f64>> {
        let read = |count: &Arc<AtomicU64>| count.load(Ordering::Relaxed);
        let mut all = BTreeMap::new();
        for (name, count) in self.counters.lock().unwrap().iter() {
            let count = u32::try_from(read(count)).unwrap();
            all.insert(name.clone(), vec![f64::from(count)]);
        }
        for (name, bits) in self.gauges.lock().unwrap().iter() {
            all.insert(name.clone(), vec![f64::from_bits(read(bits))]);
        }
        for (name, values) in self.histograms.lock().unwrap().iter() {
            all.insert(name.clone(), values.0.lock().unwrap().clone());
        }
        let named = all.into_iter().filter_map(|(name, values)| {
            let name = name.strip_prefix(prefix)?;
            Some((name.to_owned(), values))
        });
        named.collect()
    }
}

fn name(key: &Key) -> String {
    let labels = key.labels().map(metrics::Label::value);
    let words = std::iter::once(key.name()).chain(labels);
    words.collect::<Vec<_>>().join(" ")
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut known = self.counters.lock().unwrap();
        Counter::from_arc(known.entry(name(key)).or_default().clone())
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let mut known = self.gauges.lock().unwrap();
        Gauge::from_arc(known.entry(name(key)).or_default().clone())
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let mut known = self.histograms.lock().unwrap();
        Histogram::from_arc(known.entry(name(key)).or_default().clone())
    }
}
