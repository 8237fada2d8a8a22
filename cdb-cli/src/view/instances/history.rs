//! The events of an execution, and the bars of its timeline.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use cdb_provider::documents::{Durable, HistorySegment, dropped_events};
use duroxide::providers::ProviderAdmin;
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
    pub bars: Vec<Bar>,
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

/// A bar of the timeline.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bar {
    pub lane: Lane,
    pub name: String,
    pub from: Timestamp,
    /// `None` while the activity, timer or sub-orchestration is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    pub failed: bool,
    /// Whether the orchestration stopped waiting, for example because a timer fired first.
    pub cancelled: bool,
    /// The id of the first event.
    pub event: u64,
    /// The instance id of a sub-orchestration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

/// The kind of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Lane {
    Turn,
    Activity,
    Timer,
    SubOrchestration,
    Event,
}

/// An event in its stored form, for all kinds of events.
#[derive(Deserialize)]
pub(super) struct RawEvent {
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
    let newest = orchestrations
        .instance(instance)
        .await?
        .current_execution_id;
    let execution = execution.unwrap_or(newest);
    if execution == 0 || execution > newest {
        return Err(Failure::finding(format!(
            "instance `{instance}` has no execution {execution}; its newest execution is {newest}"
        )));
    }
    let events = orchestrations
        .provider
        .read_history_with_execution_id(instance, execution)
        .await?;
    let raw = events
        .iter()
        .map(raw_event)
        .collect::<Result<Vec<_>, _>>()?;
    let bars = if with_bars {
        let turns = turns(&orchestrations.container, instance, execution).await?;
        bars(&raw, &turns)
    } else {
        Vec::new()
    };
    let dropped = dropped_events(&events);
    let rows = raw.into_iter().take(window.end).skip(window.start);
    let rows = rows.map(event_row).map(|row| EventRow {
        dropped: dropped.binary_search(&row.id).is_ok(),
        ..row
    });
    Ok(History {
        instance: instance.to_owned(),
        execution,
        total: events.len(),
        events: rows.collect(),
        bars,
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

pub(super) fn raw_event(event: &Event) -> Result<RawEvent, Failure> {
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

/// Returns the id of the first event of each turn of an execution, ascending. A turn is stored as
/// one document.
async fn turns(
    container: &ContainerClient<Durable>,
    instance: &str,
    execution: u64,
) -> Result<Vec<u64>, Failure> {
    let segments = Query::<HistorySegment>::in_partition(instance)
        .filter(HistorySegment::EXECUTION_ID.eq(execution))
        .values(HistorySegment::EVENT_ID);
    let mut first = container.query(segments).all().await?;
    first.sort_unstable();
    Ok(first)
}

pub(super) fn bars(events: &[RawEvent], turns: &[u64]) -> Vec<Bar> {
    let open = |event: &RawEvent| lane(&event.r#type).map(|lane| bar(event, lane));
    let mut bars: Vec<Bar> = events.iter().filter_map(open).collect();
    for event in events {
        let Some(source) = event.source_event_id else {
            continue;
        };
        let completed = bars
            .iter_mut()
            .find(|bar| bar.event == source && bar.to.is_none());
        if let Some(bar) = completed {
            bar.to = Some(Timestamp::from_millis(event.timestamp_ms));
            bar.failed = event.r#type.ends_with("Failed");
            bar.cancelled = event.r#type.contains("Cancel");
        }
    }
    match_raised(events, &mut bars);
    let mut all: Vec<Bar> = turns
        .iter()
        .enumerate()
        .filter_map(|(number, first)| turn(events, turns, number, *first))
        .collect();
    all.append(&mut bars);
    all
}

/// Returns the lane of an event that opens a bar.
fn lane(kind: &str) -> Option<Lane> {
    match kind {
        "ActivityScheduled" => Some(Lane::Activity),
        "TimerCreated" => Some(Lane::Timer),
        "SubOrchestrationScheduled" => Some(Lane::SubOrchestration),
        "ExternalSubscribed" | "ExternalSubscribedPersistent" => Some(Lane::Event),
        _ => None,
    }
}

fn bar(event: &RawEvent, lane: Lane) -> Bar {
    Bar {
        lane,
        name: event.name.clone().unwrap_or_else(|| "timer".to_owned()),
        from: Timestamp::from_millis(event.timestamp_ms),
        to: None,
        failed: false,
        cancelled: false,
        event: event.event_id,
        instance: event.instance.clone(),
    }
}

/// Closes the bars of received events. An event has no subscription id: it belongs to the first
/// wait of its name that has none. A queued event may be older than the wait, and is kept until a
/// wait takes it; any other event is dropped if nothing waits for it.
fn match_raised(events: &[RawEvent], bars: &mut [Bar]) {
    let kinds = events.iter().map(|event| (event.event_id, &*event.r#type));
    let kinds: BTreeMap<u64, &str> = kinds.collect();
    let ends = events.iter();
    let ends = ends.filter_map(|event| Some((event.source_event_id?, event.event_id)));
    let ends: BTreeMap<u64, u64> = ends.collect();
    let mut received = BTreeSet::new();
    for event in events {
        let is_queued = match &*event.r#type {
            "ExternalEvent" => false,
            "ExternalEventPersistent" => true,
            _ => continue,
        };
        let waits = bars.iter_mut().find(|bar| {
            let is_queue = kinds.get(&bar.event) == Some(&"ExternalSubscribedPersistent");
            let is_open = if is_queued {
                !bar.cancelled
            } else {
                let end = ends.get(&bar.event).copied();
                bar.event < event.event_id && end.is_none_or(|end| end > event.event_id)
            };
            bar.lane == Lane::Event
                && is_queue == is_queued
                && is_open
                && Some(&bar.name) == event.name.as_ref()
                && !received.contains(&bar.event)
        });
        if let Some(bar) = waits {
            received.insert(bar.event);
            let at = Timestamp::from_millis(event.timestamp_ms).max(bar.from);
            bar.to.get_or_insert(at);
        }
    }
}

/// Returns the bar of a turn, from its first event to its last.
fn turn(events: &[RawEvent], turns: &[u64], number: usize, first: u64) -> Option<Bar> {
    let next = turns.get(number + 1).copied().unwrap_or(u64::MAX);
    let mut of_turn = events
        .iter()
        .filter(|event| event.event_id >= first && event.event_id < next);
    let begin = of_turn.next()?.timestamp_ms;
    let end = of_turn
        .next_back()
        .map_or(begin, |event| event.timestamp_ms);
    Some(Bar {
        lane: Lane::Turn,
        name: format!("turn {}", number + 1),
        from: Timestamp::from_millis(begin.min(end)),
        to: Some(Timestamp::from_millis(end.max(begin))),
        failed: false,
        cancelled: false,
        event: first,
        instance: None,
    })
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
