//! The new events of a turn as history documents.

use duroxide::{Event, EventKind};

use crate::error::Result;
use crate::stored::documents::{HistorySegment, Text};
use crate::stored::spill::Limits;

/// The most bytes of event text in one history document. Escaped, it stays below the service's
/// limit of 2 MB.
const SEGMENT_BYTES: usize = 900 * 1024;

/// New history documents, and the size of their events.
#[derive(Debug)]
pub(super) struct NewHistory {
    pub(super) segments: Vec<HistorySegment>,
    pub(super) bytes: usize,
}

impl NewHistory {
    /// Packs events into one document, or into several when they are large.
    ///
    /// # Errors
    /// Fails when an event exceeds the limit of a single value.
    pub(super) fn pack(
        limits: Limits,
        instance_id: &str,
        execution_id: u64,
        events: &[Event],
    ) -> Result<Self> {
        let mut sizes = Vec::with_capacity(events.len());
        for event in events {
            let bytes = serde_json::to_string(event)?.len();
            limits.check_value(large_part(&event.kind), bytes)?;
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
            let segment = HistorySegment::pack(instance_id, execution_id, &events[begin..end]);
            segments.extend(segment?);
            begin = end;
        }
        Ok(Self {
            segments,
            bytes: sizes.iter().sum(),
        })
    }

    /// Returns the texts of the documents.
    pub(super) fn texts_mut(&mut self) -> impl Iterator<Item = &mut Text> {
        let segments = self.segments.iter_mut();
        segments.map(|segment| &mut segment.event_data)
    }

    /// Joins all documents into one, for a commit that writes its large texts to chunks.
    pub(super) fn join(&mut self) {
        let mut segments = std::mem::take(&mut self.segments).into_iter();
        let Some(mut first) = segments.next() else {
            return;
        };
        let mut text = first.event_data.header().to_owned();
        for later in segments {
            // Each text is a JSON array of at least one event.
            text.pop();
            text.push(',');
            text.push_str(later.event_data.header().trim_start_matches('['));
            first.event_count += later.event_count;
        }
        first.event_data = Text::Inline(text);
        self.segments = vec![first];
    }
}

/// Returns the name of the part of an event that can be large.
fn large_part(event: &EventKind) -> &'static str {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_documents_hold_the_same_events() {
        let event = |id| {
            let kind = EventKind::ExternalSubscribed {
                name: "[]".to_owned(),
            };
            Event::with_event_id(id, "i", 1, None, kind)
        };
        let events: Vec<Event> = (1..=5).map(event).collect();
        let pack = |events: &[Event]| HistorySegment::pack("i", 1, events).unwrap().unwrap();
        let mut history = NewHistory {
            segments: vec![pack(&events[..2]), pack(&events[2..3]), pack(&events[3..])],
            bytes: 0,
        };
        history.join();
        let [joined] = &history.segments[..] else {
            panic!("{:?}", history.segments);
        };
        assert_eq!((joined.event_id, joined.event_count), (1, 5));
        let read = HistorySegment::unpack(joined.event_data.header()).unwrap();
        assert_eq!(read, events);
    }
}
