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

/// How much longer than its limit of processor time a run may take. A run that waits for a lock for
/// ever takes none; one on a busy machine takes little.
const PATIENCE: u32 = 20;

/// The pause between two looks at the run.
const LOOK: Duration = Duration::from_millis(50);

/// Watches a run until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    ended: Arc<AtomicBool>,
}

impl Watch {
    /// Calls `stalled` if the time of the latest request advances by less than ten seconds within
    /// `limit` of the process's processor time, or within twenty times as much real time. `stalled`
    /// gets the problem as text.
    pub(crate) fn start(
        network: Arc<Network>,
        limit: Duration,
        stalled: impl FnOnce(&Network, String) + Send + 'static,
    ) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let run_ended = ended.clone();
        thread::spawn(move || {
            let (mut reached, mut since) = (Duration::ZERO, (processor_time(), Instant::now()));
            while processor_time().saturating_sub(since.0) < limit
                && since.1.elapsed() < limit * PATIENCE
            {
                thread::sleep(LOOK);
                if run_ended.load(Ordering::Relaxed) {
                    return;
                }
                let now = network.trace().reached();
                if now >= reached + PROGRESS {
                    (reached, since) = (now, (processor_time(), Instant::now()));
                }
            }
            let (limit, reached) = (limit.as_secs_f64(), reached.as_secs_f64());
            let problem = format!(
                "the run stands still: {reached:.0} s of virtual time have passed, and less than \
                 {} s more within {limit:.0} s of processor time",
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

/// Returns the processor time that this process has taken.
fn processor_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the call fills the structure that the pointer is for, or fails.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    assert_eq!(result, 0, "the process has a usage");
    // SAFETY: the call has succeeded.
    let usage = unsafe { usage.assume_init() };
    let of = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let micros = u64::try_from(time.tv_usec).unwrap_or_default();
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}
