//! Undelivered messages between instances, oldest first, without dead letters.

use std::fmt;

use cdb_client::{ContainerClient, Continuation};
use cdb_model::{Query, Timestamp};
use cdb_provider::documents::{Durable, NEVER, OutboxIntent};
use serde::Serialize;

use super::work_item::describe;
use crate::exit::Failure;
use crate::output::{short, table};
use crate::time::span;

/// A page of intents, and the start of the next page.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outbox {
    pub intents: Vec<Intent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Continuation>,
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
}

/// Reads a page of the outbox.
pub(crate) async fn read(
    container: &ContainerClient<Durable>,
    rows: usize,
    from: Option<&Continuation>,
) -> Result<Outbox, Failure> {
    let query = Query::<OutboxIntent>::across_partitions()
        .filter(OutboxIntent::CREATED_AT.lt(NEVER))
        .order_by(OutboxIntent::BY_CREATED);
    let page = container.query(query).page(rows, from).await?;
    let intents = page.rows.into_iter().map(|stored| intent(stored.document));
    Ok(Outbox {
        intents: intents.collect(),
        next: page.next,
        now: container.now(),
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
    }
}

impl fmt::Display for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.intents.is_empty() {
            return writeln!(f, "no undelivered messages");
        }
        let rows = self.intents.iter().map(|intent| {
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
                span(self.now.since(intent.created_at)),
            ]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        f.write_str(&table(&["FROM", "TO", "WHAT", "ATTEMPTS", "AGE"], &rows))?;
        match &self.next {
            // The position is long, so only JSON shows it.
            Some(_) => writeln!(
                f,
                "more follow; --limit lists up to 1000, --json shows the next page's --from"
            ),
            None => Ok(()),
        }
    }
}
