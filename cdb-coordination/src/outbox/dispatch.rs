//! Delivers messages of any kind: in rounds after a commit, and again by the reconciler.
//!
//! An [`OutboxTransport`] knows how to deliver the messages of one kind. A second delivery of a message must
//! change nothing, so processes deliver without coordination: each delivers its own commits at
//! once, and the reconciler delivers whatever is left over.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cdb_client::Error;
use derive_where::derive_where;
use tokio::sync::oneshot;

use crate::retry::{DeliveryError, Jitter, RetryPolicy};
use crate::search::MAX_ROWS;
use crate::search::in_parallel;
use crate::timing::BATCHING_DELAY;

/// The most messages of one round.
const ROUND: usize = 100;

/// Delivers the messages of one kind for a [`Dispatcher`] and [`reconcile`].
///
/// ```
/// use std::sync::Mutex;
/// use std::time::Duration;
/// use cdb_coordination::outbox::{OutboxTransport, reconcile};
/// use cdb_coordination::retry::{Jitter, RetryPolicy, DeliveryError};
///
/// /// Rings doorbells. The houses to ring at are in memory; use a container instead.
/// #[derive(Default)]
/// struct Bell {
///     left: Mutex<Vec<u64>>,
/// }
///
/// #[async_trait::async_trait]
/// impl OutboxTransport for Bell {
///     type Message = u64;
///
///     async fn deliver(&self, houses: &[u64], rung: &[u64]) -> Vec<Result<(), DeliveryError>> {
///         self.left.lock().unwrap().retain(|house| !rung.contains(house));
///         let ring = |&house: &u64| match house {
///             13 => Err(DeliveryError::permanent("there is no such house")),
///             _ => Ok(()), // ringing twice does no harm
///         };
///         houses.iter().map(ring).collect()
///     }
///
///     async fn find_due(&self, most: usize) -> Result<Vec<u64>, cdb_client::Error> {
///         Ok(self.left.lock().unwrap().iter().copied().take(most).collect())
///     }
///
///     fn attempts(&self, _: &u64) -> (u32, u32) {
///         (0, 0) // store the attempts with the message to retry it
///     }
///
///     async fn postpone(&self, _: &u64, _: &DeliveryError, _: Duration) {}
///
///     async fn dead_letter(&self, house: &u64, _: &DeliveryError) {
///         self.left.lock().unwrap().retain(|left| left != house);
///     }
///
///     fn describe(&self, house: &u64) -> String {
///         format!("the bell of number {house}")
///     }
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let bell = Bell { left: Mutex::new(vec![7, 13]) };
/// reconcile(&bell, &RetryPolicy::default(), &Jitter::random()).await;
/// assert!(bell.left.lock().unwrap().is_empty());
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[async_trait]
pub trait OutboxTransport: Send + Sync {
    /// A committed message that is to be delivered.
    type Message: Send + Sync;

    /// Delivers `messages` and deletes the messages `delivered` earlier, in as few requests as
    /// possible. Returns one result per message, in order. A message that had arrived before counts
    /// as delivered. A message that is not deleted is found again.
    async fn deliver(
        &self,
        messages: &[Self::Message],
        delivered: &[Self::Message],
    ) -> Vec<Result<(), DeliveryError>>;

    /// Returns the oldest due messages of any process: up to `most`, or a few more.
    ///
    /// # Errors
    /// When the search fails.
    async fn find_due(&self, most: usize) -> Result<Vec<Self::Message>, Error>;

    /// The failed attempts at a message: those that count for [`RetryPolicy::max_attempts`], and
    /// all.
    fn attempts(&self, message: &Self::Message) -> (u32, u32);

    /// Stores the failed attempt, and makes the message due again after `delay`.
    async fn postpone(&self, message: &Self::Message, failure: &DeliveryError, delay: Duration);

    /// Turns the message into a dead letter with the reason. [`find_due`](Self::find_due) does not
    /// return it again.
    async fn dead_letter(&self, message: &Self::Message, failure: &DeliveryError);

    /// Describes the message for the log.
    fn describe(&self, message: &Self::Message) -> String;

    /// Whether this process stops: other processes deliver the messages of all further rounds.
    fn is_stopping(&self) -> bool {
        false
    }
}

/// The messages that this process has committed and not yet delivered. One round runs at a time;
/// the next round delivers messages that arrive during it.
///
/// ```
/// use cdb_coordination::outbox::Dispatcher;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/relay.rs")); }
/// # use setup::Numbers;
/// # tokio::runtime::Runtime::new()?.block_on(async {
///
/// let (dispatcher, numbers) = (Dispatcher::default(), Numbers::default()); // `Numbers` is an `OutboxTransport` of numbers
/// let handover = dispatcher.hand_over(vec![7]); // just committed
/// if handover.must_work {
///     dispatcher.work(&numbers).await; // usually in a task of its own
/// }
/// assert_eq!(*numbers.delivered.lock().unwrap(), [7]);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[derive_where(Default)]
pub struct Dispatcher<P> {
    state: Mutex<State<P>>,
}

#[derive(Debug)]
#[derive_where(Default)]
struct State<P> {
    waiting: Vec<Waiting<P>>,
    /// Delivered, and to be deleted.
    delivered: Vec<P>,
    at_work: bool,
}

#[derive(Debug)]
struct Waiting<P> {
    message: P,
    /// Signals that the message was tried, with any result.
    done: oneshot::Sender<()>,
}

/// Messages that a [`Dispatcher`] has accepted. Dropping it does not affect their delivery.
#[derive(Debug)]
#[must_use = "`must_work` says whether the caller has to spawn `Dispatcher::work`"]
pub struct PendingDelivery {
    answers: Vec<oneshot::Receiver<()>>,
    /// Whether no task delivers now: the caller must then spawn [`Dispatcher::work`].
    pub must_work: bool,
}

impl PendingDelivery {
    /// Waits until every message was tried, with any result.
    pub async fn done(self) {
        for answer in self.answers {
            // A dropped round has delivered nothing. The reconciler finds its messages.
            let _dropped = answer.await;
        }
    }
}

/// The task that delivers. When it panics or is cancelled, the next hand-over starts another one.
struct AtWork<'a, P: Send + Sync>(&'a Dispatcher<P>);

impl<P: Send + Sync> Drop for AtWork<'_, P> {
    fn drop(&mut self) {
        self.0.state().at_work = false;
    }
}

impl<P: Send + Sync> Dispatcher<P> {
    fn state(&self) -> MutexGuard<'_, State<P>> {
        // The state is valid between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a task delivers now.
    pub(crate) fn is_at_work(&self) -> bool {
        self.state().at_work
    }

    /// Accepts messages that were just committed.
    pub fn hand_over(&self, messages: Vec<P>) -> PendingDelivery {
        let mut answers = Vec::with_capacity(messages.len());
        let mut state = self.state();
        for message in messages {
            let (done, answer) = oneshot::channel();
            answers.push(answer);
            state.waiting.push(Waiting { message, done });
        }
        let must_work = !answers.is_empty() && !std::mem::replace(&mut state.at_work, true);
        PendingDelivery { answers, must_work }
    }

    /// Delivers in rounds until no message waits. When the process [stops](OutboxTransport::is_stopping), the
    /// next round is the last one. [`reconcile`] delivers the others, and retries failed messages.
    pub async fn work<K: OutboxTransport<Message = P>>(&self, relay: &K) {
        let at_work = AtWork(self);
        loop {
            let is_last = relay.is_stopping();
            let (waiting, delivered) = {
                let mut state = self.state();
                let count = state.waiting.len().min(ROUND);
                let waiting: Vec<_> = state.waiting.drain(..count).collect();
                let delivered = std::mem::take(&mut state.delivered);
                if waiting.is_empty() && delivered.is_empty() {
                    state.at_work = false;
                    std::mem::forget(at_work);
                    return;
                }
                (waiting, delivered)
            };
            self.round(relay, waiting, &delivered).await;
            if is_last {
                let delivered = {
                    let mut state = self.state();
                    state.waiting.clear();
                    std::mem::take(&mut state.delivered)
                };
                // A message that is not deleted is found again.
                relay.deliver(&[], &delivered).await;
                return;
            }
            let idle = self.state().waiting.is_empty();
            if idle {
                tokio::time::sleep(BATCHING_DELAY).await;
            }
        }
    }

    async fn round<K: OutboxTransport<Message = P>>(
        &self,
        relay: &K,
        waiting: Vec<Waiting<P>>,
        delivered: &[P],
    ) {
        let (messages, done): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .map(|waiting| (waiting.message, waiting.done))
            .unzip();
        let results = relay.deliver(&messages, delivered).await;
        for done in done {
            // The receiver may have stopped waiting.
            let _unheard = done.send(());
        }
        let mut fresh = Vec::new();
        for (message, result) in messages.into_iter().zip(results) {
            match result {
                Ok(()) => fresh.push(message),
                Err(failure) => tracing::warn!(
                    message = relay.describe(&message),
                    %failure,
                    "message not delivered; the reconciler retries it"
                ),
            }
        }
        self.state().delivered.append(&mut fresh);
    }
}

/// Finds due messages and delivers them in rounds. Failed messages are postponed or dead-lettered,
/// as `policy` says. Ends after the first round that has delivered a message, because the oldest
/// messages may all fail, or when the process [stops](OutboxTransport::is_stopping). Returns `true` if more
/// messages are waiting and may succeed.
pub async fn reconcile<K: OutboxTransport>(
    relay: &K,
    policy: &RetryPolicy,
    jitter: &Jitter,
) -> bool {
    // The failed messages of a round are due later, unless their postponement has failed too.
    for _ in 0..(MAX_ROWS as usize).div_ceil(ROUND) {
        if relay.is_stopping() {
            return false;
        }
        let found = match relay.find_due(ROUND).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "the search for undelivered messages failed");
                return false;
            }
        };
        let full = found.len() >= ROUND;
        let results = relay.deliver(&found, &[]).await;
        let (mut delivered, mut failed) = (Vec::new(), Vec::new());
        for (message, result) in found.into_iter().zip(results) {
            match result {
                Ok(()) => delivered.push(message),
                Err(failure) => failed.push((message, failure)),
            }
        }
        let retries = failed.iter().map(|(message, failure)| {
            retry_or_dead_letter(relay, message, failure, policy, jitter)
        });
        in_parallel(retries.collect()).await;
        if !delivered.is_empty() {
            // Without messages there are no results. A message that is not deleted is found again.
            relay.deliver(&[], &delivered).await;
        }
        if !full || !delivered.is_empty() {
            return full;
        }
    }
    false
}

/// Postpones or dead-letters a message after a failed delivery.
async fn retry_or_dead_letter<K: OutboxTransport>(
    relay: &K,
    message: &K::Message,
    failure: &DeliveryError,
    policy: &RetryPolicy,
    jitter: &Jitter,
) {
    if relay.is_stopping() {
        return;
    }
    let (counted, failed) = relay.attempts(message);
    let counted = counted.saturating_add(u32::from(failure.counts()));
    let name = relay.describe(message);
    if failure.is_final(counted, policy) {
        tracing::error!(message = name, %failure, "message dead-lettered");
        relay.dead_letter(message, failure).await;
    } else {
        let delay = policy.delay(failed.saturating_add(1), jitter);
        tracing::warn!(message = name, %failure, ?delay, "message not delivered; it is postponed");
        relay.postpone(message, failure, delay).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Panics at the first delivery.
    #[derive(Default)]
    struct Fragile {
        has_panicked: AtomicBool,
        delivered: Mutex<Vec<u64>>,
    }

    #[async_trait]
    impl OutboxTransport for Fragile {
        type Message = u64;

        async fn deliver(&self, numbers: &[u64], _: &[u64]) -> Vec<Result<(), DeliveryError>> {
            let first = !self.has_panicked.swap(true, Ordering::Relaxed);
            assert!(!first, "the first delivery panics");
            let mut delivered = self.delivered.lock().expect("no other holder panics");
            delivered.extend(numbers);
            numbers.iter().map(|_| Ok(())).collect()
        }

        async fn find_due(&self, _: usize) -> Result<Vec<u64>, Error> {
            Ok(Vec::new())
        }

        fn attempts(&self, _: &u64) -> (u32, u32) {
            (0, 0)
        }

        async fn postpone(&self, _: &u64, _: &DeliveryError, _: Duration) {}

        async fn dead_letter(&self, _: &u64, _: &DeliveryError) {}

        fn describe(&self, number: &u64) -> String {
            number.to_string()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_panic_the_next_hand_over_delivers() {
        let shared = std::sync::Arc::new((Dispatcher::default(), Fragile::default()));
        let lost = shared.0.hand_over(vec![1]);
        assert!(lost.must_work);
        let working = shared.clone();
        let task = tokio::spawn(async move { working.0.work(&working.1).await });
        assert!(task.await.is_err_and(|error| error.is_panic()));
        lost.done().await;
        let (dispatcher, relay) = &*shared;
        let next = dispatcher.hand_over(vec![2]);
        assert!(next.must_work, "no task delivers");
        dispatcher.work(relay).await;
        assert_eq!(*relay.delivered.lock().expect("it has ended"), [2]);
    }
}
