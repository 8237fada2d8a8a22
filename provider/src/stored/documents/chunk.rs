//! Texts of any size: inline while they fit into their document, otherwise in chunks.
//!
//! The service limits a document to 2 MB. A longer text is written as [`Chunk`]s under a unique
//! name before the commit that refers to them. A [`Spill`], which is written first and ended by the
//! commit, names the chunks: if the commit never arrives, a sweep finds and deletes them.

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

use super::trace::{NEVER, REMEMBERED_SECONDS};

/// The most bytes of a chunk as JSON, well below the service's 2 MB.
const CHUNK_BYTES: usize = 1024 * 1024;

/// A text that is stored inline, or in chunks beside its document.
///
/// ```
/// use cdb_provider::documents::Text;
///
/// let of = |json| serde_json::from_str::<Text>(json);
/// let small = of(r#""as it is""#)?;
/// let large = of(r#"{"instanceId": "import-1", "blob": "b1", "chunks": 4, "bytes": 4194304}"#)?;
/// for (text, bytes) in [(small, 8), (large, 4_194_304)] {
///     assert_eq!(text.bytes(), bytes); // without reading a chunk
///     match text {
///         Text::Inline(text) => assert_eq!(text, "as it is"),
///         Text::Chunked(chunked) => assert_eq!(chunked.parts().count(), 4),
///         Text::Damaged(why) => println!("{why}"),
///     }
/// }
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(untagged)]
pub enum Text {
    /// An inline text: a JSON string, as in containers of `duroxide-cdb`.
    Inline(String),
    /// A text in chunks.
    Chunked(Chunked),
    /// A text whose document does not match its type, with the reason. Never stored.
    #[serde(skip)]
    Damaged(String),
}

/// The location of a text's chunks.
///
/// ```
/// use cdb_provider::documents::{ChunkKey, OrchestratorItem, Text};
/// use cdb_provider::model::Query;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let client = duroxide::Client::new(std::sync::Arc::new(store.clone()));
/// client.start_orchestration("import-1", "Import", "x".repeat(3_000_000)).await?;
///
/// let messages = Query::<OrchestratorItem>::in_partition("import-1");
/// let start = store.container().query(messages).first().await?.expect("it is queued");
/// let Text::Chunked(chunked) = start.document.work_item else {
///     panic!("3 MB do not fit into a document");
/// };
/// let mut text = String::new();
/// for part in chunked.parts() {
///     let chunk = store.container().read(&ChunkKey::new(&*chunked.instance_id, part)).await?;
///     text.push_str(&chunk.expect("all of them, or none").document.payload);
/// }
/// assert_eq!(text.len() as u64, chunked.bytes);
/// # Ok(()) }
/// ```
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Chunked {
    /// The instance whose partition holds the chunks.
    pub instance_id: String,
    /// The name of the text, unique among all texts ever written.
    pub blob: String,
    /// The number of chunks, numbered from zero.
    pub chunks: u32,
    /// The bytes of the text.
    pub bytes: u64,
    /// The header, which is needed without reading the chunks. For a message: the message without
    /// its long strings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outline: Option<String>,
}

impl Text {
    /// Returns the bytes of the text, inline or in chunks.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Inline(text) => text.len(),
            Self::Chunked(chunked) => usize::try_from(chunked.bytes).unwrap_or(usize::MAX),
            Self::Damaged(_) => 0,
        }
    }

    /// Returns the location of the chunks; `None` for a text without chunks.
    pub fn chunked(&self) -> Option<&Chunked> {
        match self {
            Self::Inline(_) | Self::Damaged(_) => None,
            Self::Chunked(chunked) => Some(chunked),
        }
    }

    /// Returns the text, or its header if the text is in chunks.
    pub fn header(&self) -> &str {
        match self {
            Self::Inline(text) => text,
            Self::Chunked(chunked) => chunked.outline.as_deref().unwrap_or_default(),
            Self::Damaged(_) => "",
        }
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::Inline(String::new())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::Inline(text)
    }
}

/// A chunk of a text.
///
/// ```
/// use cdb_provider::documents::Chunk;
/// use cdb_provider::model::Query;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let client = duroxide::Client::new(std::sync::Arc::new(store.clone()));
/// client.start_orchestration("import-1", "Import", "x".repeat(3_000_000)).await?;
///
/// // The megabytes of an instance that are in chunks.
/// let chunks = Query::<Chunk>::in_partition("import-1").count();
/// assert_eq!(store.container().query(chunks).all().await?, [3]);
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "chunk", id = "{instance_id}:chunk:{part}")]
pub struct Chunk {
    /// The instance whose partition holds the chunk.
    #[document(partition_key)]
    pub instance_id: String,
    /// The text's name and the number of the chunk, see [`Chunked::parts`].
    pub part: String,
    /// The content of the chunk.
    #[document(unindexed)]
    pub payload: String,
}

impl Chunked {
    /// Returns whether a text fits into a document of its own.
    pub(crate) fn fits(text: &str) -> bool {
        fitting(text) == text.len()
    }

    /// Returns the names of the chunks, in order.
    pub fn parts(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.chunks).map(|number| part(&self.blob, number))
    }

    /// Returns the keys of the chunks, in order.
    pub(crate) fn into_keys(self) -> impl Iterator<Item = ChunkKey> {
        let key = move |number| ChunkKey::new(&*self.instance_id, part(&self.blob, number));
        (0..self.chunks).map(key)
    }

    /// Splits a text into chunks that fit into documents.
    pub(crate) fn cut(instance_id: &str, blob: &str, text: &str) -> (Self, Vec<Chunk>) {
        let mut chunks = Vec::new();
        let mut rest = text;
        while !rest.is_empty() || chunks.is_empty() {
            let (payload, later) = rest.split_at(fitting(rest));
            let number = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
            chunks.push(Chunk {
                instance_id: instance_id.to_owned(),
                part: part(blob, number),
                payload: payload.to_owned(),
            });
            rest = later;
        }
        let chunked = Self {
            instance_id: instance_id.to_owned(),
            blob: blob.to_owned(),
            chunks: u32::try_from(chunks.len()).unwrap_or(u32::MAX),
            bytes: text.len() as u64,
            outline: None,
        };
        (chunked, chunks)
    }
}

fn part(blob: &str, number: u32) -> String {
    format!("{blob}-{number}")
}

/// Returns how many bytes of a text fit into a chunk, up to a character boundary.
fn fitting(text: &str) -> usize {
    let mut bytes = 0;
    for (at, character) in text.char_indices() {
        bytes += match character {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            other => other.len_utf8(),
        };
        if bytes > CHUNK_BYTES {
            return at;
        }
    }
    text.len()
}

/// Names chunks that belong to no document: those of a commit that has not arrived yet, or those
/// that a commit has consumed.
///
/// A commit replaces the spill of its own chunks by a trace, so it fails if they were released as
/// lost, and a creation of the spill that arrives late is refused. It creates the spill of the
/// chunks that it consumes. Whichever step crashes, a spill is left that names the chunks to delete.
///
/// ```
/// use cdb_provider::documents::Spill;
/// use cdb_provider::model::Query;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let client = duroxide::Client::new(std::sync::Arc::new(store.clone()));
/// client.start_orchestration("import-1", "Import", "x".repeat(3_000_000)).await?;
///
/// // The commit that crashed longest ago, if one did. This one has come to its end.
/// let lost = Query::<Spill>::across_partitions().order_by(Spill::BY_CREATED).limit(1);
/// let lost = store.container().query(lost).first().await?;
/// assert!(lost.is_none_or(|spill| spill.document.is_trace()));
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "spill", id = "{instance_id}:spill:{name}")]
#[document(composite(BY_CREATED = r#type, created_at))]
pub struct Spill {
    /// The instance whose commit wrote the spill.
    #[document(partition_key)]
    pub instance_id: String,
    /// The name, unique for each spill.
    pub name: String,
    /// The chunks. None for a trace.
    pub texts: Vec<Chunked>,
    /// The time of the write, or of the last refresh while chunks are written. Old spills are swept.
    /// [`NEVER`] for a trace.
    #[document(index)]
    pub created_at: Timestamp,
    /// The seconds until the service deletes a trace.
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
}

impl Spill {
    /// Creates a spill with a unique name.
    pub(crate) fn new(instance_id: &str, texts: Vec<Chunked>, now: Timestamp) -> Self {
        Self {
            instance_id: instance_id.to_owned(),
            name: uuid::Uuid::new_v4().to_string(),
            texts,
            created_at: now,
            ttl: None,
        }
    }

    /// Returns the trace of a spill whose commit has taken place. It outlives repeated requests.
    pub(crate) fn trace(&self) -> Self {
        Self {
            texts: Vec::new(),
            created_at: NEVER,
            ttl: Some(REMEMBERED_SECONDS),
            ..self.clone()
        }
    }

    /// Returns whether the commit of the spill has taken place.
    #[must_use]
    pub fn is_trace(&self) -> bool {
        self.ttl.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that every chunk fits as JSON, and that the chunks join to the text.
    fn check(text: &str, chunks: u32) {
        let (chunked, parts) = Chunked::cut("i", "b", text);
        assert_eq!(chunked.chunks, chunks);
        assert_eq!(chunked.bytes, text.len() as u64);
        let joined: String = parts.iter().map(|chunk| &*chunk.payload).collect();
        assert!(joined == text, "a text of {} bytes has changed", text.len());
        for (chunk, part) in parts.iter().zip(chunked.parts()) {
            assert_eq!(chunk.part, part);
            let bytes = serde_json::to_string(chunk).unwrap().len();
            assert!(bytes <= CHUNK_BYTES + 100, "{bytes} bytes");
        }
    }

    #[test]
    fn a_text_is_split_where_the_json_of_a_chunk_is_full() {
        check("", 1);
        check("short", 1);
        check(&"x".repeat(CHUNK_BYTES), 1);
        check(&"x".repeat(CHUNK_BYTES + 1), 2);
        check(&"\"".repeat(CHUNK_BYTES), 2);
        check(&"\u{1}".repeat(CHUNK_BYTES / 2), 4);
        check(&"é😀".repeat(CHUNK_BYTES / 4), 2);
        check(&"a\u{7f}\\\n".repeat(CHUNK_BYTES / 4), 2);
    }

    #[test]
    fn a_text_that_fits_is_stored_inline() {
        let text = Text::Inline("plain".to_owned());
        assert_eq!(serde_json::to_string(&text).unwrap(), r#""plain""#);
        let (chunked, _) = Chunked::cut("i", "b", "x");
        let json = serde_json::to_string(&Text::Chunked(chunked.clone())).unwrap();
        assert_eq!(
            json,
            r#"{"instanceId":"i","blob":"b","chunks":1,"bytes":1}"#
        );
        let read: Text = serde_json::from_str(&json).unwrap();
        assert_eq!(read, Text::Chunked(chunked));
    }
}
