//! The judges: a file for each promise.

mod handling;
mod invariants;
mod leftovers;
mod results;
mod waiting;

use std::sync::Arc;

use crate::judge::Judge;

pub(crate) use handling::{Handled, Handling, Place};

/// All judges of a run, in the order in which they judge.
pub(crate) type Judges = Vec<Arc<dyn Judge>>;

/// Returns all judges of a new run.
pub(crate) fn all(handling: &Handling) -> Judges {
    vec![
        Arc::new(waiting::Waiting::default()),
        Arc::new(invariants::Invariants::default()),
        Arc::new(handling.clone()),
        Arc::new(results::Results),
        Arc::new(leftovers::Leftovers),
    ]
}
