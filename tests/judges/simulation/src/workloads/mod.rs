//! The workloads: a file for each, or for a few that have most in common.

mod bank;
mod blocked;
mod conserved;
mod delays;
mod deletions;
mod equal;
mod eternal;
mod jobs;
mod large;
mod limited;
mod paused;
mod rest;
mod streams;

use std::sync::Arc;

use crate::workload::Workload;

/// All workloads of a run, in the order in which they start.
pub(crate) type Workloads = Vec<Arc<dyn Workload>>;

/// Returns all workloads of a new run.
pub(crate) fn all() -> Workloads {
    let streams = streams::Streams::default();
    vec![
        Arc::new(jobs::Waves),
        Arc::new(jobs::long()),
        Arc::new(eternal::Eternal),
        Arc::new(delays::Delays),
        Arc::new(large::Large),
        Arc::new(streams.clone()),
        Arc::new(bank::Bank::default()),
        Arc::new(jobs::effects()),
        Arc::new(rest::Rest),
        Arc::new(blocked::Held),
        Arc::new(blocked::Unfit),
        Arc::new(streams::HeldStreams(streams)),
        Arc::new(deletions::Detached),
        Arc::new(deletions::Restarted),
        Arc::new(limited::Limited::default()),
        Arc::new(paused::Paused::default()),
        Arc::new(conserved::Conserved::default()),
        Arc::new(equal::Equal::default()),
    ]
}
