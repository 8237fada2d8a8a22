//! Measures the latency of a point read and the request units of the dashboard, every two seconds.
//!
//! The data plane does not report the usage of the whole container; Azure Monitor does.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cdb_client::ContainerClient;
use cdb_model::Timestamp;
use cdb_provider::documents::{Durable, InstanceKey};
use serde::Serialize;

const INTERVAL: Duration = Duration::from_secs(2);

/// The number of kept samples: twenty minutes.
const KEPT: usize = 600;

/// The id of the read. No such instance exists, so the read costs one request unit.
const PROBE: &str = "cdb-dashboard";

/// One measurement.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sample {
    at: Timestamp,
    /// The latency of the point read in milliseconds. `None` when it failed.
    latency_ms: Option<f64>,
    /// The requests and request units of the dashboard since the previous sample.
    requests: u64,
    charge: f64,
    throttled: u64,
}

/// The last [`KEPT`] measurements.
#[derive(Debug, Default)]
pub(super) struct LatencyLog(Mutex<VecDeque<Sample>>);

impl LatencyLog {
    pub(super) fn samples(&self) -> Vec<Sample> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        samples.iter().cloned().collect()
    }

    fn add(&self, sample: Sample) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() >= KEPT {
            samples.pop_front();
        }
        samples.push_back(sample);
    }
}

/// Measures until the task is aborted.
pub(super) async fn measure(container: &ContainerClient<Durable>, log: &LatencyLog) {
    let mut before = container.usage();
    loop {
        let started = Instant::now();
        let read = container.read(&InstanceKey::new(PROBE)).await;
        let latency = started.elapsed();
        let now = container.usage();
        let used = now.since(&before).total();
        before = now;
        log.add(Sample {
            at: container.now(),
            latency_ms: read.is_ok().then_some(latency.as_secs_f64() * 1000.0),
            requests: used.requests,
            charge: used.charge,
            throttled: used.throttled,
        });
        tokio::time::sleep(INTERVAL).await;
    }
}
