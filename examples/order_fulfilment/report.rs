//! The lines that the demo prints, and its summary.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Prints lines with the time since the start.
pub(crate) struct Report {
    started: Instant,
    /// The lines of runtimes: the number of the runtime, and the activity.
    activities: Mutex<Vec<(usize, String)>>,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            activities: Mutex::default(),
        }
    }

    pub(crate) fn line(&self, text: &str) {
        println!("{:>6.2} s  {text}", self.started.elapsed().as_secs_f64());
    }

    /// Prints and counts the activity that a runtime reports.
    pub(crate) fn activity(&self, runtime: usize, activity: String) {
        self.line(&format!("    runtime {runtime}: {activity}"));
        let mut activities = self
            .activities
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        activities.push((runtime, activity));
    }

    /// Compares the activities of both runtimes.
    pub(crate) fn summary(&self, orders: usize) -> String {
        let activities = self
            .activities
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let of = |number| {
            let activities = activities.iter().filter(move |(by, _)| *by == number);
            activities.map(|(_, activity)| activity)
        };
        let first: BTreeSet<&String> = of(1).collect();
        let again = match of(2).filter(|activity| first.contains(activity)).count() {
            0 => "none ran twice".to_owned(),
            again => format!("{again} were interrupted and ran again"),
        };
        format!(
            "{orders} orders ended in {:.1} s: runtime 1 ran {} activities, runtime 2 the other {}; {again}",
            self.started.elapsed().as_secs_f64(),
            of(1).count(),
            of(2).count(),
        )
    }
}
