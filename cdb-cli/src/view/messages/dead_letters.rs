//! Dead letters, as rows of a list and in detail.

use std::fmt;

use cdb_model::Timestamp;
use cdb_provider::coordination::message::Side;
use cdb_provider::coordination::messaging::DeadLetter;
use cdb_provider::coordination::retry::Attempt;
use cdb_provider::documents::OutboxIntent;
use serde::Serialize;

use super::outbox::described;
use crate::container::dead_letters::FoundDeadLetter;
use crate::container::paging::{PageStart, RowPage};
use crate::output::{MORE, short, span, table};

/// A page of dead letters, and the start of the next page.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadLetterList {
    pub dead_letters: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<PageStart>,
    pub now: Timestamp,
}

/// The component that dead-lettered a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Source {
    /// The outbox of an instance: a message to another instance could not be delivered.
    Instances,
    /// An outbox of messaging: the message could not be delivered.
    Outbox,
    /// An inbox of messaging: the message could not be received.
    Inbox,
}

/// A dead letter in a list.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub name: String,
    pub source: Source,
    pub from: String,
    pub to: String,
    pub what: String,
    pub reason: String,
    pub attempts: u32,
    pub given_up_at: Timestamp,
}

/// A dead letter in detail.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeadLetterDetail {
    #[serde(flatten)]
    pub row: Row,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
    /// The payload of the message, or a description of each message of an intent.
    pub contents: Vec<String>,
    /// The newest attempts.
    pub history: Vec<Attempt>,
}

impl Row {
    pub(crate) fn of(letter: &FoundDeadLetter) -> Self {
        let name = letter.name().to_string();
        match letter {
            FoundDeadLetter::Intent(stored) => Self {
                name,
                given_up_at: stored.timestamp,
                ..Self::of_intent(&stored.document)
            },
            FoundDeadLetter::Message(letter) => Self {
                name,
                ..Self::of_message(letter)
            },
        }
    }

    fn of_intent(intent: &OutboxIntent) -> Self {
        let messages = described(intent);
        let what = match &*messages {
            [] => "nothing".to_owned(),
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first} and {} more", rest.len()),
        };
        Self {
            name: String::new(),
            source: Source::Instances,
            from: intent.instance_id.clone(),
            to: intent.target_instance_id.clone(),
            what,
            reason: intent.failure.clone().unwrap_or_default(),
            attempts: intent.attempt_count,
            given_up_at: intent.created_at,
        }
    }

    fn of_message(letter: &DeadLetter) -> Self {
        Self {
            name: String::new(),
            source: match letter.side {
                Side::Outbox => Source::Outbox,
                Side::Inbox => Source::Inbox,
            },
            from: letter.from.to_string(),
            to: letter.to.to_string(),
            what: letter.message_type.clone(),
            reason: letter.reason.clone(),
            attempts: letter.attempts,
            given_up_at: letter.dead_lettered_at,
        }
    }
}

impl DeadLetterDetail {
    pub(crate) fn of(letter: &FoundDeadLetter) -> Self {
        let row = Row::of(letter);
        match letter {
            FoundDeadLetter::Intent(stored) => Self {
                row,
                sent_at: None,
                contents: described(&stored.document),
                history: Vec::new(),
            },
            FoundDeadLetter::Message(letter) => Self {
                row,
                sent_at: Some(letter.sent_at),
                contents: vec![letter.payload.clone()],
                history: letter.history.clone(),
            },
        }
    }
}

impl DeadLetterList {
    pub(crate) fn new(page: &RowPage<FoundDeadLetter>, now: Timestamp) -> Self {
        Self {
            dead_letters: page.rows.iter().map(Row::of).collect(),
            next: page.next.clone(),
            now,
        }
    }
}

/// Formats dead letters as a table. Names are not cut, because other commands take them as
/// arguments.
pub(crate) fn dead_letter_table(rows: &[Row], now: Timestamp) -> String {
    let cells = |row: &Row| {
        vec![
            row.name.clone(),
            short(&row.from, 40),
            short(&row.to, 40),
            short(&row.what, 40),
            short(&row.reason, 50),
            span(now.since(row.given_up_at)),
        ]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table(&["NAME", "FROM", "TO", "WHAT", "WHY", "AGE"], &rows)
}

impl fmt::Display for DeadLetterList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dead_letters.is_empty() {
            writeln!(f, "no dead letters")?;
        } else {
            f.write_str(&dead_letter_table(&self.dead_letters, self.now))?;
        }
        match &self.next {
            Some(_) => writeln!(f, "{MORE}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Instances => "outbox of an instance, not delivered",
            Self::Outbox => "outbox, not delivered",
            Self::Inbox => "inbox, not received",
        })
    }
}

impl fmt::Display for DeadLetterDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = &self.row;
        writeln!(f, "dead letter: {}", row.name)?;
        writeln!(f, "source:      {}", row.source)?;
        writeln!(f, "from:        {}", row.from)?;
        writeln!(f, "to:          {}", row.to)?;
        writeln!(f, "what:        {}", row.what)?;
        if let Some(sent) = self.sent_at {
            writeln!(f, "sent:        {sent}")?;
        }
        writeln!(f, "dead since:  {}", row.given_up_at)?;
        writeln!(f, "attempts:    {}", row.attempts)?;
        writeln!(f, "why:         {}", row.reason)?;
        for attempt in &self.history {
            writeln!(f, "attempt: {}, {}", attempt.at, attempt.reason)?;
        }
        for contents in &self.contents {
            writeln!(f, "contents: {contents}")?;
        }
        Ok(())
    }
}
