//! Failed messages as a table, and one with its contents.

use std::fmt;

use cdb_model::Timestamp;

use crate::model::messages::{MessageDetail, MessagePage, MessageRow, Source, State, Step};
use crate::output::{MORE, short, span, table};

/// Formats the time until an attempt: `in 12 s`, `now`.
pub(super) fn next_attempt(at: Timestamp, now: Timestamp) -> String {
    if at <= now {
        return "now".to_owned();
    }
    format!("in {}", span(at.since(now)))
}

/// Formats messages as a table. Names are not cut, because other commands take them as arguments.
pub(crate) fn message_table(rows: &[MessageRow], now: Timestamp) -> String {
    let cells = |row: &MessageRow| {
        vec![
            row.name.to_string(),
            short(row.from.as_deref().unwrap_or_default(), 40),
            short(&row.to, 40),
            short(&row.what, 40),
            row.attempts.to_string(),
            short(&row.reason, 60),
            state(row, now),
        ]
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    table(
        &["NAME", "FROM", "TO", "WHAT", "ATTEMPTS", "WHY", "STATE"],
        &rows,
    )
}

/// Describes a state: `dead for 3 d`, `retried in 12 s`.
fn state(row: &MessageRow, now: Timestamp) -> String {
    match (row.dead_since, row.next_attempt_at, row.sent_at) {
        (Some(since), ..) => format!("dead for {}", span(now.since(since))),
        (None, Some(next), _) => format!("retried {}", next_attempt(next, now)),
        (None, None, Some(sent)) => format!("undelivered for {}", span(now.since(sent))),
        (None, None, None) => String::new(),
    }
}

impl fmt::Display for MessagePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.messages.is_empty() {
            writeln!(f, "no message is dead or retried")?;
        } else {
            f.write_str(&message_table(&self.messages, self.now))?;
        }
        match &self.next {
            Some(_) => writeln!(f, "{MORE}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for MessageDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = &self.row;
        let state = match row.state {
            State::Dead => "dead",
            State::Retrying => "retrying",
        };
        let failed = match row.failed {
            Step::Delivery => "not delivered",
            Step::Handling => "not handled",
        };
        let source = match row.source {
            Source::Instances => "instances",
            Source::Partitions => "partitions",
            Source::Work => "ordered work",
        };
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        let blocks = row
            .blocks_stream
            .then(|| "the later messages of its stream".to_owned());
        let facts = [
            ("message", Some(row.name.to_string())),
            ("state", Some(format!("{state}, {failed}"))),
            ("source", Some(source.to_owned())),
            ("from", row.from.clone()),
            ("to", Some(row.to.clone())),
            ("what", Some(row.what.clone())),
            ("sent", time(row.sent_at)),
            ("dead since", time(row.dead_since)),
            ("next attempt", time(row.next_attempt_at)),
            ("holds up", blocks),
            ("attempts", Some(row.attempts.to_string())),
            ("why", Some(row.reason.clone())),
        ];
        for (name, value) in facts {
            if let Some(value) = value {
                writeln!(f, "{:<14}{value}", format!("{name}:"))?;
            }
        }
        for attempt in &self.history {
            writeln!(f, "attempt: {}, {}", attempt.at, attempt.reason)?;
        }
        for contents in &self.contents {
            writeln!(f, "contents: {contents}")?;
        }
        Ok(())
    }
}
