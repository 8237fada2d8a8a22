//! The parts of change feeds, with reader, lag and last failure.

use std::fmt;
use std::time::Duration;

use cdb_model::Timestamp;
use cdb_provider::coordination::change_feed::FeedPart;
use serde::Serialize;

use super::failed::next_attempt;
use crate::container::Holdings;
use crate::exit::Failure;
use crate::output::{milliseconds, short, span, table};

/// The parts of all processors.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ChangeFeeds {
    pub parts: Vec<PartRow>,
    pub now: Timestamp,
}

/// A part of a processor's feed.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartRow {
    pub processor: String,
    /// The boundaries in the hash space of partition keys.
    pub part: String,
    /// The container of the changes: `DATABASE/CONTAINER`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The process that reads the part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reader: Option<String>,
    /// The age of the oldest change that is not handled.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "milliseconds",
        rename = "lagMs"
    )]
    pub lag: Option<Duration>,
    /// The last failure, until a later attempt succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureRow>,
}

/// The last failure of a part.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailureRow {
    pub attempts: u32,
    pub failed_at: Timestamp,
    pub reason: String,
    pub next_attempt_at: Timestamp,
}

impl PartRow {
    fn of(part: FeedPart) -> Self {
        let source = part.source;
        Self {
            processor: part.processor,
            part: part.borders,
            source: source.map(|source| format!("{}/{}", source.database, source.container)),
            reader: part.reader,
            lag: part.lag,
            failure: part.failure.map(|failure| FailureRow {
                attempts: failure.attempts,
                failed_at: failure.at,
                reason: failure.reason,
                next_attempt_at: failure.next_attempt,
            }),
        }
    }
}

/// Reads the parts.
///
/// # Errors
/// When the container holds no positions of change feeds, or cannot be read.
pub(crate) async fn read(holdings: &Holdings) -> Result<ChangeFeeds, Failure> {
    let feeds = holdings.feeds.as_ref();
    let feeds = feeds.ok_or_else(|| holdings.lacks("positions of change feeds"))?;
    let parts = feeds.parts().await?;
    Ok(ChangeFeeds {
        parts: parts.into_iter().map(PartRow::of).collect(),
        now: holdings.now(),
    })
}

impl fmt::Display for ChangeFeeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parts.is_empty() {
            return writeln!(f, "no change feed was started");
        }
        let cells = |row: &PartRow| {
            let (attempts, next, why) = match &row.failure {
                Some(failure) => (
                    failure.attempts.to_string(),
                    next_attempt(failure.next_attempt_at, self.now),
                    short(&failure.reason, 60),
                ),
                None => Default::default(),
            };
            vec![
                short(&row.processor, 40),
                row.part.clone(),
                short(row.source.as_deref().unwrap_or("unknown"), 40),
                short(row.reader.as_deref().unwrap_or("none"), 40),
                row.lag.map_or_else(|| "unknown".to_owned(), span),
                attempts,
                next,
                why,
            ]
        };
        let rows: Vec<Vec<String>> = self.parts.iter().map(cells).collect();
        let head = [
            "PROCESSOR",
            "PART",
            "SOURCE",
            "READER",
            "LAG",
            "ATTEMPTS",
            "NEXT",
            "WHY",
        ];
        f.write_str(&table(&head, &rows))
    }
}
