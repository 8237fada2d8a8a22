//! Ends a run that stands still. A thread of its own watches the run, because the thread of the
//! run may never return.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::network::Network;

/// The virtual time that counts as progress. A run that takes its whole limit for less is stuck:
/// usually a second of virtual time takes some milliseconds.
const PROGRESS: Duration = Duration::from_secs(10);

/// The pause between two looks at the run.
const LOOK: Duration = Duration::from_millis(50);

/// Watches a run until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    ended: Arc<AtomicBool>,
}

impl Watch {
    /// Calls `stalled` if the time of the latest request advances by less than ten seconds within
    /// `limit` of real time. `stalled` gets the problem as text.
    pub(crate) fn start(
        network: Arc<Network>,
        limit: Duration,
        stalled: impl FnOnce(&Network, String) + Send + 'static,
    ) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let run_ended = ended.clone();
        thread::spawn(move || {
            let (mut reached, mut since) = (Duration::ZERO, Instant::now());
            while since.elapsed() < limit {
                thread::sleep(LOOK);
                if run_ended.load(Ordering::Relaxed) {
                    return;
                }
                let now = network.trace().reached();
                if now >= reached + PROGRESS {
                    (reached, since) = (now, Instant::now());
                }
            }
            let (limit, reached) = (limit.as_secs_f64(), reached.as_secs_f64());
            let problem = format!(
                "the run stands still: {reached:.0} s of virtual time have passed, and less than \
                 {} s more within {limit:.0} s of real time",
                PROGRESS.as_secs()
            );
            stalled(&network, problem);
        });
        Self { ended }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}
