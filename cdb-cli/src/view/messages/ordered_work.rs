//! Messages of ordered work that failed: those set aside, oldest first, then those retried, the longest
//! waiting first. Each blocks its stream.

use std::fmt;

use async_trait::async_trait;
use cdb_client::Page;
use cdb_client::query::Continuation;
use cdb_model::{Document as _, DocumentKey as _, Timestamp};
use cdb_work::{Lane, WorkAdmin, WorkCounts, WorkMessage, WorkMessageKey};
use serde::Serialize;

use super::retrying::next_attempt;
use crate::container::Holdings;
use crate::container::paging::{PageStart, TwoLists};
use crate::exit::Failure;
use crate::output::{MORE, short, span, table};

/// A page of failed messages, and the start of the next page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FailedWork {
    pub messages: Vec<WorkRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<PageStart>,
    pub now: Timestamp,
}

/// A failed message.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkRow {
    pub name: String,
    pub partition: String,
    pub lane: Lane,
    pub stream: String,
    pub id: String,
    pub sequence: u64,
    pub what: String,
    pub attempts: u32,
    pub reason: String,
    /// Since when the message waits, unless it is set aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_since_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    /// Since when the message is set aside, after its last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_aside_at: Option<Timestamp>,
}

impl WorkRow {
    pub(crate) fn of(message: WorkMessage) -> Self {
        Self {
            name: name(&message.key()),
            partition: message.partition,
            lane: message.lane,
            stream: message.stream,
            id: message.message_id,
            sequence: message.sequence,
            what: message.kind,
            attempts: message.attempts,
            reason: message.last_failure.unwrap_or_default(),
            waiting_since_at: message.waiting_since,
            next_attempt_at: message.retrying.then_some(message.due_at),
            set_aside_at: message.dead_since,
        }
    }
}

/// The name of a message: the id of its document.
pub(crate) fn name(key: &WorkMessageKey) -> String {
    let id = key.to_id().expect("the key comes from an id");
    id.to_string()
}

fn rows(page: Page<WorkMessage>) -> Page<WorkRow> {
    Page {
        rows: page.rows.into_iter().map(WorkRow::of).collect(),
        next: page.next,
    }
}

#[async_trait]
impl TwoLists for WorkAdmin {
    type Row = WorkRow;

    async fn first(
        &self,
        most: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<WorkRow>, Failure> {
        Ok(rows(self.set_aside(most, from).await?))
    }

    async fn second(
        &self,
        most: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<WorkRow>, Failure> {
        Ok(rows(self.retrying(most, from).await?))
    }

    fn has_second(&self) -> bool {
        true
    }
}

/// Counts the messages.
///
/// # Errors
/// As [`read`].
pub(crate) async fn counts(holdings: &Holdings) -> Result<WorkCounts, Failure> {
    Ok(admin(holdings)?.counts().await?)
}

pub(crate) fn admin(holdings: &Holdings) -> Result<&WorkAdmin, Failure> {
    let work = holdings.work.as_ref();
    work.ok_or_else(|| holdings.lacks("ordered work"))
}

/// Reads a page of failed messages.
///
/// # Errors
/// When the container holds no ordered work, or a query fails.
pub(crate) async fn read(
    holdings: &Holdings,
    rows: usize,
    from: Option<PageStart>,
) -> Result<FailedWork, Failure> {
    let page = admin(holdings)?.page(rows, from).await?;
    Ok(FailedWork {
        messages: page.rows,
        next: page.next,
        now: holdings.now(),
    })
}

impl fmt::Display for FailedWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.messages.is_empty() {
            writeln!(f, "no message has failed")?;
        } else {
            f.write_str(&work_table(&self.messages, self.now))?;
        }
        match &self.next {
            Some(_) => writeln!(f, "{MORE}"),
            None => Ok(()),
        }
    }
}

pub(crate) fn work_table(messages: &[WorkRow], now: Timestamp) -> String {
    let cells = |row: &WorkRow| {
        let next = match (row.set_aside_at, row.next_attempt_at) {
            (Some(since), _) => format!("set aside for {}", span(now.since(since))),
            (None, Some(at)) => next_attempt(at, now),
            (None, None) => String::new(),
        };
        vec![
            row.name.clone(),
            short(&row.what, 30),
            row.attempts.to_string(),
            next,
            short(&row.reason, 60),
        ]
    };
    let rows: Vec<Vec<String>> = messages.iter().map(cells).collect();
    table(&["NAME", "WHAT", "ATTEMPTS", "NEXT", "WHY"], &rows)
}
