//! One instance: its state and the documents of its partition.

use std::cmp::Reverse;
use std::fmt;

use cdb_client::ContainerClient;
use cdb_model::query::Queryable;
use cdb_model::query::statement::Fetch;
use cdb_model::{Query, Stored, Timestamp};
use cdb_provider::documents::{
    Durable, Execution, Instance, KeyValue, KeyValueDelta, NEVER, OperatorAction, OrchestratorItem,
    OutboxIntent, Session, Status, WorkerItem,
};
use futures::try_join;
use serde::Serialize;

use super::Row;
use super::queued_activities::{self, ALIKE, Activity, Lines, due, fetched};
use super::values::{KeyAndValue, merged};
use super::waits::{self, Wait};
use crate::container::Orchestrations;
use crate::container::lock::locked_until;
use crate::container::work_item::shown;
use crate::exit::Failure;
use crate::model::messages::MessageName;
use crate::output::{counted, short, span};

/// The number of earlier executions that the text form lists.
const SHOWN_EXECUTIONS: usize = 5;

/// One instance.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail {
    #[serde(flatten)]
    pub row: Row,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The end of the dispatcher's lock, while the instance is locked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_until: Option<Timestamp>,
    pub slot: u8,
    /// The operator's change that created the instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<OperatorAction>,
    /// What the instance waits for, in the order of its history.
    pub waits: Vec<Wait>,
    /// Earlier executions, newest first.
    pub executions: Vec<PastExecution>,
    pub messages: Vec<Message>,
    pub activities: Vec<Activity>,
    /// Undelivered messages to other instances.
    pub outgoing: Vec<Outgoing>,
    pub values: Vec<KeyAndValue>,
    pub sessions: Vec<SessionLock>,
    /// Of a held instance, whether the code of this build replays it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed: Option<String>,
    /// The service's time of the read.
    pub now: Timestamp,
    /// Whether the text form shows inputs and outputs whole.
    #[serde(skip)]
    pub full: bool,
}

/// An execution that a later one has replaced.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PastExecution {
    pub execution: u64,
    pub status: String,
    pub started_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// The operator's change that replaced the execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rewound: Option<OperatorAction>,
}

/// A queued message for the instance.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message {
    pub what: String,
    pub due_at: Timestamp,
    pub attempts: u32,
}

/// Messages to another instance.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outgoing {
    pub target: String,
    pub messages: usize,
    pub created_at: Timestamp,
    pub attempts: u32,
    /// The id of the dead letter, once delivery has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<String>,
}

/// A session and its worker.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionLock {
    pub session: String,
    pub owner: String,
    pub locked_until: Timestamp,
}

/// Reads the documents of an instance.
pub(crate) async fn read(
    orchestrations: &Orchestrations,
    instance: Instance,
) -> Result<Detail, Failure> {
    let (id, container) = (&*instance.instance_id, &orchestrations.container);
    let awaited = waits::read(orchestrations, &instance).await?;
    let messages = container.query(Query::<OrchestratorItem>::in_partition(id));
    let (messages, activities, executions, outgoing, sessions, values, changes) = try_join!(
        messages.all(),
        all::<WorkerItem>(container, id),
        all::<Execution>(container, id),
        all::<OutboxIntent>(container, id),
        all::<Session>(container, id),
        all::<KeyValue>(container, id),
        all::<KeyValueDelta>(container, id),
    )?;
    let now = container.now();
    Ok(Detail {
        slot: cdb_provider::documents::dispatch_slot(id),
        input: awaited.input,
        waits: awaited.waits,
        output: instance.output.as_ref().map(shown),
        locked_until: locked_until(&instance, now),
        origin: instance
            .origin
            .as_ref()
            .or(instance.forked.as_ref())
            .cloned(),
        messages: queued(orchestrations, &messages, &instance),
        activities: queued_activities::read(orchestrations, activities, now).await?,
        executions: past_executions(executions),
        outgoing: outgoing.into_iter().map(undelivered).collect(),
        values: merged(orchestrations, values, changes),
        sessions: sessions.into_iter().map(session_lock).collect(),
        row: Row::of(instance),
        now,
        replayed: None,
        full: false,
    })
}

/// Reads the documents of a type in the partition of an instance.
async fn all<T: Queryable>(
    container: &ContainerClient<Durable>,
    id: &str,
) -> Result<Vec<T>, cdb_client::Error>
where
    Query<T>: Fetch<Durable, Row = Stored<T>>,
{
    let read = container.query(Query::<T>::in_partition(id)).all();
    // Seven of these futures are joined.
    let stored = Box::pin(read).await?;
    Ok(stored.into_iter().map(|stored| stored.document).collect())
}

/// Returns the queued messages, oldest first. A consumed message is stored with a due time of
/// `NEVER`.
fn queued(
    orchestrations: &Orchestrations,
    messages: &[Stored<OrchestratorItem>],
    instance: &Instance,
) -> Vec<Message> {
    let mut queued: Vec<Message> = messages
        .iter()
        .filter(|message| message.document.visible_at < NEVER)
        .map(|message| Message {
            what: orchestrations.describe(message.document.work_item.header()),
            due_at: message.document.due_at(),
            attempts: (instance.attempts.get(message.id.as_str()))
                .copied()
                .unwrap_or_default(),
        })
        .collect();
    queued.sort_by_key(|message| message.due_at);
    queued
}

/// Sorts executions, newest first. The service sorts them by id, a text, in which 10 comes before
/// 2.
fn past_executions(executions: Vec<Execution>) -> Vec<PastExecution> {
    let mut past: Vec<PastExecution> = executions
        .into_iter()
        .map(|execution| PastExecution {
            execution: execution.execution_id,
            status: execution.status.to_string(),
            started_at: execution.started_at,
            completed_at: execution.completed_at,
            rewound: execution.rewound,
        })
        .collect();
    past.sort_by_key(|past| Reverse(past.execution));
    past
}

fn undelivered(intent: OutboxIntent) -> Outgoing {
    let dead_letter = MessageName::Intent {
        instance: intent.instance_id,
        key: intent.idempotency_key,
    };
    Outgoing {
        // The creation time of a dead letter is `NEVER`.
        dead_letter: (intent.created_at >= NEVER).then(|| dead_letter.to_string()),
        target: intent.target_instance_id,
        messages: intent
            .items
            .len()
            .max(usize::from(intent.payload.is_some())),
        created_at: intent.created_at,
        attempts: intent.attempt_count,
    }
}

fn session_lock(session: Session) -> SessionLock {
    SessionLock {
        session: session.session_id,
        owner: session.owner_id,
        locked_until: session.locked_until,
    }
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
        for group in self.waits.chunk_by(Wait::is_like) {
            match group {
                [first, rest @ ..] if rest.len() >= ALIKE => {
                    writeln!(f, "waits for: {first}, and {} more", rest.len())?;
                }
                group => {
                    let mut group = group.iter();
                    group.try_for_each(|wait| writeln!(f, "waits for: {wait}"))?;
                }
            }
        }
        for message in &self.messages {
            write!(
                f,
                "message: {}, {}",
                short(&message.what, 100),
                due(message.due_at, self.now)
            )?;
            fetched(f, message.attempts)?;
        }
        let (activities, now) = (&*self.activities, self.now);
        Lines { activities, now }.fmt(f)?;
        self.owned_documents(f)
    }
}

impl Detail {
    fn past_executions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for earlier in self.executions.iter().take(SHOWN_EXECUTIONS) {
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
        match self.executions.len().saturating_sub(SHOWN_EXECUTIONS) {
            0 => Ok(()),
            more => writeln!(f, "and {more} earlier executions (--json lists all)"),
        }
    }

    fn owned_documents(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for outgoing in &self.outgoing {
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
        for session in &self.sessions {
            writeln!(
                f,
                "session: {} of {}",
                short(&session.session, 60),
                short(&session.owner, 60)
            )?;
        }
        for (name, value) in &self.row.attributes {
            let value = serde_json::to_string(value).unwrap_or_default();
            writeln!(f, "attribute: {} = {value}", short(name, 60))?;
        }
        for value in &self.values {
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
        let Some(held) = &self.row.held else {
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
        let row = &self.row;
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
        match self.locked_until {
            Some(until) => writeln!(f, "lock:          for {}", span(until.since(self.now)))?,
            None => writeln!(f, "lock:          none")?,
        }
        writeln!(f, "slot:          {}", self.slot)?;
        if let Some(charge) = row.request_units {
            writeln!(f, "charge:        {charge} RU, without the last commit")?;
        }
        if let Some(action) = &self.origin {
            writeln!(f, "origin:        {}", Recorded(action))?;
        }
        for (label, text) in [
            ("input:        ", &self.input),
            ("custom status:", &row.custom_status),
            (
                if row.status == Status::Failed {
                    "error:        "
                } else {
                    "output:       "
                },
                &self.output,
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
