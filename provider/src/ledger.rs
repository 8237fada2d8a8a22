//! The request units of instances.
//!
//! A charge is known once its request is answered, so it is noted in memory, and the next commit of
//! the instance stores it: no request is added. The charge of an activity travels with its
//! completion. What a process has noted when it ends is lost, and so is the charge of the last
//! commit of an instance.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Mutex;

use cdb_client::measure_charge;

use crate::mutex::lock;

/// The number of instances with charges that are noted. Beyond it the ledger is cleared: other
/// processes run those instances.
const MAX_INSTANCES: usize = 65_536;

/// The charges of instances that no commit has stored yet.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    noted: Mutex<HashMap<String, f64>>,
}

impl Ledger {
    /// Runs a future, and notes the charge of its requests.
    pub(crate) fn charge<F: Future>(
        &self,
        instance_id: &str,
        work: F,
    ) -> impl Future<Output = F::Output> {
        // On the heap, because three layers would each hold a copy of a large future.
        let work = Box::pin(work);
        async move {
            let (output, charge) = measure_charge(work).await;
            self.note(instance_id, charge);
            output
        }
    }

    /// Notes a charge.
    pub(crate) fn note(&self, instance_id: &str, charge: f64) {
        if charge <= 0.0 {
            return;
        }
        let mut noted = lock(&self.noted);
        if let Some(sum) = noted.get_mut(instance_id) {
            *sum += charge;
            return;
        }
        if noted.len() >= MAX_INSTANCES {
            noted.clear();
        }
        noted.insert(instance_id.to_owned(), charge);
    }

    /// Takes what is noted for an instance. A write that fails notes it again.
    pub(crate) fn take(&self, instance_id: &str) -> f64 {
        lock(&self.noted).remove(instance_id).unwrap_or_default()
    }
}

/// Returns a stored sum with another charge, in hundredths of a request unit.
pub(crate) fn add(stored: Option<f64>, charge: f64) -> Option<f64> {
    let sum = stored.unwrap_or_default() + charge;
    if sum > 0.0 {
        Some((sum * 100.0).round() / 100.0)
    } else {
        stored
    }
}
