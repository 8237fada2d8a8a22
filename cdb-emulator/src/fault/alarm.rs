//! Waits that end when they should.
//!
//! The runtime's timers count whole milliseconds and round up, so a delay of 3 ms takes a good four. Where delays stand
//! for round trips, that is a third too much; a thread that sleeps until the next one is due is exact to a tenth.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// Wakes who waits. Its thread ends with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct Alarm {
    shared: Arc<Shared>,
    _ends_with_the_last: Arc<End>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    due: BinaryHeap<Reverse<Due>>,
    count: u64,
    ended: bool,
}

#[derive(Debug)]
struct Due {
    at: Instant,
    /// Keeps those of one instant apart.
    number: u64,
    wake: oneshot::Sender<()>,
}

impl Due {
    fn order(&self) -> (Instant, u64) {
        (self.at, self.number)
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

#[derive(Debug)]
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.state().ended = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: wakes what is due, sleeps until the next is.
    fn run(&self) {
        let mut state = self.state();
        while !state.ended {
            let now = Instant::now();
            let due = state.due.peek().map(|Reverse(due)| due.at);
            state = match due {
                Some(at) if at <= now => {
                    if let Some(Reverse(due)) = state.due.pop() {
                        // Who has given up waiting needs no waking.
                        let _unheard = due.wake.send(());
                    }
                    state
                }
                Some(at) => {
                    let waited = self.changed.wait_timeout(state, at - now);
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

impl Alarm {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let runs = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("cdb-emulator-alarm".to_owned())
            .spawn(move || runs.run())?;
        Ok(Self {
            _ends_with_the_last: Arc::new(End(Arc::clone(&shared))),
            shared,
        })
    }

    /// Waits for `delay`.
    pub(crate) async fn wait(&self, delay: Duration) {
        if delay.is_zero() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        {
            let mut state = self.shared.state();
            state.count += 1;
            let due = Due {
                at: Instant::now() + delay,
                number: state.count,
                wake,
            };
            state.due.push(Reverse(due));
        }
        self.shared.changed.notify_one();
        // The sender is dropped only when the emulator ends.
        let _ended = woken.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_end_in_the_order_of_their_times_and_not_too_early() {
        let alarm = Alarm::start().unwrap();
        let ms = Duration::from_millis;
        let started = Instant::now();
        let wait = |delay| {
            let alarm = alarm.clone();
            async move {
                alarm.wait(delay).await;
                started.elapsed()
            }
        };
        // Polled in this order, also where a slow machine lets them end together.
        let (none, short, long) = tokio::join!(biased; wait(ms(0)), wait(ms(10)), wait(ms(30)));
        assert!(long >= ms(30) && short >= ms(10) && none < short && short < long);
    }
}
