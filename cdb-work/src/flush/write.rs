//! Writes the queued entries of a virtual partition: plans a batch, sends it (`send.rs`), handles
//! refusals, settles receipts.
//!
//! One flush per partition runs at a time. A batch whose outcome is unknown, also because its flush
//! was cancelled, is sent again as it is before another one is planned. So nothing is written twice
//! or reported as lost by mistake.

use std::collections::HashSet;
use std::sync::Arc;

use cdb_client::{Error, ErrorKind};
use cdb_model::{BatchError, Query, Stored, Unreadable};
use tokio::time::Instant;

use super::send::Sent;
use crate::error::WorkError;
use crate::memory::inner::Inner;
use crate::memory::plan::{Fence, Heads, Misfit, Origin, Plan, PlanContext, stream_key};
use crate::memory::queue::{Pending, extract, put_back, take_batch};
use crate::memory::settlement::Settlement;
use crate::memory::unreadable::{message_of, stream_of};
use crate::streams::documents::{EventHeadKey, Lane, WorkMessage, WorkStreamKey};
use crate::streams::stream::{Change, Progress, StreamKey};
use crate::telemetry;
use crate::timing::LOST_RACES_PAUSE;
use cdb_coordination::is_lost_race;

/// How often a flush plans its batch. Every refusal settles an entry or updates the known streams,
/// so the limit only ends a race that other writers always win.
const PLANS: u32 = 200;

/// How many streams are known per partition and process, to store messages without a read.
const KNOWN_HEADS: usize = 8192;

/// Entries taken from the queue. Unsettled entries return to the queue, also when the flush is
/// cancelled.
struct Flight<'a> {
    inner: &'a Inner,
    partition: u16,
    entries: Vec<Pending>,
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
    /// When the service cannot be reached. Unwritten entries stay queued.
    pub(crate) async fn flush_partition(&self, partition: u16) -> Result<(), WorkError> {
        let gate = self.gates.get(usize::from(partition));
        let Some(gate) = gate else { return Ok(()) };
        let mut heads = gate.lock().await;
        let newest = self.state().newest_entry();
        let mut most = usize::MAX;
        loop {
            let mut flight = self.take_flight(partition, &mut heads, newest, most);
            if flight.entries.is_empty() {
                return Ok(());
            }
            most = self.write(&mut flight, &mut heads).await?;
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
        // After the loss of the partition its reports are refused, and the fence refuses the batch.
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
                        if let Some(fewer) = self.split_or_refuse(flight, misfit) {
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
            let refusal = match self.send(plan, was_sent).await {
                Sent::Written => None,
                Sent::Refused(error) => Some(error),
                Sent::Unknown(error) => return Err(error.into()),
            };
            flight.is_sent = false;
            let Some(plan) = heads.unproven.take() else {
                return Ok(usize::MAX);
            };
            let Some(error) = refusal else {
                telemetry::flushed(flight.entries.len(), started.elapsed());
                self.apply(flight, plan, heads);
                return Ok(usize::MAX);
            };
            if let Some(fewer) = self.handle_refusal(flight, &plan, heads, error).await? {
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
        Self::refuse_foreign(flight, held.as_ref().map(|(fence, _)| *fence));
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

    /// Refuses reports under another fence than the held one.
    fn refuse_foreign(flight: &mut Flight<'_>, held: Option<u64>) {
        let is_void = |pending: &Pending| {
            pending
                .report()
                .is_some_and(|report| Some(report.claim.fence) != held)
        };
        for pending in take_if(&mut flight.entries, is_void) {
            pending.settle_void();
        }
    }

    /// Splits entries that exceed one batch. Refuses an entry that fits into no batch.
    fn split_or_refuse(&self, flight: &mut Flight<'_>, misfit: Misfit) -> Option<usize> {
        let full = matches!(misfit.error, BatchError::Full | BatchError::TooLarge { .. });
        if full && flight.entries.len() > 1 {
            return Some(flight.entries.len() / 2);
        }
        self.refuse(
            flight,
            misfit.entry.unwrap_or_default(),
            misfit.error.into(),
        );
        None
    }

    /// Takes over the results of a plan that was written.
    fn apply(&self, flight: &mut Flight<'_>, plan: Plan, heads: &mut Heads) {
        heads.apply(&plan);
        telemetry::stored(plan.stored.len());
        let mut state = self.state();
        let mut progress = Progress::Known;
        let most = self.config.most_held;
        let full: Vec<Lane> = Lane::BOTH
            .into_iter()
            .filter(|lane| state.held(*lane) >= most)
            .collect();
        let held = state.partition(flight.partition);
        if let Some(owned) = &mut held.owned {
            if let Some((fence, until)) = plan.lease
                && owned.fence == fence
            {
                owned.until = until;
                owned.token.clone_from(&plan.token);
            }
            for report in flight.entries.iter().filter_map(Pending::report) {
                owned.streams.stored(&report.claim.key, &report.message);
            }
            for (key, done) in &plan.done {
                progress = progress.max(owned.streams.learn_done(key, *done));
            }
        }
        let has_news = progress == Progress::News || !plan.stored.is_empty();
        let mut sequences = vec![0; flight.entries.len()];
        for (number, message) in plan.stored {
            sequences[number] = message.sequence;
            if let Some(owned) = &mut held.owned
                && !full.contains(&message.lane)
            {
                // Message 1 was stored together with its stream, so no message is completed before
                // it.
                let starts_here = message.sequence == 1;
                owned.streams.learn(message, starts_here);
            }
        }
        drop(state);
        for (pending, sequence) in std::mem::take(&mut flight.entries)
            .into_iter()
            .zip(sequences)
        {
            let outcome = outcome(&pending, sequence);
            pending.settle(Ok(outcome));
        }
        if has_news {
            self.news.notify_waiters();
        }
    }

    /// Handles a refused batch. Returns a smaller number of entries to continue with, if needed.
    async fn handle_refusal(
        &self,
        flight: &mut Flight<'_>,
        plan: &Plan,
        heads: &mut Heads,
        error: Error,
    ) -> Result<Option<usize>, WorkError> {
        let refused = error.operation_index().and_then(|index| plan.origin(index));
        match refused {
            Some(Origin::Fence) if is_lost_race(&error) => {
                // Also when an earlier batch arrived late: the next owner reads what is stored.
                let fence = plan.lease.map(|(fence, _)| fence);
                self.lose(flight.partition, fence.unwrap_or_default());
                Self::refuse_foreign(flight, self.state().fence_of(flight.partition));
            }
            Some(Origin::Next(_)) if is_lost_race(&error) => {
                self.learn_heads(flight, plan, heads).await?;
            }
            Some(Origin::EventHead(_)) if is_lost_race(&error) => {
                self.learn_versions(flight.partition, plan, heads).await?;
            }
            Some(Origin::Done(key)) if is_lost_race(&error) => {
                let key = key.clone();
                self.check_done(flight, &key).await?;
            }
            Some(&Origin::Message(number)) if is_lost_race(&error) => {
                self.refused_message(flight, number).await?;
            }
            Some(&Origin::Effect(number)) if is_final(&error) => {
                let message_id = flight.entries[number].message_id().to_owned();
                let source = Arc::new(error);
                let reason = WorkError::EffectRefused { message_id, source };
                self.refuse(flight, number, reason);
            }
            Some(&(Origin::Message(number) | Origin::Event(number))) if is_final(&error) => {
                self.refuse(flight, number, error.into());
            }
            _ if !is_final(&error) => return Err(error.into()),
            _ if flight.entries.len() > 1 => return Ok(Some(flight.entries.len() / 2)),
            _ => self.refuse(flight, 0, error.into()),
        }
        Ok(None)
    }

    /// Reads the progress of the streams of a plan.
    async fn learn_heads(
        &self,
        flight: &mut Flight<'_>,
        plan: &Plan,
        heads: &mut Heads,
    ) -> Result<(), WorkError> {
        let partition = self.config.partitions.name(flight.partition);
        let keys: Vec<StreamKey> = plan.heads.keys().cloned().collect();
        // A stream that is not found is new, or was forgotten.
        heads.streams.retain(|key, _| !plan.heads.contains_key(key));
        let (streams, _) = self.read_streams(&[partition], &keys).await?;
        for stored in streams.rows {
            let stream = stored.document;
            let key = StreamKey::new(stream.lane, &stream.stream);
            heads.streams.insert(key, stream.next);
        }
        for key in streams.unreadable.iter().filter_map(stream_of) {
            self.refuse_stream(flight, &key);
        }
        Ok(())
    }

    /// Reads the versions of the event streams of a plan.
    async fn learn_versions(
        &self,
        partition: u16,
        plan: &Plan,
        heads: &mut Heads,
    ) -> Result<(), WorkError> {
        let partition = self.config.partitions.name(partition);
        let latest = &self.container.latest_committed();
        for stream in plan.events.keys() {
            let read = latest.read(&EventHeadKey::new(&*partition, stream)).await?;
            let version = read.map_or(0, |stored| stored.document.version);
            heads.events.insert(stream.clone(), version);
        }
        Ok(())
    }

    /// Refuses all entries of a stream whose document cannot be read.
    fn refuse_stream(&self, flight: &mut Flight<'_>, key: &StreamKey) {
        let of_stream = |pending: &Pending| pending.key() == *key;
        while let Some(number) = flight.entries.iter().position(of_stream) {
            let stream = key.stream().to_owned();
            self.refuse(flight, number, WorkError::Unreadable { stream });
        }
    }

    /// The store refused to complete messages under a valid fence. They were completed by an
    /// earlier batch or by an operator, or the report was out of order.
    async fn check_done(&self, flight: &mut Flight<'_>, key: &StreamKey) -> Result<(), WorkError> {
        let partition = self.config.partitions.name(flight.partition);
        let id: WorkStreamKey = stream_key(key, &partition);
        let read = match self.container.latest_committed().read(&id).await {
            Err(error) if error.kind() == ErrorKind::Decode => {
                tracing::error!(%error, "the document of a stream cannot be read");
                telemetry::unreadable();
                self.refuse_stream(flight, key);
                return Ok(());
            }
            read => read?,
        };
        let done = read.map_or(0, |stored| stored.document.done);
        let is_over = |pending: &Pending| {
            pending
                .report()
                .is_some_and(|report| report.claim.key == *key && report.claim.sequence <= done)
        };
        let over = take_if(&mut flight.entries, is_over);
        if over.is_empty() {
            telemetry::order_violation();
            tracing::error!(
                stream = key.stream(),
                done,
                "the store has refused to complete a message out of order"
            );
            let mut entries = flight.entries.iter();
            if let Some(number) = entries.position(|pending| pending.is_report_of(key)) {
                let reason = WorkError::OutOfOrder {
                    stream: key.stream().to_owned(),
                    message_id: flight.entries[number].message_id().to_owned(),
                };
                self.refuse(flight, number, reason);
            }
        }
        if let Some(owned) = &mut self.state().partition(flight.partition).owned
            && owned.streams.learn_done(key, done) == Progress::News
        {
            self.news.notify_waiters();
        }
        for pending in over {
            let outcome = outcome(&pending, 0);
            pending.settle(Ok(outcome));
        }
        Ok(())
    }

    /// A new message that exists is a duplicate. A claimed message that does not exist was deleted.
    async fn refused_message(
        &self,
        flight: &mut Flight<'_>,
        number: usize,
    ) -> Result<(), WorkError> {
        if let Some(report) = flight.entries[number].report() {
            let reason = report.claim.not_owner();
            self.refuse(flight, number, reason);
            return Ok(());
        }
        let refused = flight.entries.remove(number);
        telemetry::duplicate();
        refused.settle(Ok(Settlement::Duplicate));
        self.drop_duplicates(flight).await
    }

    /// Finds further duplicates with one query: a sender that starts over sends many of them, and
    /// the batch reports one per request.
    async fn drop_duplicates(&self, flight: &mut Flight<'_>) -> Result<(), WorkError> {
        let new = flight.entries.iter().filter(|one| one.report().is_none());
        let ids: Vec<&str> = new.map(Pending::message_id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let partition = self.config.partitions.name(flight.partition);
        let query = Query::<WorkMessage>::in_partition(partition)
            .filter(WorkMessage::MESSAGE_ID.is_in(ids));
        let rows = self.container.query(query).row_by_row().all().await?;
        // An unreadable message exists too.
        let name = |row: Result<Stored<WorkMessage>, Unreadable>| match row {
            Ok(Stored { document, .. }) => {
                let key = StreamKey::new(document.lane, &document.stream);
                Some((key, document.message_id))
            }
            Err(unreadable) => message_of(&unreadable),
        };
        let there: HashSet<(StreamKey, String)> = rows.into_iter().filter_map(name).collect();
        let is_there = |pending: &Pending| {
            pending.report().is_none()
                && there.contains(&(pending.key(), pending.message_id().to_owned()))
        };
        for duplicate in take_if(&mut flight.entries, is_there) {
            telemetry::duplicate();
            duplicate.settle(Ok(Settlement::Duplicate));
        }
        Ok(())
    }

    /// Refuses an entry. A refused report also refuses the later ones of its stream.
    fn refuse(&self, flight: &mut Flight<'_>, number: usize, reason: WorkError) {
        let refused = flight.entries.remove(number);
        let claim = refused.report().map(|report| report.claim.clone());
        let failure = failure_of(&reason);
        refused.settle(Err(reason));
        match (claim, failure) {
            (Some(claim), Some(failure)) => {
                self.fail_refused(&claim, failure, &mut flight.entries);
            }
            (Some(claim), None) => {
                self.roll_back(flight.partition, &claim.key, &mut flight.entries);
            }
            (None, _) => {}
        }
    }
}

/// The failure of an attempt whose report was refused for good; `None` if the attempt is not at
/// fault.
fn failure_of(reason: &WorkError) -> Option<String> {
    match reason {
        WorkError::EffectRefused { source, .. } => Some(format!("{reason}: {source}")),
        WorkError::Unfit(_) | WorkError::Service(_) => Some(reason.to_string()),
        _ => None,
    }
}

/// Returns `true` if the operation would be refused again. Other errors are temporary: the service,
/// the container or the permission is missing.
fn is_final(error: &Error) -> bool {
    let of_one = error.operation_index().is_some() && is_lost_race(error);
    of_one || matches!(error.kind(), ErrorKind::BadRequest | ErrorKind::TooLarge)
}

fn take_if(entries: &mut Vec<Pending>, wanted: impl Fn(&Pending) -> bool) -> Vec<Pending> {
    entries.extract_if(.., |pending| wanted(pending)).collect()
}

fn outcome(pending: &Pending, sequence: u64) -> Settlement {
    let Some(report) = pending.report() else {
        return Settlement::Stored { sequence };
    };
    let (outcome, named) = match report.change {
        Change::End => (Settlement::Done, Some("done")),
        Change::Start | Change::Progress => (Settlement::Progressed, None),
        Change::Retry => {
            let due_at = report.message.due_at;
            (Settlement::Retrying { due_at }, Some("failed"))
        }
        Change::SetAside => (Settlement::SetAside, Some("set_aside")),
    };
    if let Some(named) = named {
        telemetry::ended(named);
    }
    outcome
}
