//! What a process reports of limits: metrics of its keys, and that permits cannot be renewed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use metrics::gauge;
use tokio::time::Instant;

use crate::queue::local_queue::Key;

/// The keys with metrics of their own. The others of a process share one label, because a recorder
/// keeps each label for as long as the process runs.
const MAX_KEYS: usize = 100;

/// The label of the other keys. A key has `=` or is `*`.
const OTHERS: &str = "others";

/// What a process uses of a limited key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) running: u32,
    pub(super) waiting: u32,
    /// The time for which the oldest waiting activity has been due.
    pub(super) oldest: Duration,
}

impl Usage {
    fn add(&mut self, other: Self) {
        self.running = self.running.saturating_add(other.running);
        self.waiting = self.waiting.saturating_add(other.waiting);
        self.oldest = self.oldest.max(other.oldest);
    }
}

/// The metrics of the limited keys of a process.
#[derive(Debug, Default)]
pub(super) struct KeyMetrics {
    /// The keys with metrics of their own: the first ones of the process.
    named: HashSet<Key>,
    /// The labels whose last values are not zero.
    nonzero: HashSet<Key>,
}

impl KeyMetrics {
    /// Reports the keys in use. Those that were in use before, and no longer are, become zero.
    pub(super) fn report(&mut self, in_use: impl IntoIterator<Item = (Key, Usage)>) {
        for (key, usage) in self.by_label(in_use) {
            let label = key.to_string();
            gauge!("cdb.provider.limits.running", "key" => label.clone())
                .set(f64::from(usage.running));
            gauge!("cdb.provider.limits.waiting", "key" => label.clone())
                .set(f64::from(usage.waiting));
            gauge!("cdb.provider.limits.oldest", "key" => label).set(usage.oldest.as_secs_f64());
        }
    }

    fn by_label(&mut self, in_use: impl IntoIterator<Item = (Key, Usage)>) -> BTreeMap<Key, Usage> {
        let before = self.nonzero.drain();
        let mut labels: BTreeMap<_, _> = before.map(|key| (key, Usage::default())).collect();
        for (key, usage) in in_use {
            let is_named = self.named.contains(&key)
                || self.named.len() < MAX_KEYS && self.named.insert(key.clone());
            let label = if is_named { key } else { OTHERS.into() };
            labels.entry(label).or_default().add(usage);
        }
        let nonzero = labels
            .iter()
            .filter(|(_, usage)| **usage != Usage::default());
        self.nonzero = nonzero.map(|(key, _)| key.clone()).collect();
        labels
    }
}

/// Whether requests about limits have no answer. Warns once, however many keys and attempts fail.
#[derive(Debug, Default)]
pub(super) struct Outage {
    since: Option<Instant>,
    /// The keys whose last request had no answer; `None` for the lease of this process.
    failing: BTreeSet<Option<Key>>,
}

impl Outage {
    /// Notes the end of a request about a key or the lease, and why it had no answer.
    pub(super) fn note(&mut self, key: Option<&Key>, failure: Option<&str>) {
        let key = key.cloned();
        let Some(failure) = failure else {
            self.failing.remove(&key);
            if let Some(since) = self.since.take_if(|_| self.failing.is_empty()) {
                let seconds = since.elapsed().as_secs();
                tracing::info!(seconds, "requests about limits are answered again");
            }
            return;
        };
        if self.since.is_none() {
            self.since = Some(Instant::now());
            let of = key.as_deref().unwrap_or("the lease of this process");
            tracing::warn!(
                of,
                failure,
                "a request about limits has no answer; limited activities may have to wait; it is retried"
            );
        }
        self.failing.insert(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(running: u32, waiting: u32, seconds: u64) -> Usage {
        Usage {
            running,
            waiting,
            oldest: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn a_key_becomes_zero_once_when_it_is_not_in_use_any_more() {
        let mut metrics = KeyMetrics::default();
        let ada: Key = "tenant=ada".into();
        let labels = metrics.by_label([(ada.clone(), usage(5, 7, 60))]);
        assert_eq!(labels[&ada], usage(5, 7, 60));
        assert_eq!(metrics.by_label([])[&ada], Usage::default());
        assert_eq!(metrics.by_label([]), BTreeMap::new());
    }

    #[test]
    fn keys_beyond_the_first_hundred_share_a_label() {
        let mut metrics = KeyMetrics::default();
        let keys = |range: std::ops::Range<u32>| {
            range.map(|number| {
                (
                    format!("tenant={number}").into(),
                    usage(1, 2, number.into()),
                )
            })
        };
        assert_eq!(metrics.by_label(keys(0..100)).len(), 100);
        let labels = metrics.by_label(keys(95..130));
        assert_eq!(labels[OTHERS], usage(30, 60, 129));
        assert_eq!(labels["tenant=99"], usage(1, 2, 99));
        assert_eq!(labels["tenant=0"], Usage::default());
        assert_eq!(labels.len(), 101);
    }
}
