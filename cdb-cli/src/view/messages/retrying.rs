//! Messages between partitions that failed and are retried, the next attempt first.

use std::fmt;

use cdb_client::query::Continuation;
use cdb_model::Timestamp;
use cdb_provider::coordination::message::Side;
use cdb_provider::coordination::messaging::RetryingMessage;
use serde::Serialize;

use crate::container::Holdings;
use crate::exit::Failure;
use crate::output::{MORE, short, span, table};

/// A page of the inboxes, and the start of the next page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Inbox {
    pub messages: Vec<RetryingRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Continuation>,
    pub now: Timestamp,
}

/// A message that is retried.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetryingRow {
    pub id: String,
    pub from: String,
    pub to: String,
    pub what: String,
    pub sent_at: Timestamp,
    pub attempts: u32,
    pub failed_at: Timestamp,
    pub reason: String,
    pub next_attempt_at: Timestamp,
    /// Whether the later messages of its stream wait.
    pub blocks_stream: bool,
}

impl RetryingRow {
    pub(crate) fn of(message: RetryingMessage) -> Self {
        Self {
            id: message.id.to_string(),
            from: message.from.to_string(),
            to: message.to.to_string(),
            blocks_stream: message.blocks_stream(),
            what: message.message_type,
            sent_at: message.sent_at,
            attempts: message.attempts,
            failed_at: message.last_error.at,
            reason: message.last_error.reason,
            next_attempt_at: message.next_attempt,
        }
    }
}

/// Reads a page of the messages whose handlers fail.
///
/// # Errors
/// When the container holds no messages, or the query fails.
pub(crate) async fn inbox(
    holdings: &Holdings,
    rows: usize,
    from: Option<&Continuation>,
) -> Result<Inbox, Failure> {
    let messages = holdings.messages.as_ref();
    let messages = messages.ok_or_else(|| holdings.lacks("messages between partitions"))?;
    let page = messages.retrying(Side::Inbox, rows, from).await?;
    Ok(Inbox {
        messages: page.rows.into_iter().map(RetryingRow::of).collect(),
        next: page.next,
        now: holdings.now(),
    })
}

/// Formats the time until an attempt: `in 12 s`, `now`.
pub(crate) fn next_attempt(at: Timestamp, now: Timestamp) -> String {
    if at <= now {
        return "now".to_owned();
    }
    format!("in {}", span(at.since(now)))
}

/// Formats messages as a table.
pub(crate) fn message_table(messages: &[RetryingRow], now: Timestamp) -> String {
    let cells = |row: &RetryingRow| {
        vec![
            short(&row.from, 40),
            short(&row.to, 40),
            short(&row.what, 40),
            row.attempts.to_string(),
            next_attempt(row.next_attempt_at, now),
            span(now.since(row.sent_at)),
            short(&row.reason, 60),
        ]
    };
    let rows: Vec<Vec<String>> = messages.iter().map(cells).collect();
    table(
        &["FROM", "TO", "WHAT", "ATTEMPTS", "NEXT", "AGE", "WHY"],
        &rows,
    )
}

impl fmt::Display for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.messages.is_empty() {
            writeln!(f, "no message is retried")?;
        } else {
            f.write_str(&message_table(&self.messages, self.now))?;
        }
        match &self.next {
            Some(_) => writeln!(f, "{MORE}"),
            None => Ok(()),
        }
    }
}
