//! The request units of instances.
//!
//! A charge is known once its request is answered, so it is noted in memory, and the next commit of
//! the instance stores it: no request is added. The charge of an activity travels with its
//! completion. What a process has noted when it ends is lost, and so is the charge of the last
//! commit of an instance.

use std::collections::HashMap;
use std::future::Future;

use cdb_client::measure_charge;
use parking_lot::Mutex;

/// The most instances in a generation of notes.
const MAX_INSTANCES: usize = 32_768;

/// The charges of instances that no commit has stored yet.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    noted: Mutex<Noted>,
}

/// Two generations of charges. A full generation replaces the older one, whose instances have ended
/// or are run by other processes: the next commit of an instance takes its charge.
#[derive(Debug, Default)]
struct Noted {
    recent: HashMap<String, f64>,
    older: HashMap<String, f64>,
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
        let mut noted = self.noted.lock();
        if let Some(sum) = noted.recent.get_mut(instance_id) {
            *sum += charge;
            return;
        }
        if noted.recent.len() >= MAX_INSTANCES {
            noted.older = std::mem::take(&mut noted.recent);
        }
        noted.recent.insert(instance_id.to_owned(), charge);
    }

    /// Takes what is noted for an instance. A write that fails notes it again.
    pub(crate) fn take(&self, instance_id: &str) -> f64 {
        let mut noted = self.noted.lock();
        let recent = noted.recent.remove(instance_id).unwrap_or_default();
        recent + noted.older.remove(instance_id).unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_of_ended_instances_age_out_before_those_of_running_ones() {
        let ledger = Ledger::default();
        let end = |numbers: std::ops::Range<usize>| {
            numbers.for_each(|number| ledger.note(&format!("ended-{number}"), 1.0));
        };
        end(0..2 * MAX_INSTANCES - 1);
        ledger.note("running", 2.0);
        end(2 * MAX_INSTANCES..2 * MAX_INSTANCES + 1);
        ledger.note("running", 0.5);
        let taken = ["running", "running", "ended-0"].map(|id| add(None, ledger.take(id)));
        assert_eq!(taken, [Some(2.5), None, None]);
        let noted = ledger.noted.lock();
        assert!(noted.recent.len() + noted.older.len() <= 2 * MAX_INSTANCES);
    }
}
