//! The machinery of delivery, for messages of any kind: rounds, waiting, removal, and what was left behind.
//!
//! A message is something that was committed and has to be carried elsewhere; its [`Relay`] knows how. Delivering it
//! twice must change nothing, so nobody needs to know who else delivers: what this process committed goes out at once,
//! and what is found lying about, whoever left it, goes out again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cdb_client::Error;
use tokio::sync::oneshot;

use super::retry::{Jitter, RetryPolicy, Undelivered};

/// Most messages of one round.
const ROUND: usize = 100;

/// How long delivered messages wait for others, to be removed in one request.
const LINGER: Duration = Duration::from_millis(20);

/// What is done with messages of one kind.
///
/// ```
/// use std::sync::Mutex;
/// use std::time::Duration;
/// use cdb_coordination::{Relay, Jitter, RetryPolicy, Undelivered, reconcile};
///
/// /// Rings doorbells. Which ones are still to be rung is kept in `left`; a program's own would be in a container.
/// #[derive(Default)]
/// struct Bell {
///     left: Mutex<Vec<u64>>,
/// }
///
/// #[async_trait::async_trait]
/// impl Relay for Bell {
///     type Message = u64;
///
///     async fn deliver(&self, houses: &[u64], rung: &[u64]) -> Vec<Result<(), Undelivered>> {
///         self.left.lock().unwrap().retain(|house| !rung.contains(house));
///         let ring = |&house: &u64| match house {
///             13 => Err(Undelivered::permanent("there is no such house")),
///             _ => Ok(()), // twice does no harm
///         };
///         houses.iter().map(ring).collect()
///     }
///
///     async fn find_due(&self, most: usize) -> Result<Vec<u64>, cdb_client::Error> {
///         Ok(self.left.lock().unwrap().iter().copied().take(most).collect())
///     }
///
///     fn attempts(&self, _: &u64) -> (u32, u32) {
///         (0, 0) // stored with the message, where it is tried more than once
///     }
///
///     async fn postpone(&self, _: &u64, _: &Undelivered, _: Duration) {}
///
///     async fn dead_letter(&self, house: &u64, _: &Undelivered) {
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
pub trait Relay: Send + Sync {
    /// Something that was committed and has to be carried elsewhere.
    type Message: Send + Sync;

    /// Delivers messages, and removes others that were delivered before, in as few requests as it can. One result per
    /// message, in their order. A message that arrived before is delivered. What is not removed is found again.
    async fn deliver(
        &self,
        messages: &[Self::Message],
        delivered: &[Self::Message],
    ) -> Vec<Result<(), Undelivered>>;

    /// What is due and was left behind by whomever, the oldest first.
    ///
    /// # Errors
    /// When it cannot be searched for.
    async fn find_due(&self, most: usize) -> Result<Vec<Self::Message>, Error>;

    /// The attempts at a message that have failed: those that count, and all.
    fn attempts(&self, message: &Self::Message) -> (u32, u32);

    /// Keeps the message, with the attempt that failed, and has it found again after `delay`.
    async fn postpone(&self, message: &Self::Message, failure: &Undelivered, delay: Duration);

    /// Turns the message into a dead letter: kept with the reason, and never found again.
    async fn dead_letter(&self, message: &Self::Message, failure: &Undelivered);

    /// Names the message in the log.
    fn describe(&self, message: &Self::Message) -> String;
}

/// What is to be delivered. One round at a time: what comes meanwhile travels together in the next.
///
/// ```
/// use cdb_coordination::Dispatcher;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/relay.rs")); }
/// # use setup::Numbers;
/// # tokio::runtime::Runtime::new()?.block_on(async {
///
/// let (dispatcher, numbers) = (Dispatcher::default(), Numbers::default()); // `Numbers` is a `Relay` of numbers
/// let handover = dispatcher.hand_over(vec![7]); // was committed a moment ago
/// if handover.must_work {
///     dispatcher.work(&numbers).await; // in a task of its own, so that nobody waits for it
/// }
/// assert_eq!(*numbers.delivered.lock().unwrap(), [7]);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Dispatcher<P> {
    state: Mutex<State<P>>,
}

#[derive(Debug)]
struct State<P> {
    waiting: Vec<Waiting<P>>,
    /// Delivered, to be removed.
    delivered: Vec<P>,
    at_work: bool,
}

#[derive(Debug)]
struct Waiting<P> {
    message: P,
    /// Told when the message has had its turn, whatever came of it.
    done: oneshot::Sender<()>,
}

/// Messages that were handed over. Dropping it changes nothing about their delivery.
///
/// ```
/// use cdb_coordination::Dispatcher;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/relay.rs")); }
/// # use setup::Numbers;
/// # tokio::runtime::Runtime::new()?.block_on(async {
///
/// let (dispatcher, numbers) = (Dispatcher::default(), Numbers::default());
/// let first = dispatcher.hand_over(vec![7]);
/// let second = dispatcher.hand_over(vec![8]);
/// assert!(first.must_work && !second.must_work); // whoever works for the first carries the second too
/// dispatcher.work(&numbers).await;
/// second.done().await;
/// # assert_eq!(*numbers.delivered.lock().unwrap(), [7, 8]);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "`must_work` says whether somebody has to call `Dispatcher::work`"]
pub struct Handover {
    answers: Vec<oneshot::Receiver<()>>,
    /// Nobody delivers at the moment: call [`Dispatcher::work`], in a task of its own.
    pub must_work: bool,
}

impl Handover {
    /// Waits until every message has had its turn, whatever came of it.
    pub async fn done(self) {
        for answer in self.answers {
            // A round that was dropped has delivered nothing; what it left is found again.
            let _dropped = answer.await;
        }
    }
}

impl<P> Default for Dispatcher<P> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                waiting: Vec::new(),
                delivered: Vec::new(),
                at_work: false,
            }),
        }
    }
}

impl<P: Send + Sync> Dispatcher<P> {
    fn state(&self) -> MutexGuard<'_, State<P>> {
        // The state is valid between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes messages that were just committed.
    pub fn hand_over(&self, messages: Vec<P>) -> Handover {
        let mut answers = Vec::with_capacity(messages.len());
        if messages.is_empty() {
            return Handover {
                answers,
                must_work: false,
            };
        }
        let mut state = self.state();
        for message in messages {
            let (done, answer) = oneshot::channel();
            answers.push(answer);
            state.waiting.push(Waiting { message, done });
        }
        let must_work = !std::mem::replace(&mut state.at_work, true);
        Handover { answers, must_work }
    }

    /// Delivers round after round until nothing waits. What fails is left to [`reconcile`].
    pub async fn work<K: Relay<Message = P>>(&self, carrier: &K) {
        loop {
            let (waiting, delivered) = {
                let mut state = self.state();
                let count = state.waiting.len().min(ROUND);
                let waiting: Vec<_> = state.waiting.drain(..count).collect();
                (waiting, std::mem::take(&mut state.delivered))
            };
            if waiting.is_empty() && delivered.is_empty() {
                let mut state = self.state();
                if state.waiting.is_empty() {
                    state.at_work = false;
                    return;
                }
                continue;
            }
            self.round(carrier, waiting, &delivered).await;
            let idle = self.state().waiting.is_empty();
            if idle {
                tokio::time::sleep(LINGER).await;
            }
        }
    }

    async fn round<K: Relay<Message = P>>(
        &self,
        carrier: &K,
        waiting: Vec<Waiting<P>>,
        delivered: &[P],
    ) {
        let (messages, done): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .map(|waiting| (waiting.message, waiting.done))
            .unzip();
        let results = carrier.deliver(&messages, delivered).await;
        for done in done {
            // Nobody waits for it any more.
            let _unheard = done.send(());
        }
        let mut fresh = Vec::new();
        for (message, result) in messages.into_iter().zip(results) {
            match result {
                Ok(()) => fresh.push(message),
                Err(failure) => tracing::warn!(
                    message = carrier.describe(&message),
                    %failure,
                    "not delivered; it will be tried again"
                ),
            }
        }
        self.state().delivered.append(&mut fresh);
    }
}

/// Delivers what was left behind: once, a round of it. What fails is tried again later, and given up when `policy` says
/// so. Returns whether more is waiting that may succeed.
///
/// ```
/// use cdb_coordination::{Jitter, RetryPolicy, reconcile};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/relay.rs")); }
/// # use setup::Numbers;
/// # tokio::runtime::Runtime::new()?.block_on(async {
///
/// // Of a process that died between commit and delivery.
/// let numbers = Numbers { left: vec![7].into(), ..Numbers::default() };
/// reconcile(&numbers, &RetryPolicy::default(), &Jitter::random()).await; // once a second, say
/// assert_eq!(*numbers.delivered.lock().unwrap(), [7]);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub async fn reconcile<K: Relay>(carrier: &K, policy: &RetryPolicy, jitter: &Jitter) -> bool {
    let found = match carrier.find_due(ROUND).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "the outbox cannot be searched");
            return false;
        }
    };
    let full = found.len() == ROUND;
    let results = carrier.deliver(&found, &[]).await;
    let mut delivered = Vec::new();
    for (message, result) in found.into_iter().zip(results) {
        match result {
            Ok(()) => delivered.push(message),
            Err(failure) => settle(carrier, &message, &failure, (policy, jitter)).await,
        }
    }
    if !delivered.is_empty() {
        // No messages, no results: what was not removed is found again.
        carrier.deliver(&[], &delivered).await;
    }
    full && !delivered.is_empty()
}

/// Postpones or gives up what was not delivered.
async fn settle<K: Relay>(
    carrier: &K,
    message: &K::Message,
    failure: &Undelivered,
    (policy, jitter): (&RetryPolicy, &Jitter),
) {
    let (counted, failed) = carrier.attempts(message);
    let counted = counted.saturating_add(u32::from(failure.counts()));
    let name = carrier.describe(message);
    if failure.is_final(counted, policy) {
        tracing::error!(message = name, %failure, "given up; it is a dead letter now");
        carrier.dead_letter(message, failure).await;
    } else {
        let delay = policy.delay(failed.saturating_add(1), jitter);
        tracing::warn!(message = name, %failure, ?delay, "still not delivered");
        carrier.postpone(message, failure, delay).await;
    }
}
