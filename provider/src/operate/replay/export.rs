//! Recordings from an export, the JSON lines of `cdb export`: replay without a connection.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, BufRead, Seek, SeekFrom};
use std::sync::Arc;

use cdb_model::{Container as _, Document as _};
use duroxide::providers::ProviderError;

use super::recording::Recording;
use crate::error::{Error, InOperation as _, Result};
use crate::stored::documents::{
    Chunk, Chunked, DocumentHeader, Durable, HistorySegment, Instance, KeyValue, KeyValuePack,
    PackedKeyValues, Text,
};
use crate::stored::history::{self, Segments};
use crate::stored::kv::KvState;
use crate::stored::payload::{PayloadCodec, Payloads};

/// The document types of a recording.
const TYPES: [&str; 5] = [
    Instance::SHAPE.discriminator,
    HistorySegment::SHAPE.discriminator,
    KeyValue::SHAPE.discriminator,
    KeyValuePack::SHAPE.discriminator,
    Chunk::SHAPE.discriminator,
];

/// The instances of an export, one JSON document per line as `cdb export` writes them.
///
/// Keeps the positions of the documents in memory, and reads the documents of one instance at a
/// time. Of several lines with the same document, the last one counts.
///
/// ```no_run
/// use cdb_provider::replay::{Export, Replay};
///
/// # fn check(orchestrations: duroxide::OrchestrationRegistry) -> Result<(), Box<dyn std::error::Error>> {
/// // Written by `cdb export --instance order-7 --out tests/order-7.jsonl`.
/// let file = std::fs::File::open("tests/order-7.jsonl")?;
/// let mut export = Export::new(std::io::BufReader::new(file))?;
/// let replay = Replay::new(orchestrations);
/// for id in export.ids() {
///     if let Some(recording) = export.recording(&id)? {
///         replay.check(&recording)?;
///     }
/// }
/// # Ok(()) }
/// ```
pub struct Export<R> {
    lines: R,
    partitions: BTreeMap<String, Partition>,
    payloads: Payloads,
}

/// The lines of an instance.
#[derive(Debug, Default)]
struct Partition {
    instance: Option<Line>,
    /// By the ids of the documents.
    others: HashMap<String, Line>,
}

/// The position of a document.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// The position of its first byte.
    start: u64,
    bytes: usize,
    /// Its number in the file, from 1.
    number: u64,
}

impl<R: BufRead + Seek> Export<R> {
    /// Reads the positions of all documents. Other documents than those of instances are skipped.
    ///
    /// # Errors
    /// When the lines cannot be read, or one of them is not a JSON document. The error names the
    /// line.
    pub fn new(mut lines: R) -> io::Result<Self> {
        let mut partitions: BTreeMap<String, Partition> = BTreeMap::new();
        let mut at = Line {
            start: lines.stream_position()?,
            bytes: 0,
            number: 0,
        };
        let mut text = Vec::new();
        loop {
            text.clear();
            at.start += at.bytes as u64;
            at.number += 1;
            at.bytes = lines.read_until(b'\n', &mut text)?;
            if at.bytes == 0 {
                break;
            }
            if !text.trim_ascii().is_empty() {
                add(&mut partitions, &text, at)?;
            }
        }
        Ok(Self {
            lines,
            partitions,
            payloads: Payloads::default(),
        })
    }

    /// Sets the codec of the payloads. Without it, encoded payloads are an error.
    #[must_use]
    pub fn with_payload_codec(mut self, codec: Arc<dyn PayloadCodec>) -> Self {
        self.payloads = Payloads::new(Some(codec));
        self
    }

    /// Returns the ids of the instances, in their order.
    pub fn ids(&self) -> Vec<String> {
        let with_instance = |(id, partition): (&String, &Partition)| {
            partition.instance.is_some().then(|| id.clone())
        };
        self.partitions.iter().filter_map(with_instance).collect()
    }

    /// Reads the document of an instance, with its payloads as they are stored. `None` for an
    /// instance that the export does not hold.
    ///
    /// # Errors
    /// When the line cannot be read or decoded.
    pub fn instance(&mut self, id: &str) -> Result<Option<Instance>, ProviderError> {
        self.read_instance(id).in_operation("export")
    }

    /// Reads the current execution of an instance. `None` for an instance that the export does not
    /// hold or that has not started.
    ///
    /// # Errors
    /// When a line cannot be read or decoded, or is missing.
    pub fn recording(&mut self, id: &str) -> Result<Option<Recording>, ProviderError> {
        self.read_recording(id).in_operation("recording")
    }

    fn read_instance(&mut self, id: &str) -> Result<Option<Instance>> {
        let line = self.partitions.get(id).and_then(|found| found.instance);
        match line.map(|line| read(&mut self.lines, line)).transpose()? {
            Some(Durable::Instance(instance)) => Ok(Some(instance)),
            _ => Ok(None),
        }
    }

    fn read_recording(&mut self, id: &str) -> Result<Option<Recording>> {
        let Some(instance) = self.read_instance(id)? else {
            return Ok(None);
        };
        let mut documents = Documents::of(instance);
        for line in self.partitions[id].others.values() {
            documents.add(read(&mut self.lines, *line)?);
        }
        documents.recording(&self.payloads)
    }
}

/// Adds a line if a recording needs it.
fn add(partitions: &mut BTreeMap<String, Partition>, text: &[u8], at: Line) -> io::Result<()> {
    let header: DocumentHeader<'_> = serde_json::from_slice(text).map_err(|error| {
        let message = format!("line {} is not a document of an export: {error}", at.number);
        io::Error::new(io::ErrorKind::InvalidData, message)
    })?;
    let (Some(instance_id), Some(of_type)) = (header.instance_id, header.r#type) else {
        return Ok(());
    };
    if !TYPES.contains(&&*of_type) {
        return Ok(());
    }
    let partition = partitions.entry(instance_id.into_owned()).or_default();
    if of_type == Instance::SHAPE.discriminator {
        partition.instance = Some(at);
    } else {
        partition.others.insert(header.id.into_owned(), at);
    }
    Ok(())
}

/// Reads a document.
fn read(lines: &mut (impl BufRead + Seek), line: Line) -> Result<Durable> {
    let damaged = |error: &dyn fmt::Display| {
        Error::Damaged(format!("line {} of the export: {error}", line.number))
    };
    let mut text = vec![0; line.bytes];
    let read = lines
        .seek(SeekFrom::Start(line.start))
        .and_then(|_| lines.read_exact(&mut text));
    read.map_err(|error| damaged(&error))?;
    let text = str::from_utf8(&text).map_err(|error| damaged(&error))?;
    let header: DocumentHeader<'_> = serde_json::from_str(text)?;
    let of_type = header.r#type.unwrap_or_default();
    Durable::decode(&of_type, text).map_err(|error| damaged(&error))
}

impl<R> fmt::Debug for Export<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export")
            .field("partitions", &self.partitions.len())
            .finish_non_exhaustive()
    }
}

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
