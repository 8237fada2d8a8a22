//! The machinery of delivery, for parcels of any kind: rounds, waiting, removal, and what was left behind.
//!
//! A parcel is something that was committed and has to be carried elsewhere; its [`Carrier`] knows how. Delivering it
//! twice must change nothing, so nobody needs to know who else delivers: what this process committed goes out at once,
//! and what is found lying about, whoever left it, goes out again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cdb_client::Error;
use tokio::sync::oneshot;

use super::retry::{Jitter, RetryPolicy, Undelivered};

/// Most parcels of one round.
const ROUND: usize = 100;

/// How long delivered parcels wait for others, to be removed in one request.
const LINGER: Duration = Duration::from_millis(20);

/// What is done with parcels of one kind.
///
/// ```
/// use std::sync::Mutex;
/// use std::time::Duration;
/// use cdb_coordination::{Carrier, Jitter, RetryPolicy, Undelivered, reconcile};
///
/// /// Rings doorbells. Which ones are still to be rung is kept in `left`; a program's own would be in a container.
/// #[derive(Default)]
/// struct Bell {
///     left: Mutex<Vec<u64>>,
/// }
///
/// #[async_trait::async_trait]
/// impl Carrier for Bell {
///     type Parcel = u64;
///
///     async fn deliver(&self, houses: &[u64], rung: &[u64]) -> Vec<Result<(), Undelivered>> {
///         self.left.lock().unwrap().retain(|house| !rung.contains(house));
///         let ring = |&house: &u64| match house {
///             13 => Err(Undelivered::hopeless("there is no such house")),
///             _ => Ok(()), // twice does no harm
///         };
///         houses.iter().map(ring).collect()
///     }
///
///     async fn left_behind(&self, most: usize) -> Result<Vec<u64>, cdb_client::Error> {
///         Ok(self.left.lock().unwrap().iter().copied().take(most).collect())
///     }
///
///     fn attempts(&self, _: &u64) -> (u32, u32) {
///         (0, 0) // stored with the parcel, where it is tried more than once
///     }
///
///     async fn postpone(&self, _: &u64, _: &Undelivered, _: Duration) {}
///
///     async fn bury(&self, house: &u64, _: &Undelivered) {
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
pub trait Carrier: Send + Sync {
    /// Something that was committed and has to be carried elsewhere.
    type Parcel: Send + Sync;

    /// Delivers parcels, and removes others that were delivered before, in as few requests as it can. One result per
    /// parcel, in their order. A parcel that arrived before is delivered. What is not removed is found again.
    async fn deliver(
        &self,
        parcels: &[Self::Parcel],
        delivered: &[Self::Parcel],
    ) -> Vec<Result<(), Undelivered>>;

    /// What is due and was left behind by whomever, the oldest first.
    ///
    /// # Errors
    /// When it cannot be searched for.
    async fn left_behind(&self, most: usize) -> Result<Vec<Self::Parcel>, Error>;

    /// The attempts at a parcel that have failed: those that count, and all.
    fn attempts(&self, parcel: &Self::Parcel) -> (u32, u32);

    /// Keeps the parcel, with the attempt that failed, and has it found again after `delay`.
    async fn postpone(&self, parcel: &Self::Parcel, failure: &Undelivered, delay: Duration);

    /// Turns the parcel into a dead letter: kept with the reason, and never found again.
    async fn bury(&self, parcel: &Self::Parcel, failure: &Undelivered);

    /// Names the parcel in the log.
    fn describe(&self, parcel: &Self::Parcel) -> String;
}

/// What is to be delivered. One round at a time: what comes meanwhile travels together in the next.
///
/// ```
/// use cdb_coordination::Dispatcher;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/post.rs")); }
/// # use setup::Post;
/// # tokio::runtime::Runtime::new()?.block_on(async {
///
/// let (dispatcher, post) = (Dispatcher::default(), Post::default()); // `Post` is a `Carrier` of numbers
/// let handover = dispatcher.hand_over(vec![7]); // was committed a moment ago
/// if handover.must_work {
///     dispatcher.work(&post).await; // in a task of its own, so that nobody waits for it
/// }
/// assert_eq!(*post.delivered.lock().unwrap(), [7]);
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
    parcel: P,
    /// Told when the parcel has had its turn, whatever came of it.
    done: oneshot::Sender<()>,
}

/// Parcels that were handed over. Dropping it changes nothing about their delivery.
///
/// ```
/// use cdb_coordination::Dispatcher;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/post.rs")); }
/// # use setup::Post;
/// # tokio::runtime::Runtime::new()?.block_on(async {
///
/// let (dispatcher, post) = (Dispatcher::default(), Post::default());
/// let first = dispatcher.hand_over(vec![7]);
/// let second = dispatcher.hand_over(vec![8]);
/// assert!(first.must_work && !second.must_work); // whoever works for the first carries the second too
/// dispatcher.work(&post).await;
/// second.done().await;
/// # assert_eq!(*post.delivered.lock().unwrap(), [7, 8]);
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
    /// Waits until every parcel has had its turn, whatever came of it.
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

    /// Takes parcels that were just committed.
    pub fn hand_over(&self, parcels: Vec<P>) -> Handover {
        let mut answers = Vec::with_capacity(parcels.len());
        if parcels.is_empty() {
            return Handover {
                answers,
                must_work: false,
            };
        }
        let mut state = self.state();
        for parcel in parcels {
            let (done, answer) = oneshot::channel();
            answers.push(answer);
            state.waiting.push(Waiting { parcel, done });
        }
        let must_work = !std::mem::replace(&mut state.at_work, true);
        Handover { answers, must_work }
    }

    /// Delivers round after round until nothing waits. What fails is left to [`reconcile`].
    pub async fn work<K: Carrier<Parcel = P>>(&self, carrier: &K) {
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

    async fn round<K: Carrier<Parcel = P>>(
        &self,
        carrier: &K,
        waiting: Vec<Waiting<P>>,
        delivered: &[P],
    ) {
        let (parcels, done): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .map(|waiting| (waiting.parcel, waiting.done))
            .unzip();
        let results = carrier.deliver(&parcels, delivered).await;
        for done in done {
            // Nobody waits for it any more.
            let _unheard = done.send(());
        }
        let mut fresh = Vec::new();
        for (parcel, result) in parcels.into_iter().zip(results) {
            match result {
                Ok(()) => fresh.push(parcel),
                Err(failure) => tracing::warn!(
                    parcel = carrier.describe(&parcel),
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
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/post.rs")); }
/// # use setup::Post;
/// # tokio::runtime::Runtime::new()?.block_on(async {
///
/// // Of a process that died between commit and delivery.
/// let post = Post { left: vec![7].into(), ..Post::default() };
/// reconcile(&post, &RetryPolicy::default(), &Jitter::random()).await; // once a second, say
/// assert_eq!(*post.delivered.lock().unwrap(), [7]);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub async fn reconcile<K: Carrier>(carrier: &K, policy: &RetryPolicy, jitter: &Jitter) -> bool {
    let found = match carrier.left_behind(ROUND).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "the outbox cannot be searched");
            return false;
        }
    };
    let full = found.len() == ROUND;
    let results = carrier.deliver(&found, &[]).await;
    let mut delivered = Vec::new();
    for (parcel, result) in found.into_iter().zip(results) {
        match result {
            Ok(()) => delivered.push(parcel),
            Err(failure) => settle(carrier, &parcel, &failure, (policy, jitter)).await,
        }
    }
    if !delivered.is_empty() {
        // No parcels, no results: what was not removed is found again.
        carrier.deliver(&[], &delivered).await;
    }
    full && !delivered.is_empty()
}

/// Postpones or gives up what was not delivered.
async fn settle<K: Carrier>(
    carrier: &K,
    parcel: &K::Parcel,
    failure: &Undelivered,
    (policy, jitter): (&RetryPolicy, &Jitter),
) {
    let (counted, failed) = carrier.attempts(parcel);
    let counted = counted.saturating_add(u32::from(failure.counts()));
    let name = carrier.describe(parcel);
    if failure.is_final(counted, policy) {
        tracing::error!(parcel = name, %failure, "given up; it is a dead letter now");
        carrier.bury(parcel, failure).await;
    } else {
        let delay = policy.delay(failed.saturating_add(1), jitter);
        tracing::warn!(parcel = name, %failure, ?delay, "still not delivered");
        carrier.postpone(parcel, failure, delay).await;
    }
}
