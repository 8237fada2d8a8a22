//! One instance: its state, and everything that waits in its partition.

use std::cmp::Reverse;
use std::fmt;

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use cdb_provider::documents::{
    Durable, Execution, Instance, KeyValue, KeyValueDelta, NEVER, OrchestratorItem, OutboxIntent,
    Session, Status, WorkerItem,
};
use futures::try_join;
use serde::Serialize;

use super::instances::Row;
use super::work_item::{describe, shown};
use crate::exit::Failure;
use crate::output::short;
use crate::time::{span, utc};

/// How many earlier executions a terminal is filled with.
const SHOWN_EXECUTIONS: usize = 5;

/// One instance.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail {
    #[serde(flatten)]
    pub row: Row,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_status: Option<String>,
    /// Until when a dispatcher works on it, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_until: Option<Timestamp>,
    pub slot: u8,
    /// Earlier executions, the latest first.
    pub executions: Vec<PastExecution>,
    pub messages: Vec<Message>,
    pub activities: Vec<Activity>,
    /// Messages to other instances that are on their way.
    pub outgoing: Vec<Outgoing>,
    pub values: Vec<KeyAndValue>,
    pub sessions: Vec<SessionLock>,
    /// When this was read, by the service's clock.
    pub now: Timestamp,
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
}

/// A message that waits for the instance.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Message {
    pub what: String,
    pub due_at: Timestamp,
    pub attempts: u32,
}

/// An activity that waits or runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Activity {
    pub what: String,
    pub event: u64,
    pub due_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_until: Option<Timestamp>,
    pub attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Messages to another instance.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outgoing {
    pub target: String,
    pub messages: usize,
    pub created_at: Timestamp,
    pub attempts: u32,
}

/// A value of the key-value store.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct KeyAndValue {
    pub key: String,
    pub value: String,
}

/// A session and its worker.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionLock {
    pub session: String,
    pub owner: String,
    pub locked_until: Timestamp,
}

/// Reads everything about an instance that is there.
pub(crate) async fn read(
    container: &ContainerClient<Durable>,
    instance: Instance,
) -> Result<Detail, Failure> {
    let id = instance.instance_id.clone();
    let id = &*id;
    let (messages, activities, executions, outgoing, sessions, values, changes) = try_join!(
        container
            .query(Query::<OrchestratorItem>::in_partition(id))
            .all(),
        container.query(Query::<WorkerItem>::in_partition(id)).all(),
        container.query(Query::<Execution>::in_partition(id)).all(),
        container
            .query(Query::<OutboxIntent>::in_partition(id))
            .all(),
        container.query(Query::<Session>::in_partition(id)).all(),
        container.query(Query::<KeyValue>::in_partition(id)).all(),
        container
            .query(Query::<KeyValueDelta>::in_partition(id))
            .all(),
    )?;
    let now = container.now();
    let attempts = |item: &str| instance.attempts.get(item).copied().unwrap_or_default();
    // A consumed message leaves a trace that is never due.
    let waiting = messages
        .iter()
        .filter(|message| message.document.visible_at < NEVER);
    let messages = waiting.map(|message| Message {
        what: describe(message.document.work_item.header()),
        due_at: message.document.due_at(),
        attempts: attempts(message.id.as_str()),
    });
    let mut messages: Vec<Message> = messages.collect();
    messages.sort_by_key(|message| message.due_at);
    Ok(Detail {
        slot: cdb_provider::documents::dispatch_slot(id),
        output: instance.output.as_ref().map(shown),
        custom_status: instance.custom_status.clone(),
        locked_until: locked_until(&instance, now),
        messages,
        activities: activities
            .into_iter()
            .map(|stored| activity(stored.document, now))
            .collect(),
        executions: earlier(executions.into_iter().map(|stored| stored.document)),
        outgoing: outgoing
            .into_iter()
            .map(|stored| on_its_way(stored.document))
            .collect(),
        values: merged(
            values.into_iter().map(|stored| stored.document),
            changes.into_iter().map(|stored| stored.document),
        ),
        sessions: sessions
            .into_iter()
            .map(|stored| bound(stored.document))
            .collect(),
        row: Row::of(instance),
        now,
    })
}

/// Until when somebody works on an instance, if somebody does.
pub(crate) fn locked_until(instance: &Instance, now: Timestamp) -> Option<Timestamp> {
    let until = instance.locked_until.filter(|until| *until > now);
    until.filter(|_| instance.lock_token.is_some())
}

fn activity(item: WorkerItem, now: Timestamp) -> Activity {
    Activity {
        what: describe(item.work_item.header()),
        event: item.activity_id,
        due_at: item.enqueued_at,
        locked_until: item.locked_until.filter(|until| *until > now),
        attempts: item.attempt_count,
        tag: item.tag,
        session: item.session_id,
    }
}

/// The latest first. Their ids are texts, by which the tenth comes before the second.
fn earlier(executions: impl Iterator<Item = Execution>) -> Vec<PastExecution> {
    let mut earlier: Vec<PastExecution> = executions
        .map(|execution| PastExecution {
            execution: execution.execution_id,
            status: execution.status.to_string(),
            started_at: execution.started_at,
            completed_at: execution.completed_at,
        })
        .collect();
    earlier.sort_by_key(|earlier| Reverse(earlier.execution));
    earlier
}

fn on_its_way(intent: OutboxIntent) -> Outgoing {
    Outgoing {
        target: intent.target_instance_id,
        messages: intent
            .items
            .len()
            .max(usize::from(intent.payload.is_some())),
        created_at: intent.created_at,
        attempts: intent.attempt_count,
    }
}

fn bound(session: Session) -> SessionLock {
    SessionLock {
        session: session.session_id,
        owner: session.owner_id,
        locked_until: session.locked_until,
    }
}

/// The store with the running execution's changes applied.
fn merged(
    values: impl Iterator<Item = KeyValue>,
    changes: impl Iterator<Item = KeyValueDelta>,
) -> Vec<KeyAndValue> {
    let mut store: std::collections::BTreeMap<String, String> =
        values.map(|value| (value.key, value.value)).collect();
    for change in changes {
        match change.value {
            Some(value) => store.insert(change.key, value),
            None => store.remove(&change.key),
        };
    }
    let pairs = store.into_iter();
    pairs
        .map(|(key, value)| KeyAndValue { key, value })
        .collect()
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state(f)?;
        for message in &self.messages {
            write!(
                f,
                "message: {}, {}",
                short(&message.what, 100),
                due(message.due_at, self.now)
            )?;
            fetched(f, message.attempts)?;
        }
        for activity in &self.activities {
            write!(
                f,
                "activity: {} #{}, ",
                short(&activity.what, 100),
                activity.event
            )?;
            match activity.locked_until {
                Some(until) => write!(
                    f,
                    "runs, locked for another {}",
                    span(until.since(self.now))
                )?,
                None => f.write_str(&due(activity.due_at, self.now))?,
            }
            fetched(f, activity.attempts)?;
        }
        self.belongings(f)
    }
}

impl Detail {
    fn earlier(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for earlier in self.executions.iter().take(SHOWN_EXECUTIONS) {
            writeln!(
                f,
                "earlier execution {}: {} since {}",
                earlier.execution,
                earlier.status,
                utc(earlier.started_at)
            )?;
        }
        match self.executions.len().saturating_sub(SHOWN_EXECUTIONS) {
            0 => Ok(()),
            more => writeln!(f, "and {more} before them (--json shows all)"),
        }
    }

    fn belongings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for outgoing in &self.outgoing {
            let age = span(self.now.since(outgoing.created_at));
            write!(
                f,
                "outgoing: {} message(s) to {}, for {age}",
                outgoing.messages,
                short(&outgoing.target, 120)
            )?;
            fetched(f, outgoing.attempts)?;
        }
        for session in &self.sessions {
            writeln!(
                f,
                "session: {} at {}",
                short(&session.session, 60),
                short(&session.owner, 60)
            )?;
        }
        for value in &self.values {
            writeln!(
                f,
                "value: {} = {}",
                short(&value.key, 60),
                short(&value.value, 100)
            )?;
        }
        self.earlier(f)
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
        writeln!(
            f,
            "status:        {}, execution {}",
            row.status, row.execution
        )?;
        if let Some(parent) = &row.parent {
            writeln!(f, "started by:    {}", short(parent, 200))?;
        }
        writeln!(f, "created:       {}", utc(row.created_at))?;
        writeln!(f, "last turn:     {}", utc(row.updated_at))?;
        if let Some(completed) = row.completed_at {
            writeln!(f, "completed:     {}", utc(completed))?;
        }
        match self.locked_until {
            Some(until) => writeln!(
                f,
                "lock:          for another {}",
                span(until.since(self.now))
            )?,
            None => writeln!(f, "lock:          none")?,
        }
        writeln!(f, "slot:          {}", self.slot)?;
        for (label, text) in [
            ("custom status:", &self.custom_status),
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
                writeln!(f, "{label} {}", short(text, 400))?;
            }
        }
        Ok(())
    }
}

fn due(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        format!("due in {}", span(at.since(now)))
    } else {
        format!("waits for {}", span(now.since(at)))
    }
}

fn fetched(f: &mut fmt::Formatter<'_>, attempts: u32) -> fmt::Result {
    match attempts {
        0 => writeln!(f),
        1 => writeln!(f, ", fetched once"),
        attempts => writeln!(f, ", fetched {attempts} times"),
    }
}
