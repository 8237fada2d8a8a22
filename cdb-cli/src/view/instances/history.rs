//! The events of an execution, and the bars of its timeline.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use cdb_model::Timestamp;
use cdb_provider::observe::Span;
use duroxide::{ErrorDetails, Event, build_child_instance_id};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::container::Orchestrations;
use crate::exit::Failure;
use crate::output::{short, table};

/// An execution's events.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct History {
    pub instance: String,
    pub execution: u64,
    /// The number of events of the execution.
    pub total: usize,
    pub events: Vec<EventRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Span>,
    /// Whether the text form shows inputs, results and errors whole.
    #[serde(skip)]
    pub full: bool,
}

/// One event.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EventRow {
    pub id: u64,
    pub at: Timestamp,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The event that this event completes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// The input, result or error as text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Whether the event was raised before the orchestration waited for it, so that it was dropped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
    /// The members of the event as duroxide stores them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Value>,
}

/// An event in its stored form, for all kinds of events.
#[derive(Deserialize)]
struct RawEvent {
    event_id: u64,
    source_event_id: Option<u64>,
    timestamp_ms: u64,
    r#type: String,
    name: Option<String>,
    instance: Option<String>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// Members that every event has and that are not shown.
const COMMON: [&str; 3] = ["instance_id", "execution_id", "duroxide_version"];

/// Reads the events at the positions `window` of an execution, by default of the newest one.
/// Computes the bars of the timeline `with_bars`.
pub(crate) async fn read(
    orchestrations: &Orchestrations,
    instance: &str,
    execution: Option<u64>,
    window: Range<usize>,
    with_bars: bool,
) -> Result<History, Failure> {
    let newest = orchestrations.instance(instance).await?.execution;
    let execution = execution.unwrap_or(newest);
    if execution == 0 || execution > newest {
        return Err(Failure::finding(format!(
            "instance `{instance}` has no execution {execution}; its newest execution is {newest}"
        )));
    }
    let found = orchestrations.provider.observe();
    let found = found.history(instance, execution).await?;
    let raw = found.events.iter().map(raw_event);
    let raw = raw.collect::<Result<Vec<_>, _>>()?;
    let rows = raw.into_iter().take(window.end).skip(window.start);
    let rows = rows.map(event_row).map(|row| EventRow {
        dropped: found.dropped.binary_search(&row.id).is_ok(),
        ..row
    });
    Ok(History {
        instance: instance.to_owned(),
        execution,
        total: found.events.len(),
        events: rows.collect(),
        bars: if with_bars { found.spans } else { Vec::new() },
        full: false,
    })
}

impl History {
    /// Removes the `data` that the page does not show: all but the id of a started instance.
    #[cfg(feature = "dashboard")]
    pub(crate) fn without_data(mut self) -> Self {
        for event in &mut self.events {
            event.data.retain(|name, _| name == "instance");
        }
        self
    }
}

fn raw_event(event: &Event) -> Result<RawEvent, Failure> {
    let raw = serde_json::to_value(event).and_then(serde_json::from_value::<RawEvent>);
    let mut raw = raw.map_err(|error| {
        Failure::service(format!("event {} cannot be read: {error}", event.event_id))
    })?;
    raw.rest
        .retain(|name, value| !COMMON.contains(&&**name) && !value.is_null());
    // duroxide stores a generated child id without the prefix of the parent's id.
    raw.instance = raw
        .instance
        .map(|child| build_child_instance_id(&event.instance_id, &child));
    Ok(raw)
}

fn event_row(event: RawEvent) -> EventRow {
    let instance = event.instance.map(Value::String);
    let mut data = event.rest;
    let members = data.iter().map(|(name, value)| member_text(name, value));
    let members = instance
        .iter()
        .map(|id| member_text("instance", id))
        .chain(members);
    let detail = members.collect::<Vec<_>>().join(", ");
    data.extend(instance.map(|id| ("instance".to_owned(), id)));
    EventRow {
        id: event.event_id,
        at: Timestamp::from_millis(event.timestamp_ms),
        detail,
        data,
        dropped: false,
        kind: event.r#type,
        name: event.name,
        of: event.source_event_id,
    }
}

/// Formats a member of an event: an error as its message, a time in UTC.
fn member_text(name: &str, value: &Value) -> String {
    let error = || ErrorDetails::deserialize(value).map(|error| error.display_message());
    match (name, value) {
        ("details", _) => error().map_or_else(
            |_| format!("details: {value}"),
            |error| format!("error: {error}"),
        ),
        ("fire_at_ms", Value::Number(at)) => match at.as_u64() {
            Some(at) => format!("fires at: {}", Timestamp::from_millis(at)),
            None => format!("fire_at_ms: {at}"),
        },
        (_, Value::String(text)) => format!("{name}: {text}"),
        _ => format!("{name}: {value}"),
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}, execution {}: {} events",
            short(&self.instance, 200),
            self.execution,
            self.total
        )?;
        let rows = self.events.iter().map(|event| event.cells(self.full));
        let rows: Vec<Vec<String>> = rows.collect();
        f.write_str(&table(&["EVENT", "AT", "WHAT", "WITH"], &rows))
    }
}

impl EventRow {
    fn cells(&self, full: bool) -> Vec<String> {
        let of = self.of.map(|of| format!(" of #{of}")).unwrap_or_default();
        let name = self.name.as_deref().unwrap_or_default();
        let dropped = if self.dropped { " (dropped)" } else { "" };
        let what = format!("{}{of} {}{dropped}", self.kind, short(name, 60));
        let detail = if full {
            self.detail.clone()
        } else {
            short(&self.detail, 120)
        };
        vec![
            format!("#{}", self.id),
            self.at.to_string(),
            what.trim_end().to_owned(),
            detail,
        ]
    }
}

impl fmt::Display for EventRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cells(false).join("  ").trim_end())
    }
}
