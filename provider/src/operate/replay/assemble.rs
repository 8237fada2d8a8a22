//! Assembles a recording from the documents of an instance.

use std::collections::HashMap;

use super::recording::Recording;
use crate::error::{Error, Result};
use crate::stored::documents::{
    Chunked, Durable, HistorySegment, Instance, KeyValuePack, PackedKeyValues, Text,
};
use crate::stored::history::{self, Segments};
use crate::stored::kv::KvState;
use crate::stored::payload::Payloads;

/// The documents of an instance.
pub(super) struct Documents {
    instance: Instance,
    /// The history of the current execution.
    history: Segments,
    values: PackedKeyValues,
    pack: Option<KeyValuePack>,
    /// The chunks, by their parts.
    chunks: HashMap<String, String>,
}

impl Documents {
    pub(super) fn of(instance: Instance) -> Self {
        Self {
            instance,
            history: Segments::default(),
            values: PackedKeyValues::default(),
            pack: None,
            chunks: HashMap::new(),
        }
    }

    /// Adds a document of the instance's partition. Documents that no recording needs are ignored.
    pub(super) fn add(&mut self, document: Durable) {
        match document {
            Durable::History(segment)
                if segment.execution_id == self.instance.current_execution_id =>
            {
                self.history.documents.push(segment);
            }
            Durable::KeyValue(value) => self.values.store.push(value),
            Durable::KeyValuePack(pack) => self.pack = Some(pack),
            Durable::Chunk(chunk) => {
                self.chunks.insert(chunk.part, chunk.payload);
            }
            _ => {}
        }
    }

    /// Returns the recording; `None` when the instance has not started.
    ///
    /// # Errors
    /// When a document is missing, or its text cannot be decoded.
    pub(super) fn recording(mut self, payloads: &Payloads) -> Result<Option<Recording>> {
        let history = std::mem::take(&mut self.history);
        let segments = history.sorted().documents;
        let (found, stored) = (segments.len() as u64, self.instance.history_documents);
        if let Some(stored) = stored.filter(|stored| *stored > found) {
            return Err(Error::Damaged(format!(
                "the export holds {found} of the {stored} history documents"
            )));
        }
        let mut events = Vec::new();
        for segment in &segments {
            events.extend(HistorySegment::unpack(&self.text(&segment.event_data)?)?);
        }
        if events.is_empty() {
            return Ok(None);
        }
        history::check(&segments, &events)
            .map_err(|error| Error::Damaged(format!("the history is damaged: {error}")))?;
        let mut values = self.values()?.snapshot();
        payloads.decode_entries(&mut values)?;
        let events = payloads.decode_history(events)?;
        let Instance {
            instance_id,
            current_execution_id,
            ..
        } = self.instance;
        let recording = Recording::new(instance_id, current_execution_id, events);
        Ok(Some(recording.with_key_values(values)))
    }

    /// Returns the key-value store. A pack replaces all single documents.
    fn values(&mut self) -> Result<KvState> {
        let contents = match self.pack.take() {
            None => std::mem::take(&mut self.values),
            Some(pack) => serde_json::from_str(&self.text(&pack.value)?)?,
        };
        KvState::of(contents)
    }

    fn text(&self, text: &Text) -> Result<String> {
        match text {
            Text::Inline(text) => Ok(text.clone()),
            Text::Chunked(chunked) => self.joined(chunked),
            Text::Damaged(reason) => Err(Error::Damaged(reason.clone())),
        }
    }

    fn joined(&self, chunked: &Chunked) -> Result<String> {
        let mut text = String::new();
        for part in chunked.parts() {
            let chunk = self.chunks.get(&part);
            text += chunk.ok_or_else(|| Error::Damaged(format!("chunk `{part}` is missing")))?;
        }
        Ok(text)
    }
}
