//! What was asked of the server: counted, for tests and benchmarks.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of an operation, as it is billed. In JSON its name in lower case.
///
/// ```
/// use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
/// let emulator = Emulator::start().await?;
/// // Every tenth write of several documents is carried out, and the writer does not hear of it.
/// let lost = Fault::with_probability(Effect::DropAnswer, 0.1);
/// emulator.inject(lost.on(OperationKind::Batch).on(OperationKind::Bulk));
/// // … what is to be tested
/// assert_eq!(emulator.requests().counts.get(&OperationKind::Batch), None); // there was no such request
/// # emulator.stop().await; Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OperationKind {
    /// Read of one document by its id.
    Read,
    /// Creation of one document.
    Create,
    /// Replacement of one document.
    Replace,
    /// Upsert of one document.
    Upsert,
    /// Patch of one document.
    Patch,
    /// Deletion of one document.
    Delete,
    /// Transactional batch.
    Batch,
    /// Bulk: independent operations in one request.
    Bulk,
    /// One page of a query.
    Query,
    /// One page of the change feed or of a listing.
    Feed,
    /// Databases, containers, physical partitions, the account, plans of queries.
    Metadata,
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Create => "create",
            Self::Replace => "replace",
            Self::Upsert => "upsert",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::Batch => "batch",
            Self::Bulk => "bulk",
            Self::Query => "query",
            Self::Feed => "feed",
            Self::Metadata => "metadata",
        })
    }
}

/// Texts that are kept apart: programs that put values into their texts ask a new one every time.
const MOST_TEXTS: usize = 10_000;
/// Bytes of a text that are kept.
const LONGEST_TEXT: usize = 4096;
/// Stands for all further texts.
const OTHERS: &str = "(others)";

/// Requests since the start, or since the last reset.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
/// let emulator = cdb_emulator::Emulator::start().await?;
/// // … what is to be measured
/// let log = emulator.requests();
/// println!("{} requests, {} of them for data", log.total(), log.data_requests());
/// emulator.reset_requests();
/// # emulator.stop().await; Ok(()) }
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestLog {
    /// How many requests of each kind were answered.
    pub counts: BTreeMap<OperationKind, u64>,
    /// Request units charged.
    pub charge: f64,
    /// Bytes of request bodies.
    pub bytes_in: u64,
    /// Bytes of response bodies.
    pub bytes_out: u64,
    /// The SQL texts that were asked, and how often: 10,000 different ones, each by its first 4,096 bytes. Further ones
    /// are counted together as `(others)`.
    pub queries: BTreeMap<String, u64>,
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
}

impl RequestLog {
    /// All requests.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// All requests but those for metadata, which a client makes once and caches.
    pub fn data_requests(&self) -> u64 {
        let metadata = self.counts.get(&OperationKind::Metadata).copied();
        self.total() - metadata.unwrap_or_default()
    }

    /// Counts a query by its text, as far as there is room for texts.
    pub(crate) fn note_query(&mut self, sql: &str) {
        let mut end = sql.len().min(LONGEST_TEXT);
        while !sql.is_char_boundary(end) {
            end -= 1;
        }
        let known = self.queries.contains_key(&sql[..end]);
        let text = if known || self.queries.len() < MOST_TEXTS {
            &sql[..end]
        } else {
            OTHERS
        };
        *self.queries.entry(text.to_owned()).or_default() += 1;
    }

    pub(crate) fn add(&mut self, kind: OperationKind, answer: &Answered) {
        *self.counts.entry(kind).or_default() += 1;
        *self.statuses.entry(answer.status).or_default() += 1;
        self.charge += answer.charge;
        self.bytes_in += answer.bytes_in;
        self.bytes_out += answer.bytes_out;
    }
}

/// What is counted of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) charge: f64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_never_repeat_do_not_fill_the_memory() {
        let mut log = RequestLog::default();
        for n in 0..MOST_TEXTS + 500 {
            log.note_query(&format!("SELECT {n}"));
        }
        log.note_query("SELECT 7");
        assert_eq!(log.queries.len(), MOST_TEXTS + 1);
        assert_eq!((log.queries[OTHERS], log.queries["SELECT 7"]), (500, 2));
        let mut log = RequestLog::default();
        log.note_query(&format!("x{}", "é".repeat(LONGEST_TEXT)));
        let kept = log.queries.keys().next().map(String::len);
        assert_eq!(kept, Some(LONGEST_TEXT - 1));
    }
}
