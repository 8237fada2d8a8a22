//! Writes the queued entries of a virtual partition: plans a batch, sends it (`send.rs`), takes over
//! its results (`apply.rs`) or handles its rejection (`rejected_batch.rs`).
//!
//! One flush per partition runs at a time. A batch whose outcome is unknown, perhaps because its flush
//! was cancelled, is sent again as it is before another one is planned. So nothing is written twice
//! or reported as lost by mistake.

use std::time::Duration;

use cdb_client::retry::{time_left, with_own_deadline};
use cdb_model::operation::BatchError;
use tokio::time::Instant;

use super::send::Sent;
use crate::error::WorkError;
use crate::memory::inner::Inner;
use crate::memory::plan::{Fence, Heads, Misfit, Plan, PlanContext};
use crate::memory::queue::{Pending, extract, put_back, take_batch};
use crate::telemetry;
use crate::timing::LOST_RACES_PAUSE;

/// How often a flush plans its batch. Every rejection settles an entry or updates the known streams,
/// so the limit only ends a race that other writers always win.
const PLANS: u32 = 200;

/// How many streams are known per partition and process, to store messages without a read.
const KNOWN_HEADS: usize = 8192;

/// Entries taken from the queue. Unsettled entries return to the queue, even when the flush is
/// cancelled.
pub(crate) struct Flight<'a> {
    inner: &'a Inner,
    pub(crate) partition: u16,
    pub(crate) entries: Vec<Pending>,
    /// Whether their batch was sent and its outcome is unknown.
    is_sent: bool,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        for pending in &mut entries {
            pending.is_sent = self.is_sent;
        }
        let mut state = self.inner.state();
        put_back(&mut state.partition(self.partition).queue, entries);
    }
}

impl Inner {
    /// Writes all queued entries of a partition. Entries that fail for good are settled with the
    /// error.
    ///
    /// # Errors
    /// When the service cannot be reached, or could not by a flush that this one has waited for.
    /// Unwritten entries stay queued.
    pub(crate) async fn flush_partition(&self, partition: u16) -> Result<(), WorkError> {
        let gate = self.gates.get(usize::from(partition));
        let Some(gate) = gate else { return Ok(()) };
        let began = Instant::now();
        let mut heads = gate.lock().await;
        heads.check_since(began)?;
        let flush = Box::pin(self.flush_all(partition, &mut heads));
        let flushed = match time_left() {
            Duration::ZERO => flush.await,
            // Other callers wait for it.
            _ => with_own_deadline(flush).await,
        };
        heads.note_end(&flushed);
        flushed
    }

    async fn flush_all(&self, partition: u16, heads: &mut Heads) -> Result<(), WorkError> {
        let newest = self.state().newest_entry();
        let mut most = usize::MAX;
        loop {
            let mut flight = self.take_flight(partition, heads, newest, most);
            if flight.entries.is_empty() {
                return Ok(());
            }
            most = self.write(&mut flight, heads).await?;
            heads.limit(KNOWN_HEADS);
        }
    }

    /// Takes the entries of the unproven batch, or else the next ones, up to the entry `newest`.
    fn take_flight(
        &self,
        partition: u16,
        heads: &mut Heads,
        newest: u64,
        most: usize,
    ) -> Flight<'_> {
        let mut state = self.state();
        let queue = &mut state.partition(partition).queue;
        let mut entries = extract(queue, |pending| pending.is_sent);
        let numbers = entries.iter().map(|pending| pending.number);
        let is_whole = |plan: &Plan| plan.entries.iter().copied().eq(numbers);
        // After the loss of the partition its reports fail, and the fence rejects the batch.
        heads.unproven = heads.unproven.take().filter(is_whole);
        if entries.is_empty() {
            entries = take_batch(queue, newest, most);
        }
        Flight {
            inner: self,
            partition,
            entries,
            is_sent: heads.unproven.is_some(),
        }
    }

    /// Writes the entries of a flight. Returns how many entries to take next time.
    async fn write(&self, flight: &mut Flight<'_>, heads: &mut Heads) -> Result<usize, WorkError> {
        for _ in 0..PLANS {
            if flight.entries.is_empty() {
                return Ok(usize::MAX);
            }
            let plan = match heads.unproven.take() {
                Some(plan) => plan,
                None => match self.plan(flight, heads) {
                    Ok(plan) => plan,
                    Err(misfit) => {
                        if let Some(fewer) = self.split_or_fail(flight, misfit) {
                            return Ok(fewer);
                        }
                        continue;
                    }
                },
            };
            let started = Instant::now();
            let was_sent = std::mem::replace(&mut flight.is_sent, true);
            // The plan outlives a cancelled flush.
            let plan = heads.unproven.insert(plan);
            let rejection = match self.send(plan, was_sent).await {
                Sent::Written => None,
                Sent::Refused(error) => Some(error),
                Sent::Unknown(error) => return Err(error.into()),
            };
            flight.is_sent = false;
            let Some(plan) = heads.unproven.take() else {
                return Ok(usize::MAX);
            };
            let Some(error) = rejection else {
                telemetry::flushed(flight.entries.len(), started.elapsed());
                self.apply(flight, plan, heads);
                return Ok(usize::MAX);
            };
            if let Some(fewer) = self.handle_rejection(flight, &plan, heads, error).await? {
                return Ok(fewer);
            }
        }
        tracing::warn!(
            flight.partition,
            "other writers were faster at every attempt; the flush continues later"
        );
        tokio::time::sleep(LOST_RACES_PAUSE).await;
        Ok(usize::MAX)
    }

    fn plan(&self, flight: &mut Flight<'_>, heads: &Heads) -> Result<Plan, Misfit> {
        let now = self.container.now();
        let held = self.state().fence_and_token(flight.partition);
        Self::fail_foreign(flight, held.as_ref().map(|(fence, _)| *fence));
        let context = PlanContext {
            partition: &self.config.partitions.name(flight.partition),
            now,
            token: uuid::Uuid::new_v4().to_string(),
            lease: held.as_ref().map(|(fence, last_token)| Fence {
                number: *fence,
                last_token,
                until: now + self.config.lease,
            }),
            remember: self.config.remember_seconds(),
        };
        Plan::new(&flight.entries, heads, &context)
    }

    /// Fails reports under another fence than the held one.
    pub(crate) fn fail_foreign(flight: &mut Flight<'_>, held: Option<u64>) {
        let is_void = |pending: &Pending| {
            pending
                .report()
                .is_some_and(|report| Some(report.claim.fence) != held)
        };
        for pending in take_if(&mut flight.entries, is_void) {
            pending.settle_void();
        }
    }

    /// Splits entries that exceed one batch. Fails an entry that fits into no batch.
    fn split_or_fail(&self, flight: &mut Flight<'_>, misfit: Misfit) -> Option<usize> {
        let full = matches!(misfit.error, BatchError::Full | BatchError::TooLarge { .. });
        if full && flight.entries.len() > 1 {
            return Some(flight.entries.len() / 2);
        }
        self.fail(
            flight,
            misfit.entry.unwrap_or_default(),
            misfit.error.into(),
        );
        None
    }
}

/// Takes the entries that meet a condition.
pub(crate) fn take_if(
    entries: &mut Vec<Pending>,
    wanted: impl Fn(&Pending) -> bool,
) -> Vec<Pending> {
    entries.extract_if(.., |pending| wanted(pending)).collect()
}
