//! History: the events of a turn in one document, because each document costs a write and a batch slot.

use cdb_model::{Document, Timestamp};
use duroxide::Event;
use serde::{Deserialize, Serialize};

use super::{Status, Text};

/// The events that one turn appended to one execution, or, written by `duroxide-cdb`, a single event.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(
    type = "history",
    id = "{instance_id}:history:{execution_id}:{event_id}"
)]
pub struct HistorySegment {
    /// The instance.
    #[document(partition_key)]
    pub instance_id: String,
    /// The execution that the events belong to.
    #[document(index)]
    pub execution_id: u64,
    /// Id of the first event.
    pub event_id: u64,
    /// How many events `event_data` holds.
    #[serde(default = "one")]
    pub event_count: u64,
    /// The events: a JSON array, or a single JSON object. Text rather than JSON, because the service stores numbers as
    /// doubles and events must come back exactly as they went in.
    #[document(unindexed)]
    pub event_data: Text,
}

fn one() -> u64 {
    1
}

impl HistorySegment {
    /// Packs the events of a turn. `None` when there are none.
    ///
    /// # Errors
    /// When an event cannot be written as JSON.
    pub fn pack(
        instance_id: &str,
        execution_id: u64,
        events: &[Event],
    ) -> Result<Option<Self>, serde_json::Error> {
        let Some(first) = events.first() else {
            return Ok(None);
        };
        Ok(Some(Self {
            instance_id: instance_id.to_owned(),
            execution_id,
            event_id: first.event_id,
            event_count: events.len() as u64,
            event_data: Text::Inline(serde_json::to_string(events)?),
        }))
    }

    /// The events of a segment's text, in order.
    ///
    /// # Errors
    /// When the text is not what [`HistorySegment::pack`] or `duroxide-cdb` writes.
    pub fn unpack(event_data: &str) -> Result<Vec<Event>, serde_json::Error> {
        if event_data.starts_with('[') {
            serde_json::from_str(event_data)
        } else {
            serde_json::from_str(event_data).map(|event| vec![event])
        }
    }
}

/// How an execution ended that a later one has replaced. The newest execution is described by its instance.
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "execution", id = "{instance_id}:execution:{execution_id}")]
pub struct Execution {
    /// The instance.
    #[document(partition_key)]
    pub instance_id: String,
    /// The execution.
    #[document(index)]
    pub execution_id: u64,
    /// Its last state.
    pub status: Status,
    /// What it ended with.
    #[document(unindexed)]
    pub output: Option<Text>,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
}
