//! Claimed messages, reports, and the entries that a coordinator writes.
//!
//! A report is made from a claim. A report that completes the message consumes the claim.

use std::sync::{Arc, Weak};

use cdb_model::container::Extends;
use cdb_model::operation::BatchError;
use cdb_model::{Batch, Container, PartitionKey};

use crate::memory::inner::Inner;
use crate::streams::claim::Claim;
use crate::streams::delivery::DeliveryReason;
use crate::streams::documents::{Work, WorkMessage};
use crate::streams::new_work::NewWork;
use crate::streams::status::WorkStatus;
use crate::streams::stream::ClaimState;

/// A claimed message. Until it is completed, no later message of its stream is claimed.
///
/// When the claim is dropped without a report, or the report without being submitted, the attempt
/// counts as failed. [`release`](Self::release) returns a message without counting an attempt.
///
/// ```
/// use std::time::Duration;
/// use cdb_work::NewWork;
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// let now = work.immediate();
/// now.store(NewWork::inbox("order-7", "paid-1")).await?;
/// let claimed = work.claim(1, Duration::from_secs(60)).await.pop().expect("it was stored");
/// let kind = claimed.message().kind.clone();
/// let report = match kind.as_str() {
///     "paid" => claimed.done(),
///     other => claimed.failed(format!("unknown kind `{other}`")), // retried, then dead
/// };
/// now.report(report).await?;
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct ClaimedWork {
    pub(crate) message: Arc<WorkMessage>,
    pub(crate) delivery: DeliveryReason,
    pub(crate) guard: ClaimGuard,
}

/// Ends a claim when it is dropped, unless its report was submitted.
#[derive(Debug)]
pub(crate) struct ClaimGuard {
    pub(crate) claim: Claim,
    pub(crate) home: Weak<Inner>,
    /// Whether the message was handed out, so that dropping the claim is a failed attempt.
    pub(crate) is_delivered: bool,
}

impl ClaimGuard {
    /// The claim, without returning it.
    pub(crate) fn into_claim(mut self) -> Claim {
        self.home = Weak::new();
        self.claim.clone()
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        if let Some(inner) = self.home.upgrade() {
            inner.drop_claim(&self.claim, self.is_delivered);
        }
    }
}

impl ClaimedWork {
    /// The stored message.
    pub fn message(&self) -> &WorkMessage {
        &self.message
    }

    /// How the message came here: new, retried, or taken over from another coordinator.
    pub fn delivery(&self) -> DeliveryReason {
        self.delivery
    }

    /// Starts the claim's time-out ([`WorkConfig::claim_timeout`](crate::WorkConfig::claim_timeout))
    /// again. Returns `false` when the claim is void: stop, the report would be refused.
    pub fn renew(&self) -> bool {
        let inner = self.guard.home.upgrade();
        inner.is_some_and(|inner| inner.renew(&self.guard.claim) == ClaimState::Valid)
    }

    /// Returns the message, to be claimed again at once. Counts no attempt.
    pub fn release(mut self) {
        self.guard.is_delivered = false;
    }

    /// The stages that the message still needs, without those of earlier reports.
    pub fn left(&self) -> WorkStatus {
        self.message.needs.without(self.message.status)
    }

    /// Grows whenever the stream's partition changes its owner. Pass it to other systems that can
    /// refuse a smaller one.
    pub fn fencing_token(&self) -> u64 {
        self.guard.claim.fence
    }

    /// The partition key of the stream, for documents that are written together with a report.
    pub fn partition_key(&self) -> PartitionKey {
        PartitionKey::from(self.message.partition.as_str())
    }

    /// An empty batch for documents that are written together with a report.
    pub fn effects<C: Container>(&self) -> Batch<C> {
        Batch::new(self.partition_key())
    }

    /// Reports all stages: completes the message.
    pub fn done(self) -> WorkReport {
        WorkReport::last(self.guard, Reported::Done)
    }

    /// Reports some stages. The claim stays, unless the message needs no other stage.
    pub fn reached(&self, stages: WorkStatus) -> WorkReport {
        WorkReport {
            claim: self.guard.claim.clone(),
            guard: None,
            reported: Reported::Reached(stages),
            effects: None,
        }
    }

    /// Reports a failure: the message is retried after a delay, and its stream waits.
    pub fn failed(self, reason: impl Into<String>) -> WorkReport {
        WorkReport::last(self.guard, Reported::Failed(reason.into()))
    }

    /// Reports a failure that every attempt would repeat: the message becomes dead, or is skipped, at
    /// once, as after its last attempt.
    pub fn rejected(self, reason: impl Into<String>) -> WorkReport {
        WorkReport::last(self.guard, Reported::Rejected(reason.into()))
    }
}

/// The result of a claimed message.
///
/// ```
/// use std::time::Duration;
/// use cdb_work::{NewEvent, NewWork, WorkReport};
/// # mod setup { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/work.rs")); }
/// # setup::with_work(async |work| {
///
/// # work.immediate().store(NewWork::inbox("order-7", "paid-1")).await?;
/// let claimed = work.claim(1, Duration::from_secs(60)).await.pop().expect("it was stored");
/// let paid = work.events().to_batch("order-7", 0, vec![NewEvent::new("paid", "{}")])?;
/// let report: WorkReport = claimed.done().with_effects(&paid)?;
/// work.immediate().report(report).await?; // the event exists if and only if the message is completed
/// assert_eq!(work.events().version("order-7").await?, 1);
/// # work.shutdown().await?; Ok(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct WorkReport {
    pub(crate) claim: Claim,
    /// The claim, when the report consumes it.
    pub(crate) guard: Option<ClaimGuard>,
    pub(crate) reported: Reported,
    pub(crate) effects: Option<Batch<Work>>,
}

/// The content of a report.
#[derive(Clone, Debug)]
pub(crate) enum Reported {
    Done,
    Reached(WorkStatus),
    Failed(String),
    Rejected(String),
}

impl WorkReport {
    fn last(guard: ClaimGuard, reported: Reported) -> Self {
        Self {
            claim: guard.claim.clone(),
            guard: Some(guard),
            reported,
            effects: None,
        }
    }

    /// Writes documents together with the report: all or nothing, and once.
    ///
    /// # Errors
    /// When there are too many for one batch, or they belong to another partition.
    pub fn with_effects<C: Extends<Work>>(
        mut self,
        effects: &Batch<C>,
    ) -> Result<Self, BatchError> {
        append_effects(&mut self.effects, effects)?;
        Ok(self)
    }
}

/// Adds documents to the effects of a report.
pub(crate) fn append_effects<C: Extends<Work>>(
    known: &mut Option<Batch<Work>>,
    effects: &Batch<C>,
) -> Result<(), BatchError> {
    let key = effects.partition_key();
    let all = known.get_or_insert_with(|| Batch::new(key.clone()));
    all.append(effects)
}

/// An entry to write.
#[derive(Debug)]
pub enum WorkEntry {
    /// A new message.
    Store(NewWork),
    /// The result of a claimed message.
    Report(WorkReport),
}

impl From<NewWork> for WorkEntry {
    fn from(new: NewWork) -> Self {
        Self::Store(new)
    }
}

impl From<WorkReport> for WorkEntry {
    fn from(report: WorkReport) -> Self {
        Self::Report(report)
    }
}
