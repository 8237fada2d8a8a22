//! The entries to write, per virtual partition, in order of arrival.
//!
//! All strategies share one queue, and a flush takes the entries of all of them. So the reports of
//! a stream are written in order. An entry leaves the queue only when its receipt is settled.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use cdb_model::Batch;
use cdb_model::limits::MAX_BATCH_OPERATIONS;
use tokio::sync::oneshot;

use super::settlement::Settlement;
use crate::error::WorkError;
use crate::streams::claim::Claim;
use crate::streams::documents::{Work, WorkMessage};
use crate::streams::new_work::NewWork;
use crate::streams::stream::{Change, StreamKey};

/// The most bytes of bodies in one batch. Well below the service's 2 MB, because escaping enlarges
/// text.
const MOST_BYTES: usize = 1024 * 1024;

/// A queued entry.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Grows in order of arrival.
    pub(crate) number: u64,
    pub(crate) kind: PendingKind,
    /// Whether it is part of a batch whose outcome is unknown.
    pub(crate) is_sent: bool,
    /// `None` after the answer.
    reply: Option<oneshot::Sender<Result<Settlement, WorkError>>>,
}

#[derive(Debug)]
pub(crate) enum PendingKind {
    Store(NewWork),
    Report(Box<NotedReport>),
}

/// A report with a valid claim.
#[derive(Debug)]
pub(crate) struct NotedReport {
    pub(crate) claim: Claim,
    pub(crate) change: Change,
    /// The message as the report changes it.
    pub(crate) message: Arc<WorkMessage>,
    pub(crate) effects: Option<Batch<Work>>,
}

impl Pending {
    pub(crate) fn new(
        number: u64,
        kind: PendingKind,
        reply: oneshot::Sender<Result<Settlement, WorkError>>,
    ) -> Self {
        Self {
            number,
            kind,
            is_sent: false,
            reply: Some(reply),
        }
    }

    pub(crate) fn settle(mut self, outcome: Result<Settlement, WorkError>) {
        self.answer(outcome);
    }

    /// Tells the holder of the receipt the outcome as far as it is known. The first answer counts.
    pub(crate) fn answer(&mut self, outcome: Result<Settlement, WorkError>) {
        if let Some(reply) = self.reply.take() {
            // The holder may have dropped the receipt.
            let _unheard = reply.send(outcome);
        }
    }

    pub(crate) fn report(&self) -> Option<&NotedReport> {
        match &self.kind {
            PendingKind::Report(report) => Some(report),
            PendingKind::Store(_) => None,
        }
    }

    pub(crate) fn is_report_of(&self, key: &StreamKey) -> bool {
        self.report().is_some_and(|report| report.claim.key == *key)
    }

    /// Fails a report whose claim is void.
    pub(crate) fn settle_void(self) {
        let reason = self.report().map(|report| report.claim.not_owner());
        self.settle(Err(reason.unwrap_or(WorkError::Unflushed)));
    }

    pub(crate) fn key(&self) -> StreamKey {
        match &self.kind {
            PendingKind::Store(new) => new.key(),
            PendingKind::Report(report) => report.claim.key.clone(),
        }
    }

    pub(crate) fn message_id(&self) -> &str {
        match &self.kind {
            PendingKind::Store(new) => &new.message_id,
            PendingKind::Report(report) => &report.claim.message_id,
        }
    }

    fn bytes(&self) -> usize {
        match &self.kind {
            PendingKind::Store(new) => {
                let once = new.body.len() + new.stream.len() + new.context.size_bytes() + 500;
                once * (1 + usize::from(new.is_event))
            }
            PendingKind::Report(report) => {
                500 + report.effects.as_ref().map_or(0, Batch::size_bytes)
            }
        }
    }

    fn operations(&self) -> usize {
        match &self.kind {
            // The event and, at most, the version of its stream.
            PendingKind::Store(new) => 1 + 2 * usize::from(new.is_event),
            PendingKind::Report(report) => 1 + report.effects.as_ref().map_or(0, Batch::len),
        }
    }
}

/// Takes as many entries from the front as fit into one batch, up to the entry `last`; at least
/// one.
pub(crate) fn take_batch(
    queue: &mut VecDeque<Pending>,
    last: u64,
    most_entries: usize,
) -> Vec<Pending> {
    // One operation checks the fence.
    let (mut operations, mut bytes) = (1, 0);
    let mut streams = HashSet::new();
    let mut count = 0;
    for pending in queue.iter().take(most_entries) {
        let is_report = pending.report().is_some();
        let newcomer = streams.insert((is_report, pending.key()));
        operations += pending.operations() + usize::from(newcomer);
        bytes += pending.bytes();
        let fits = operations <= MAX_BATCH_OPERATIONS && bytes <= MOST_BYTES;
        if pending.number > last || (count > 0 && !fits) {
            break;
        }
        count += 1;
    }
    queue.drain(..count).collect()
}

/// Puts entries back to the front.
pub(crate) fn put_back(queue: &mut VecDeque<Pending>, entries: Vec<Pending>) {
    for pending in entries.into_iter().rev() {
        queue.push_front(pending);
    }
}

/// Removes the entries that meet a condition.
pub(crate) fn extract(
    queue: &mut VecDeque<Pending>,
    mut wanted: impl FnMut(&Pending) -> bool,
) -> Vec<Pending> {
    let (taken, kept) = std::mem::take(queue)
        .into_iter()
        .partition::<Vec<_>, _>(|pending| wanted(pending));
    queue.extend(kept);
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(streams: &[&str]) -> VecDeque<Pending> {
        let entry = |(number, stream): (usize, &&str)| {
            let new = NewWork::inbox(*stream, number.to_string());
            let (reply, _) = oneshot::channel();
            Pending::new(number as u64, PendingKind::Store(new), reply)
        };
        streams.iter().enumerate().map(entry).collect()
    }

    #[test]
    fn a_batch_counts_a_stream_once_and_its_messages_each() {
        let mut of_one = queue(&["s"; 150]);
        assert_eq!(take_batch(&mut of_one, u64::MAX, 1000).len(), 98);
        assert_eq!(of_one.front().map(|pending| pending.number), Some(98));
        let names: Vec<String> = (0..150).map(|n| n.to_string()).collect();
        let mut of_many = queue(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(take_batch(&mut of_many, u64::MAX, 1000).len(), 49);
    }

    #[test]
    fn an_entry_that_arrives_during_a_flush_waits_for_the_next_one() {
        let mut entries = queue(&["s"; 5]);
        assert_eq!(take_batch(&mut entries, 2, 1000).len(), 3);
        assert_eq!(take_batch(&mut entries, 2, 1000).len(), 0);
    }

    #[test]
    fn one_entry_of_any_size_is_taken() {
        let mut entries = queue(&["s"; 2]);
        if let Some(PendingKind::Store(new)) = entries.front_mut().map(|pending| &mut pending.kind)
        {
            new.body = "x".repeat(MOST_BYTES);
        }
        assert_eq!(take_batch(&mut entries, u64::MAX, 1000).len(), 1);
    }

    #[test]
    fn entries_that_are_put_back_keep_their_order() {
        let mut entries = queue(&["a", "b", "a"]);
        let taken = take_batch(&mut entries, 1, 1000);
        put_back(&mut entries, taken);
        let of_a = extract(&mut entries, |pending| pending.key().stream() == "a");
        let numbers = |entries: &mut dyn Iterator<Item = &Pending>| {
            entries.map(|pending| pending.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&mut of_a.iter()), [0, 2]);
        assert_eq!(numbers(&mut entries.iter()), [1]);
    }
}
