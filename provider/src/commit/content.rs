//! What a turn leaves, in the form in which its commit takes it.
//!
//! Most turns fit into one batch as they are. When one does not, everything large moves into chunks, the history of the
//! turn becomes one document, the key-value store another one, and all that it sends travels in few intents. What is
//! left fits into a batch whatever the size of the turn.

use cdb_model::{BatchError, EncodeError};
use duroxide::EventKind;

use super::advance::ended_execution;
use super::cancelled;
use super::outgoing::{Origin, Outgoing};
use crate::admission;
use crate::custom_status;
use crate::documents::{Execution, HistorySegment, KeyValuePack, PackedKeyValues, Status, Text};
use crate::error::Result;
use crate::instances::{Turn, TurnResult};
use crate::kv::KvChanges;
use crate::spill::{ConsumedChunks, Spilling};
use crate::store::Store;

/// Most bytes of event text in one history document, so that it stays below the service's 2 MB with its escapes.
const SEGMENT_BYTES: usize = 900 * 1024;

/// Everything of a turn that can be large.
#[derive(Debug)]
pub(crate) struct Cargo {
    pub(crate) segments: Vec<HistorySegment>,
    /// Bytes of all events.
    pub(crate) history_bytes: usize,
    pub(crate) outgoing: Outgoing,
    /// What the execution ends with.
    pub(crate) output: Option<Text>,
    /// The execution that this turn replaces.
    pub(crate) ended: Option<Execution>,
    /// The key-value store, if it is or becomes one document and changes.
    pub(crate) kv: Option<(KeyValuePack, PackedKeyValues)>,
    pub(crate) spilling: Spilling,
    /// The chunks of what the turn consumes.
    pub(crate) consumed_chunks: Option<ConsumedChunks>,
}

/// Refuses what could be committed and then neither be delivered nor be stored.
fn admit(result: &TurnResult) -> Result<()> {
    let items = result.orchestrator_items.iter().chain(&result.worker_items);
    for item in items {
        admission::check_item(item)?;
    }
    match custom_status::change_in(&result.history_delta) {
        Some(Some(status)) => admission::check_custom_status(&status),
        _ => Ok(()),
    }
}

impl Cargo {
    /// What the turn leaves, as documents of the usual form.
    ///
    /// # Errors
    /// When it exceeds a limit of the provider, or cannot be written as JSON.
    pub(crate) fn load(
        store: &Store,
        turn: &Turn,
        origin: &Origin<'_>,
        result: &TurnResult,
    ) -> Result<Self> {
        admit(result)?;
        let before = &turn.instance.document;
        let (segments, history_bytes) = pack_history(store, origin.instance_id, result)?;
        let mut outgoing = Outgoing::sort(
            origin,
            &result.worker_items,
            &result.orchestrator_items,
            &result.cancelled,
        )?;
        let cancelled = cancelled::intents(turn, origin, result);
        outgoing.intents.extend(cancelled);
        let output = result.metadata.output.clone();
        let bytes = history_bytes + outgoing.bytes() + output.as_ref().map_or(0, String::len);
        let status = result.metadata.status.clone().map(Status::from);
        if status != Some(Status::Failed) {
            store.limits.check_turn(bytes)?;
        }
        if status.is_none() {
            let history = turn.history.as_ref().map_or(0, |history| history.bytes);
            store.limits.check_history(history + history_bytes)?;
        }
        let replaces = result.execution_id > before.current_execution_id;
        let mut cargo = Self {
            segments,
            history_bytes,
            outgoing,
            output: output.map(Text::Inline),
            ended: (replaces && before.started_at.is_some())
                .then(|| ended_execution(before, origin.now)),
            kv: None,
            spilling: Spilling::new(store, origin.instance_id),
            consumed_chunks: None,
        };
        if turn.kv.pack.is_some() {
            cargo.pack_kv(turn, origin, result)?;
        }
        let consumed = turn.messages.iter();
        let consumed = consumed.map(|message| &message.stored.document.work_item);
        let old_pack = cargo.kv.as_ref().and(turn.kv.pack.as_ref());
        let texts = consumed.chain(old_pack.map(|pack| &pack.value));
        cargo.consumed_chunks = ConsumedChunks::of(store, origin.instance_id, texts);
        Ok(cargo)
    }

    /// Moves out of the commit what has no room in it.
    pub(crate) fn spill(
        &mut self,
        turn: &Turn,
        origin: &Origin<'_>,
        result: &TurnResult,
    ) -> Result<(), serde_json::Error> {
        if self.kv.is_none() {
            self.pack_kv(turn, origin, result)?;
        }
        self.segments = joined(std::mem::take(&mut self.segments));
        let ended = self.ended.as_mut().and_then(|ended| ended.output.as_mut());
        let history = self.segments.iter_mut();
        let texts = history
            .map(|segment| &mut segment.event_data)
            .chain(&mut self.output)
            .chain(ended)
            .chain(self.kv.as_mut().map(|(pack, _)| &mut pack.value));
        for text in texts {
            self.spilling.relieve(text);
        }
        self.outgoing.spill(origin, &mut self.spilling)
    }

    /// The key-value store as one document, if the turn changes it.
    fn pack_kv(
        &mut self,
        turn: &Turn,
        origin: &Origin<'_>,
        result: &TurnResult,
    ) -> Result<(), serde_json::Error> {
        let changes = kv_changes(turn, origin, result);
        if !changes.is_empty() {
            self.kv = Some(changes.pack(origin.instance_id, &turn.kv)?);
        }
        Ok(())
    }
}

/// What the turn changes in the key-value store.
pub(crate) fn kv_changes(turn: &Turn, origin: &Origin<'_>, result: &TurnResult) -> KvChanges {
    let status = result.metadata.status.clone().map(Status::from);
    turn.kv.changes(
        origin.instance_id,
        result.execution_id,
        &result.history_delta,
        status.is_some_and(|status| status.is_terminal()),
        origin.now,
    )
}

/// Whether a batch has no room for an operation, so that something has to leave it.
pub(crate) fn has_no_room(error: &BatchError) -> bool {
    matches!(
        error,
        BatchError::Full
            | BatchError::TooLarge { .. }
            | BatchError::Encode(EncodeError::TooLarge { .. })
    )
}

/// Packs the new events: one document, or several when they are large. Returns their bytes beside them.
fn pack_history(
    store: &Store,
    instance_id: &str,
    result: &TurnResult,
) -> Result<(Vec<HistorySegment>, usize)> {
    let mut sizes = Vec::with_capacity(result.history_delta.len());
    for event in &result.history_delta {
        let bytes = serde_json::to_string(event)?.len();
        store.limits.check_value(what(&event.kind), bytes)?;
        sizes.push(bytes);
    }
    let mut segments = Vec::new();
    let mut begin = 0;
    while begin < sizes.len() {
        let mut end = begin;
        let mut bytes = 0;
        while end < sizes.len() && (end == begin || bytes + sizes[end] <= SEGMENT_BYTES) {
            bytes += sizes[end];
            end += 1;
        }
        let events = &result.history_delta[begin..end];
        let segment = HistorySegment::pack(instance_id, result.execution_id, events);
        segments.extend(segment?);
        begin = end;
    }
    Ok((segments, sizes.iter().sum()))
}

/// What is large in a large event.
fn what(event: &EventKind) -> &'static str {
    match event {
        EventKind::OrchestrationStarted { .. } => "the input",
        EventKind::OrchestrationCompleted { .. } => "the output",
        EventKind::OrchestrationFailed { .. } => "the error",
        EventKind::OrchestrationContinuedAsNew { .. } => "the input of the next execution",
        EventKind::ActivityScheduled { .. } => "the input of an activity",
        EventKind::ActivityCompleted { .. } => "the result of an activity",
        EventKind::ActivityFailed { .. } => "the error of an activity",
        EventKind::SubOrchestrationScheduled { .. } | EventKind::OrchestrationChained { .. } => {
            "the input of another orchestration"
        }
        EventKind::SubOrchestrationCompleted { .. } => "the result of a sub-orchestration",
        EventKind::SubOrchestrationFailed { .. } => "the error of a sub-orchestration",
        EventKind::ExternalEvent { .. } | EventKind::QueueEventDelivered { .. } => {
            "the data of an event"
        }
        _ => "an event of the history",
    }
}

/// The history of a turn as one document.
fn joined(segments: Vec<HistorySegment>) -> Vec<HistorySegment> {
    let mut segments = segments.into_iter();
    let Some(mut first) = segments.next() else {
        return Vec::new();
    };
    let mut text = first.event_data.header().to_owned();
    for later in segments {
        // Each is an array of at least one event.
        text.pop();
        text.push(',');
        text.push_str(later.event_data.header().trim_start_matches('['));
        first.event_count += later.event_count;
    }
    first.event_data = Text::Inline(text);
    vec![first]
}

#[cfg(test)]
mod tests {
    use duroxide::Event;

    use super::*;

    #[test]
    fn the_history_of_a_turn_is_the_same_in_one_document() {
        let event = |id| {
            let kind = EventKind::ExternalSubscribed {
                name: "[]".to_owned(),
            };
            Event::with_event_id(id, "i", 1, None, kind)
        };
        let events: Vec<Event> = (1..=5).map(event).collect();
        let pack = |events: &[Event]| HistorySegment::pack("i", 1, events).unwrap().unwrap();
        let apart = vec![pack(&events[..2]), pack(&events[2..3]), pack(&events[3..])];
        let joined = joined(apart);
        assert_eq!(joined.len(), 1);
        assert_eq!((joined[0].event_id, joined[0].event_count), (1, 5));
        let read = HistorySegment::unpack(joined[0].event_data.header()).unwrap();
        assert_eq!(read, events);
    }
}
