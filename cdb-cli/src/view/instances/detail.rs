//! One instance: its state and the documents of its partition.

use std::fmt;

use cdb_model::Timestamp;
use cdb_provider::documents::{OperatorAction, Status};
use cdb_provider::observe::InstanceDetail;
use serde::Serialize;

use super::queued_activities::{ALIKE, Lines, due, fetched};
use super::waits::{Shown, are_alike};
use crate::container::Orchestrations;
use crate::exit::Failure;
use crate::model::messages::MessageName;
use crate::output::{counted, short, span};

/// The number of earlier executions that the text form lists.
const SHOWN_EXECUTIONS: usize = 5;

/// One instance.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Detail {
    #[serde(flatten)]
    pub of: InstanceDetail,
    /// Of a held instance, whether the code of this build replays it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<String>,
    /// The service's time of the read.
    pub now: Timestamp,
    /// Whether the text form shows inputs and outputs whole.
    #[serde(skip)]
    pub full: bool,
}

/// Reads an instance and its documents.
///
/// # Errors
/// Fails with a finding when the instance does not exist.
pub(crate) async fn read(orchestrations: &Orchestrations, id: &str) -> Result<Detail, Failure> {
    let found = orchestrations.provider.observe().detail(id).await?;
    let mut of = orchestrations.existing(id, found).await?;
    for outgoing in &mut of.outgoing {
        let key = outgoing.dead_letter.take();
        outgoing.dead_letter = key.map(|key| {
            let instance = id.to_owned();
            MessageName::Intent { instance, key }.to_string()
        });
    }
    Ok(Detail {
        now: of.now,
        of,
        replayed: None,
        full: false,
    })
}

/// Shows who changed an instance, and when.
struct Recorded<'a>(&'a OperatorAction);

impl fmt::Display for Recorded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = self.0;
        write!(f, "{} by {} at {}", action.what, action.by, action.at)
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state(f)?;
        for group in self.of.waits.chunk_by(are_alike) {
            match group {
                [first, rest @ ..] if rest.len() >= ALIKE => {
                    writeln!(f, "waits for: {}, and {} more", Shown(first), rest.len())?;
                }
                group => {
                    let mut group = group.iter();
                    group.try_for_each(|wait| writeln!(f, "waits for: {}", Shown(wait)))?;
                }
            }
        }
        for message in &self.of.messages {
            write!(
                f,
                "message: {}, {}",
                short(&message.what, 100),
                due(message.due_at, self.now)
            )?;
            fetched(f, message.attempts)?;
        }
        let (activities, now) = (&*self.of.activities, self.now);
        Lines { activities, now }.fmt(f)?;
        self.owned_documents(f)
    }
}

impl Detail {
    fn past_executions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for earlier in self.of.executions.iter().take(SHOWN_EXECUTIONS) {
            write!(
                f,
                "earlier execution {}: {} since {}",
                earlier.execution, earlier.status, earlier.started_at
            )?;
            match &earlier.rewound {
                Some(action) => writeln!(f, ", {}", Recorded(action))?,
                None => writeln!(f)?,
            }
        }
        match self.of.executions.len().saturating_sub(SHOWN_EXECUTIONS) {
            0 => Ok(()),
            more => writeln!(f, "and {more} earlier executions (--json lists all)"),
        }
    }

    fn owned_documents(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for outgoing in &self.of.outgoing {
            let state = match &outgoing.dead_letter {
                Some(name) => format!("dead letter {name}"),
                None => format!(
                    "undelivered for {}",
                    span(self.now.since(outgoing.created_at))
                ),
            };
            write!(
                f,
                "outgoing: {} to {}, {state}",
                counted(outgoing.messages as u64, "message"),
                short(&outgoing.target, 120)
            )?;
            fetched(f, outgoing.attempts)?;
        }
        for session in &self.of.sessions {
            writeln!(
                f,
                "session: {} of {}",
                short(&session.session, 60),
                short(&session.owner, 60)
            )?;
        }
        for (name, value) in &self.of.instance.attributes {
            let value = serde_json::to_string(value).unwrap_or_default();
            writeln!(f, "attribute: {} = {value}", short(name, 60))?;
        }
        for value in &self.of.values {
            writeln!(
                f,
                "value: {} = {}",
                short(&value.key, 60),
                short(&value.value, 100)
            )?;
        }
        self.past_executions(f)
    }

    /// Writes why the instance is held.
    fn held(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(held) = &self.of.instance.held else {
            return Ok(());
        };
        let event = held
            .event
            .map_or_else(String::new, |event| format!(" at event {event}"));
        let (cause, by, since) = (held.cause.as_str(), &held.by, held.since);
        writeln!(f, "held:          since {since}: {cause}{event}, by {by}")?;
        writeln!(f, "               {}", short(&held.reason, 400))?;
        match &self.replayed {
            Some(replayed) => writeln!(f, "               this build {}", short(replayed, 400)),
            None => Ok(()),
        }
    }

    fn state(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = &self.of.instance;
        writeln!(f, "instance:      {}", short(&row.id, 200))?;
        let version = row.version.as_deref().unwrap_or("-");
        writeln!(
            f,
            "orchestration: {} {version}",
            short(&row.orchestration, 80)
        )?;
        let (state, execution) = (&row.state, row.execution);
        writeln!(f, "status:        {state}, execution {execution}")?;
        if let Some(parent) = &row.parent {
            writeln!(f, "parent:        {}", short(parent, 200))?;
        }
        writeln!(f, "created:       {}", row.created_at)?;
        writeln!(f, "last turn:     {}", row.updated_at)?;
        if let Some(completed) = row.completed_at {
            writeln!(f, "completed:     {completed}")?;
        }
        if let Some(paused) = &row.paused {
            writeln!(f, "paused:        by {} at {}", paused.by, paused.at)?;
        }
        self.held(f)?;
        match self.of.locked_until {
            Some(until) => writeln!(f, "lock:          for {}", span(until.since(self.now)))?,
            None => writeln!(f, "lock:          none")?,
        }
        writeln!(f, "slot:          {}", self.of.slot)?;
        if let Some(charge) = row.request_units {
            writeln!(f, "charge:        {charge} RU, without the last commit")?;
        }
        if let Some(action) = &self.of.origin {
            writeln!(f, "origin:        {}", Recorded(action))?;
        }
        let output = self.of.output.as_ref().map(ToString::to_string);
        for (label, text) in [
            ("input:        ", &self.of.input),
            ("custom status:", &row.custom_status),
            (
                if row.status == Status::Failed {
                    "error:        "
                } else {
                    "output:       "
                },
                &output,
            ),
        ] {
            if let Some(text) = text {
                if self.full {
                    writeln!(f, "{label} {text}")?;
                } else {
                    writeln!(f, "{label} {}", short(text, 400))?;
                }
            }
        }
        Ok(())
    }
}
