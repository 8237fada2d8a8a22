//! A timer with sub-millisecond precision.
//!
//! Tokio's timers count whole milliseconds and round up, so a delay of 3 ms takes more than 4 ms.
//! Injected latencies need better precision. A thread that sleeps until the next deadline is
//! precise to about 0.1 ms.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::clock::stopwatch;

/// Wakes tasks at their deadlines.
#[derive(Clone, Debug)]
pub(crate) enum Timer {
    /// The precise timer. Its thread ends when the last clone is dropped.
    Thread {
        shared: Arc<Shared>,
        _stop: Arc<StopOnDrop>,
    },
    /// Tokio's timers, which follow a paused clock.
    Tokio,
}

#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waits: BinaryHeap<Reverse<Wait>>,
    count: u64,
    stopped: bool,
}

#[derive(Debug)]
struct Wait {
    deadline: Instant,
    /// Distinguishes waits with the same deadline.
    number: u64,
    wake: oneshot::Sender<()>,
}

impl Wait {
    fn order(&self) -> (Instant, u64) {
        (self.deadline, self.number)
    }
}

impl PartialEq for Wait {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Wait {}

impl PartialOrd for Wait {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Wait {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

#[derive(Debug)]
pub(crate) struct StopOnDrop(Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.state().stopped = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid between any two statements, so it is valid after a panic too.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the thread: wakes tasks whose deadline has passed, and sleeps until the next deadline.
    fn run(&self) {
        let mut state = self.state();
        while !state.stopped {
            let now = stopwatch();
            let next = state.waits.peek().map(|Reverse(wait)| wait.deadline);
            state = match next {
                Some(deadline) if deadline <= now => {
                    if let Some(Reverse(wait)) = state.waits.pop() {
                        // Sending fails when the waiting task was cancelled.
                        let _cancelled = wait.wake.send(());
                    }
                    state
                }
                Some(deadline) => {
                    let waited = self.changed.wait_timeout(state, deadline - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    let waited = self.changed.wait(state);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }
}

impl Timer {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("cdb-emulator-timer".to_owned())
            .spawn(move || thread.run())?;
        Ok(Self::Thread {
            _stop: Arc::new(StopOnDrop(Arc::clone(&shared))),
            shared,
        })
    }

    /// Waits for `delay`.
    pub(crate) async fn wait(&self, delay: Duration) {
        if delay.is_zero() {
            return;
        }
        let Self::Thread { shared, .. } = self else {
            return tokio::time::sleep(delay).await;
        };
        let (wake, woken) = oneshot::channel();
        {
            let mut state = shared.state();
            state.count += 1;
            let wait = Wait {
                deadline: stopwatch() + delay,
                number: state.count,
                wake,
            };
            state.waits.push(Reverse(wait));
        }
        shared.changed.notify_one();
        // The sender is dropped without a message only when the emulator stops.
        let _stopped = woken.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_end_in_the_order_of_their_deadlines_and_not_early() {
        let timer = Timer::start().unwrap();
        let ms = Duration::from_millis;
        let started = stopwatch();
        let wait = |delay| {
            let timer = timer.clone();
            async move {
                timer.wait(delay).await;
                started.elapsed()
            }
        };
        // Polled in this order, so the assertion also holds when a slow machine lets them end
        // together.
        let (none, short, long) = tokio::join!(biased; wait(ms(0)), wait(ms(10)), wait(ms(30)));
        assert!(long >= ms(30) && short >= ms(10) && none < short && short < long);
    }
}
