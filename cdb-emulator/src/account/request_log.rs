//! The log of requests, for tests and benchmarks.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::protocol::OperationKind;

/// Maximum number of different query texts. Programs that put values into their texts send a new
/// text every time.
const MAX_TEXTS: usize = 10_000;
/// Maximum length of a text in bytes.
const MAX_TEXT_BYTES: usize = 4096;
/// Replaces all further texts.
const OTHERS: &str = "(others)";

/// The requests since the start, or since the last reset.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
/// let emulator = cdb_emulator::Emulator::start().await?;
/// // … the code to measure
/// let log = emulator.requests();
/// println!("{} requests, {} of them for data", log.total(), log.data_requests());
/// emulator.reset_requests();
/// # emulator.stop().await; Ok(()) }
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestLog {
    /// The number of requests of each kind.
    pub counts: BTreeMap<OperationKind, u64>,
    /// The charge in request units.
    pub charge: f64,
    /// The size of request bodies in bytes.
    pub bytes_in: u64,
    /// The size of response bodies in bytes.
    pub bytes_out: u64,
    /// The number of queries by SQL text: up to 10,000 different texts, each by its first 4,096
    /// bytes. Further texts are counted as `(others)`.
    pub queries: BTreeMap<String, u64>,
    /// The number of responses by status.
    pub statuses: BTreeMap<u16, u64>,
}

impl RequestLog {
    /// Returns the number of all requests.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns the number of requests without those for metadata, which clients cache.
    pub fn data_requests(&self) -> u64 {
        let metadata = self.counts.get(&OperationKind::Metadata).copied();
        self.total() - metadata.unwrap_or_default()
    }

    /// Counts a query by its text.
    pub(crate) fn note_query(&mut self, sql: &str) {
        let mut end = sql.len().min(MAX_TEXT_BYTES);
        while !sql.is_char_boundary(end) {
            end -= 1;
        }
        let known = self.queries.contains_key(&sql[..end]);
        let text = if known || self.queries.len() < MAX_TEXTS {
            &sql[..end]
        } else {
            OTHERS
        };
        *self.queries.entry(text.to_owned()).or_default() += 1;
    }

    pub(crate) fn add(&mut self, kind: OperationKind, response: &ResponseSummary) {
        *self.counts.entry(kind).or_default() += 1;
        *self.statuses.entry(response.status).or_default() += 1;
        self.charge += response.charge;
        self.bytes_in += response.bytes_in;
        self.bytes_out += response.bytes_out;
    }
}

/// The counted properties of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseSummary {
    pub(crate) status: u16,
    pub(crate) charge: f64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_texts_is_limited() {
        let mut log = RequestLog::default();
        for n in 0..MAX_TEXTS + 500 {
            log.note_query(&format!("SELECT {n}"));
        }
        log.note_query("SELECT 7");
        assert_eq!(log.queries.len(), MAX_TEXTS + 1);
        assert_eq!((log.queries[OTHERS], log.queries["SELECT 7"]), (500, 2));
        let mut log = RequestLog::default();
        log.note_query(&format!("x{}", "é".repeat(MAX_TEXT_BYTES)));
        let kept = log.queries.keys().next().map(String::len);
        assert_eq!(kept, Some(MAX_TEXT_BYTES - 1));
    }
}
