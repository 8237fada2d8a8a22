//! The outboxes: undelivered messages between instances, oldest first, then messages between
//! partitions whose delivery is retried. Without dead letters.

use std::fmt;

use async_trait::async_trait;
use cdb_client::Page;
use cdb_client::query::Continuation;
use cdb_model::{Query, Timestamp};
use cdb_provider::coordination::message::Side;
use cdb_provider::documents::{NEVER, OutboxIntent};
use serde::Serialize;

use super::retrying::{RetryingRow, message_table};
use crate::container::Holdings;
use crate::container::paging::{PageStart, TwoLists};
use crate::container::work_item::describe;
use crate::exit::Failure;
use crate::model::messages::Messages;
use crate::output::{MORE, short, span, table};

/// A page of the outboxes, and the start of the next page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outbox {
    pub intents: Vec<Intent>,
    /// The messages between partitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<RetryingRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<PageStart>,
    pub now: Timestamp,
}

/// The messages of one turn to one instance.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Intent {
    pub source: String,
    pub target: String,
    pub messages: Vec<String>,
    pub created_at: Timestamp,
    pub attempts: u32,
    /// The error of the last failed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A row of one of the two lists.
enum OutboxRow {
    Intent(Intent),
    Message(RetryingRow),
}

/// The outboxes of a container.
struct Outboxes<'a>(&'a Holdings);

#[async_trait]
impl TwoLists for Outboxes<'_> {
    type Row = OutboxRow;

    async fn first(
        &self,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<OutboxRow>, Failure> {
        let Some(orchestrations) = &self.0.orchestrations else {
            return Ok(Page {
                rows: Vec::new(),
                next: None,
            });
        };
        let query = Query::<OutboxIntent>::across_partitions()
            .filter(OutboxIntent::CREATED_AT.lt(NEVER))
            .order_by(OutboxIntent::BY_CREATED);
        let run = orchestrations.container.query(query);
        let page = run.page(rows, from).await?;
        let intents = page.rows.into_iter().map(|stored| intent(stored.document));
        Ok(Page {
            rows: intents.map(OutboxRow::Intent).collect(),
            next: page.next,
        })
    }

    async fn second(
        &self,
        rows: usize,
        from: Option<&Continuation>,
    ) -> Result<Page<OutboxRow>, Failure> {
        let Some(messages) = &self.0.messages else {
            return Ok(Page {
                rows: Vec::new(),
                next: None,
            });
        };
        let page = retrying(&**messages, rows, from).await?;
        Ok(Page {
            rows: page.rows.into_iter().map(OutboxRow::Message).collect(),
            next: page.next,
        })
    }

    fn has_second(&self) -> bool {
        self.0.messages.is_some()
    }
}

/// Reads a page of the messages between partitions whose delivery is retried.
pub(crate) async fn retrying(
    messages: &dyn Messages,
    rows: usize,
    from: Option<&Continuation>,
) -> Result<Page<RetryingRow>, Failure> {
    let page = messages.retrying(Side::Outbox, rows, from).await?;
    Ok(Page {
        rows: page.rows.into_iter().map(RetryingRow::of).collect(),
        next: page.next,
    })
}

/// Reads a page of the outboxes.
///
/// # Errors
/// When the container has neither orchestrations nor messages, or a query fails.
pub(crate) async fn read(
    holdings: &Holdings,
    rows: usize,
    from: Option<PageStart>,
) -> Result<Outbox, Failure> {
    if holdings.orchestrations.is_none() && holdings.messages.is_none() {
        return Err(holdings.lacks("orchestrations and no messages between partitions"));
    }
    let page = Outboxes(holdings).page(rows, from).await?;
    let (mut intents, mut messages) = (Vec::new(), Vec::new());
    for row in page.rows {
        match row {
            OutboxRow::Intent(intent) => intents.push(intent),
            OutboxRow::Message(message) => messages.push(message),
        }
    }
    Ok(Outbox {
        intents,
        messages,
        next: page.next,
        now: holdings.now(),
    })
}

/// Describes each message of an intent.
pub(crate) fn described(intent: &OutboxIntent) -> Vec<String> {
    let items = intent.items.iter().map(|item| item.work_item.header());
    let more = intent.more.as_ref();
    let more = more.map(|more| format!("more messages, {} bytes in parts", more.bytes));
    let all = items
        .chain(intent.payload.as_deref())
        .map(|stored| describe(stored, |message| message));
    all.chain(more).collect()
}

fn intent(intent: OutboxIntent) -> Intent {
    Intent {
        messages: described(&intent),
        source: intent.instance_id,
        target: intent.target_instance_id,
        created_at: intent.created_at,
        attempts: intent.attempt_count,
        reason: intent.failure,
    }
}

impl fmt::Display for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.intents.is_empty() && self.messages.is_empty() {
            return writeln!(f, "no undelivered messages");
        }
        if !self.intents.is_empty() {
            f.write_str(&intent_table(&self.intents, self.now))?;
        }
        if !self.messages.is_empty() {
            if !self.intents.is_empty() {
                writeln!(f)?;
            }
            f.write_str(&message_table(&self.messages, self.now))?;
        }
        match &self.next {
            Some(_) => writeln!(f, "{MORE}"),
            None => Ok(()),
        }
    }
}

fn intent_table(intents: &[Intent], now: Timestamp) -> String {
    let rows = intents.iter().map(|intent| {
        let what = match &*intent.messages {
            [] => "nothing".to_owned(),
            [one] => short(one, 60),
            [first, rest @ ..] => format!("{} and {} more", short(first, 60), rest.len()),
        };
        vec![
            short(&intent.source, 60),
            short(&intent.target, 60),
            what,
            intent.attempts.to_string(),
            span(now.since(intent.created_at)),
            short(intent.reason.as_deref().unwrap_or_default(), 50),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    table(&["FROM", "TO", "WHAT", "ATTEMPTS", "AGE", "WHY"], &rows)
}
