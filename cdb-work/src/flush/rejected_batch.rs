//! Handles a batch that the service rejected: reads the stored state, and completes, fails or retries
//! the entries.

use std::collections::HashSet;
use std::sync::Arc;

use cdb_client::{Error, ErrorKind};
use cdb_model::stored::Unreadable;
use cdb_model::{Query, Stored};

use super::apply::outcome;
use super::write::{Flight, take_if};
use crate::error::WorkError;
use crate::memory::inner::Inner;
use crate::memory::plan::{Heads, Origin, Plan, stream_key};
use crate::memory::queue::Pending;
use crate::memory::settlement::Settlement;
use crate::memory::unreadable::{message_of, stream_of};
use crate::streams::documents::{EventHeadKey, WorkMessage, WorkStreamKey};
use crate::streams::stream::{Progress, StreamKey};
use crate::telemetry;
use cdb_coordination::lease::is_lost_race;

impl Inner {
    /// Handles a rejected batch. Returns how many entries the next batch may have; `None` if the
    /// caller retries with the remaining entries.
    pub(crate) async fn handle_rejection(
        &self,
        flight: &mut Flight<'_>,
        plan: &Plan,
        heads: &mut Heads,
        error: Error,
    ) -> Result<Option<usize>, WorkError> {
        let rejected = error.operation_index().and_then(|index| plan.origin(index));
        match rejected {
            Some(Origin::Fence) if is_lost_race(&error) => {
                // The lease was taken over, or an earlier batch was applied late. In both cases give
                // up the partition: its next owner reads the stored state.
                if let Some((fence, _)) = plan.lease {
                    self.lose(flight.partition, fence);
                }
                Self::fail_foreign(flight, self.state().fence_of(flight.partition));
            }
            Some(Origin::Next(_)) if is_lost_race(&error) => {
                self.reload_heads(flight, plan, heads).await?;
            }
            Some(Origin::EventHead(_)) if is_lost_race(&error) => {
                self.reload_versions(flight.partition, plan, heads).await?;
            }
            Some(Origin::Done(key)) if is_lost_race(&error) => {
                let key = key.clone();
                self.resolve_completion_conflict(flight, &key).await?;
            }
            Some(&Origin::Message(number)) if is_lost_race(&error) => {
                self.resolve_message_conflict(flight, number).await?;
            }
            Some(&Origin::Effect(number)) if is_final(&error) => {
                let message_id = flight.entries[number].message_id().to_owned();
                let source = Arc::new(error);
                let reason = WorkError::EffectRefused { message_id, source };
                self.fail(flight, number, reason);
            }
            Some(&(Origin::Message(number) | Origin::Event(number))) if is_final(&error) => {
                self.fail(flight, number, error.into());
            }
            _ if !is_final(&error) => return Err(error.into()),
            // Halve the batch until the rejected entry is alone.
            _ if flight.entries.len() > 1 => return Ok(Some(flight.entries.len() / 2)),
            _ => self.fail(flight, 0, error.into()),
        }
        Ok(None)
    }

    /// Reads the progress of the streams of a plan.
    async fn reload_heads(
        &self,
        flight: &mut Flight<'_>,
        plan: &Plan,
        heads: &mut Heads,
    ) -> Result<(), WorkError> {
        let partition = self.config.partitions.name(flight.partition);
        let keys: Vec<StreamKey> = plan.heads.keys().cloned().collect();
        // A stream that is not found is new, or was forgotten.
        heads.streams.retain(|key, _| !plan.heads.contains_key(key));
        // A stream that an incomplete read omits counts as new. If it exists, the service rejects the
        // next batch too, and the stream is read again.
        let (streams, _is_complete) = self.read_streams(&[partition], &keys).await?;
        for stored in streams.rows {
            let stream = stored.document;
            let key = StreamKey::new(stream.lane, &stream.stream);
            heads.streams.insert(key, stream.next);
        }
        for key in streams.unreadable.iter().filter_map(stream_of) {
            self.fail_stream(flight, &key);
        }
        Ok(())
    }

    /// Reads the versions of the event streams of a plan.
    async fn reload_versions(
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

    /// Fails all entries of a stream whose document cannot be read.
    fn fail_stream(&self, flight: &mut Flight<'_>, key: &StreamKey) {
        let of_stream = |pending: &Pending| pending.key() == *key;
        while let Some(number) = flight.entries.iter().position(of_stream) {
            let stream = key.stream().to_owned();
            self.fail(flight, number, WorkError::Unreadable { stream });
        }
    }

    /// Handles a rejected completion under a valid fence: an earlier batch or an operator has completed
    /// the messages, or the report was out of order.
    async fn resolve_completion_conflict(
        &self,
        flight: &mut Flight<'_>,
        key: &StreamKey,
    ) -> Result<(), WorkError> {
        let partition = self.config.partitions.name(flight.partition);
        let id: WorkStreamKey = stream_key(key, &partition);
        let read = match self.container.latest_committed().read(&id).await {
            Err(error) if error.kind() == ErrorKind::Decode => {
                tracing::error!(stream = key.stream(), %error, "the document of a stream cannot be read");
                telemetry::unreadable();
                self.fail_stream(flight, key);
                return Ok(());
            }
            read => read?,
        };
        let done = read.map_or(0, |stored| stored.document.done);
        let is_completed = |pending: &Pending| {
            pending
                .report()
                .is_some_and(|report| report.claim.key == *key && report.claim.sequence <= done)
        };
        let completed = take_if(&mut flight.entries, is_completed);
        if completed.is_empty() {
            telemetry::order_violation();
            tracing::error!(
                stream = key.stream(),
                done,
                "the service has rejected the completion of a message out of order"
            );
            let mut entries = flight.entries.iter();
            if let Some(number) = entries.position(|pending| pending.is_report_of(key)) {
                let reason = WorkError::OutOfOrder {
                    stream: key.stream().to_owned(),
                    message_id: flight.entries[number].message_id().to_owned(),
                };
                self.fail(flight, number, reason);
            }
        }
        if let Some(owned) = &mut self.state().partition(flight.partition).owned
            && owned.streams.learn_done(key, done) == Progress::News
        {
            self.news.notify_waiters();
        }
        for pending in completed {
            let outcome = outcome(&pending, 0);
            pending.settle(Ok(outcome));
        }
        Ok(())
    }

    /// Handles a conflict on a message: a new message that exists is a duplicate; a claimed message
    /// that does not exist was deleted.
    async fn resolve_message_conflict(
        &self,
        flight: &mut Flight<'_>,
        number: usize,
    ) -> Result<(), WorkError> {
        if let Some(report) = flight.entries[number].report() {
            let reason = report.claim.not_owner();
            self.fail(flight, number, reason);
            return Ok(());
        }
        let duplicate = flight.entries.remove(number);
        telemetry::duplicate();
        duplicate.settle(Ok(Settlement::Duplicate));
        self.drop_duplicates(flight).await
    }

    /// Finds further duplicates with one query: a sender that starts over sends many of them, and
    /// the batch reports one per request.
    async fn drop_duplicates(&self, flight: &mut Flight<'_>) -> Result<(), WorkError> {
        let new = flight
            .entries
            .iter()
            .filter(|pending| pending.report().is_none());
        let ids: Vec<&str> = new.map(Pending::message_id).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let partition = self.config.partitions.name(flight.partition);
        let query = Query::<WorkMessage>::in_partition(partition)
            .filter(WorkMessage::MESSAGE_ID.is_in(ids));
        let rows = self.container.query(query).row_by_row().all().await?;
        // An unreadable message exists too.
        let key_of = |row: Result<Stored<WorkMessage>, Unreadable>| match row {
            Ok(Stored { document, .. }) => {
                let key = StreamKey::new(document.lane, &document.stream);
                Some((key, document.message_id))
            }
            Err(unreadable) => message_of(&unreadable),
        };
        let existing: HashSet<(StreamKey, String)> = rows.into_iter().filter_map(key_of).collect();
        let exists = |pending: &Pending| {
            pending.report().is_none()
                && existing.contains(&(pending.key(), pending.message_id().to_owned()))
        };
        for duplicate in take_if(&mut flight.entries, exists) {
            telemetry::duplicate();
            duplicate.settle(Ok(Settlement::Duplicate));
        }
        Ok(())
    }

    /// Fails an entry. A failed report also fails the later ones of its stream.
    pub(crate) fn fail(&self, flight: &mut Flight<'_>, number: usize, reason: WorkError) {
        let failed = flight.entries.remove(number);
        let claim = failed.report().map(|report| report.claim.clone());
        let failure = failure_of(&reason);
        failed.settle(Err(reason));
        match (claim, failure) {
            (Some(claim), Some(failure)) => {
                self.fail_rejected(&claim, failure, &mut flight.entries);
            }
            (Some(claim), None) => {
                self.roll_back(flight.partition, &claim.key, &mut flight.entries);
            }
            (None, _) => {}
        }
    }
}

/// Returns the failure of an attempt whose report was rejected for good; `None` if the attempt is not
/// at fault.
fn failure_of(reason: &WorkError) -> Option<String> {
    match reason {
        WorkError::EffectRefused { source, .. } => Some(format!("{reason}: {source}")),
        WorkError::Unfit(_) | WorkError::Service(_) => Some(reason.to_string()),
        _ => None,
    }
}

/// Returns `true` if the service would reject the operation again. Other errors are temporary: the
/// service, the container or the permission is missing.
fn is_final(error: &Error) -> bool {
    let of_one = error.operation_index().is_some() && is_lost_race(error);
    of_one || matches!(error.kind(), ErrorKind::BadRequest | ErrorKind::TooLarge)
}
