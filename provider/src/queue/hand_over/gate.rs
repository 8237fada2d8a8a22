//! The gate between a call that would store a message and the turn that may consume it.

use std::sync::Arc;
use std::time::Duration;

use cdb_model::ETag;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use crate::queue::activities::{Activities, WorkLock};
use crate::queue::local_queue::Shared;

/// What has become of a message.
#[derive(Debug)]
enum Fate {
    /// Neither stored nor consumed.
    Waiting,
    /// A turn has given it back. It is due after this time.
    GivenBack(Duration),
    /// Stored as a message, at this version.
    Stored(ETag),
    /// A committed turn has consumed it.
    Consumed,
    /// The caller did not store it, or does not know.
    Failed,
}

#[derive(Debug)]
struct Gate {
    fate: Arc<Mutex<Fate>>,
    /// The activity that the message completes; `None` for a start.
    activity: Option<Shared<Activities>>,
    /// Wakes the caller.
    changed: Notify,
    /// Cancelled when the commit that has taken the message goes on without its dispatcher.
    stalled: CancellationToken,
}

/// The side of the caller.
#[derive(Debug)]
pub(crate) struct HandOver {
    gate: Arc<Gate>,
}

/// How a hand-over has ended for the caller.
pub(crate) enum Answer {
    /// The turn that has consumed the message is committed.
    Consumed,
    /// The message must be stored. No turn can consume it before that has ended.
    Store(Storing),
}

/// The right to store the message. Dropped without [`Self::end`], it has failed.
pub(crate) struct Storing {
    fate: OwnedMutexGuard<Fate>,
    /// How long the message is delayed.
    pub(crate) delay: Duration,
    /// Whether no turn has taken the message in time.
    pub(crate) is_late: bool,
}

impl HandOver {
    /// Offers the completion of an activity. `stalled` is cancelled when the commit goes on without its
    /// dispatcher, so that the worker does, too.
    pub(crate) fn of_activity(
        activity: &Shared<Activities>,
        stalled: CancellationToken,
    ) -> (Self, Ticket) {
        Self::new(Some(activity.clone()), stalled)
    }

    /// Offers the start of an instance.
    pub(crate) fn of_start() -> (Self, Ticket) {
        Self::new(None, CancellationToken::new())
    }

    fn new(activity: Option<Shared<Activities>>, stalled: CancellationToken) -> (Self, Ticket) {
        let gate = Arc::new(Gate {
            fate: Arc::new(Mutex::new(Fate::Waiting)),
            activity,
            changed: Notify::new(),
            stalled,
        });
        let ticket = Ticket(Arc::new(Holder(gate.clone())));
        (Self { gate }, ticket)
    }

    /// Waits until a turn has consumed the message or no turn holds its ticket, for at most `time`.
    pub(crate) async fn answer(self, time: Duration) -> Answer {
        let woken = tokio::time::timeout(time, self.gate.changed.notified()).await;
        let fate = self.gate.fate.clone().lock_owned().await;
        let delay = match &*fate {
            Fate::Consumed => return Answer::Consumed,
            Fate::GivenBack(delay) => *delay,
            Fate::Waiting | Fate::Stored(_) | Fate::Failed => Duration::ZERO,
        };
        Answer::Store(Storing {
            fate,
            delay,
            is_late: woken.is_err(),
        })
    }
}

impl Storing {
    /// Notes the version of the stored message; `None` if it is not known to be stored.
    pub(crate) fn end(mut self, stored: Option<ETag>) {
        *self.fate = stored.map_or(Fate::Failed, Fate::Stored);
    }
}

impl Drop for Storing {
    fn drop(&mut self) {
        if !matches!(*self.fate, Fate::Stored(_)) {
            *self.fate = Fate::Failed;
        }
    }
}

/// The side of the turn. When the last clone is dropped, the caller stores the message.
#[derive(Clone, Debug)]
pub(crate) struct Ticket(Arc<Holder>);

#[derive(Debug)]
struct Holder(Arc<Gate>);

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.changed.notify_one();
    }
}

/// A message that a commit consumes.
pub(crate) enum Taken {
    /// Its caller has stored it, at this version.
    Stored(ETag),
    /// The commit deletes its activity instead.
    Unstored(Unstored),
}

/// A message that only the commit may consume or store while this is held.
#[derive(Debug)]
pub(crate) struct Unstored {
    gate: Arc<Gate>,
    fate: OwnedMutexGuard<Fate>,
    /// Locked, so that nothing renews or releases it, and its version stays. `None` for a start.
    pub(crate) activity: Option<OwnedMutexGuard<WorkLock>>,
}

impl Ticket {
    /// Takes the message for a commit. If a caller has failed, or the outcome of an earlier commit is
    /// unknown, the version of the activity decides.
    pub(crate) async fn take(&self) -> Taken {
        let gate = self.0.0.clone();
        let fate = gate.fate.clone().lock_owned().await;
        if let Fate::Stored(etag) = &*fate {
            return Taken::Stored(etag.clone());
        }
        let activity = match gate.activity.clone() {
            Some(activity) => Some(activity.lock_owned().await),
            None => None,
        };
        Taken::Unstored(Unstored {
            gate,
            fate,
            activity,
        })
    }

    /// Returns whether the message completes an activity.
    pub(crate) fn is_of_activity(&self) -> bool {
        self.0.0.activity.is_some()
    }

    /// Returns what frees the caller from a commit that goes on without its dispatcher.
    pub(crate) fn stalled(&self) -> CancellationToken {
        self.0.0.stalled.clone()
    }

    /// Returns the version of the message if it is known to be stored.
    pub(crate) fn stored(&self) -> Option<ETag> {
        match &*self.0.0.fate.try_lock().ok()? {
            Fate::Stored(etag) => Some(etag.clone()),
            _ => None,
        }
    }

    /// Returns whether the caller has left the message without a known outcome.
    pub(crate) fn has_failed(&self) -> bool {
        let fate = self.0.0.fate.try_lock();
        fate.is_ok_and(|fate| matches!(*fate, Fate::Failed))
    }

    /// Gives the message back, to be stored with a delay. Returns its version if it is stored already.
    pub(crate) async fn give_back(&self, delay: Duration) -> Option<ETag> {
        let mut fate = self.0.0.fate.lock().await;
        match &*fate {
            Fate::Stored(etag) => Some(etag.clone()),
            Fate::Waiting => {
                *fate = Fate::GivenBack(delay);
                None
            }
            Fate::GivenBack(_) | Fate::Consumed | Fate::Failed => None,
        }
    }
}

impl Unstored {
    /// Notes the committed turn, and returns the lock of the activity, which has ended.
    pub(crate) fn consumed(mut self) -> Option<OwnedMutexGuard<WorkLock>> {
        *self.fate = Fate::Consumed;
        self.gate.changed.notify_one();
        self.activity
    }
}
