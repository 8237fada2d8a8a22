//! The events of an execution, and what lasted how long between them.

use std::collections::BTreeMap;
use std::fmt;

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use cdb_provider::documents::{Durable, HistorySegment};
use duroxide::providers::ProviderAdmin;
use duroxide::{ErrorDetails, Event, build_child_instance_id};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::exit::Failure;
use crate::orchestrations::Orchestrations;
use crate::output::{short, table};
use crate::time::utc;

/// An execution's events.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct History {
    pub instance: String,
    pub execution: u64,
    /// How many events the execution has.
    pub total: usize,
    pub events: Vec<EventRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Bar>,
}

/// One event.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct EventRow {
    pub id: u64,
    pub at: Timestamp,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The event that this one ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// What it carries, for people: input, result, error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The same for programs, as duroxide writes it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, Value>,
}

/// Something that lasted.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bar {
    pub lane: Lane,
    pub name: String,
    pub from: Timestamp,
    /// Nothing while it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    pub failed: bool,
    /// The event that began it.
    pub event: u64,
    /// The instance that a sub-orchestration is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
}

/// What kind of thing lasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Lane {
    Turn,
    Activity,
    Timer,
    SubOrchestration,
    Event,
}

/// An event as it is written, whichever its kind.
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

/// What stands beside every event and says nothing about this one.
const COMMON: [&str; 3] = ["instance_id", "execution_id", "duroxide_version"];

/// The events `skip..skip + most` of an execution, the newest one unless another is named, and its bars when wanted.
pub(crate) async fn read(
    orchestrations: &Orchestrations,
    instance: &str,
    execution: Option<u64>,
    (skip, most): (usize, usize),
    with_bars: bool,
) -> Result<History, Failure> {
    let newest = orchestrations
        .instance(instance)
        .await?
        .current_execution_id;
    let execution = execution.unwrap_or(newest);
    if execution == 0 || execution > newest {
        return Err(Failure::finding(format!(
            "`{instance}` has no execution {execution}; the newest one is {newest}"
        )));
    }
    let events = orchestrations
        .provider
        .read_history_with_execution_id(instance, execution)
        .await?;
    let written = events.iter().map(written).collect::<Result<Vec<_>, _>>()?;
    let bars = if with_bars {
        let turns = turns(&orchestrations.container, instance, execution).await?;
        bars(&written, &turns)
    } else {
        Vec::new()
    };
    let lines = written.into_iter().skip(skip).take(most);
    Ok(History {
        instance: instance.to_owned(),
        execution,
        total: events.len(),
        events: lines.map(line).collect(),
        bars,
    })
}

impl History {
    /// Without what is there for programs, which would send every input twice.
    #[cfg(feature = "dashboard")]
    pub(crate) fn for_people(mut self) -> Self {
        for line in &mut self.events {
            line.data.clear();
        }
        self
    }
}

fn written(event: &Event) -> Result<RawEvent, Failure> {
    let shown = serde_json::to_value(event).and_then(serde_json::from_value::<RawEvent>);
    let mut written =
        shown.map_err(|error| Failure::service(format!("an event cannot be shown: {error}")))?;
    written
        .rest
        .retain(|name, value| !COMMON.contains(&&**name) && !value.is_null());
    // An id that duroxide has made up is stored without the parent's, which is a part of it.
    written.instance = written
        .instance
        .map(|child| build_child_instance_id(&event.instance_id, &child));
    Ok(written)
}

fn line(event: RawEvent) -> EventRow {
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
        kind: event.r#type,
        name: event.name,
        of: event.source_event_id,
    }
}

/// A member of an event for people: an error in its own words, a time as a time.
fn member_text(name: &str, value: &Value) -> String {
    let error = || ErrorDetails::deserialize(value).map(|error| error.display_message());
    match (name, value) {
        ("details", _) => error().map_or_else(
            |_| format!("details: {value}"),
            |error| format!("error: {error}"),
        ),
        ("fire_at_ms", Value::Number(at)) => match at.as_u64() {
            Some(at) => format!("fires at: {}", utc(Timestamp::from_millis(at))),
            None => format!("fire_at_ms: {at}"),
        },
        (_, Value::String(text)) => format!("{name}: {text}"),
        _ => format!("{name}: {value}"),
    }
}

/// The first events of the turns of an execution, ascending: each turn's events are one document.
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

fn bars(events: &[RawEvent], turns: &[u64]) -> Vec<Bar> {
    let begun = |event: &RawEvent| lane(&event.r#type).map(|lane| bar(event, lane));
    let mut bars: Vec<Bar> = events.iter().filter_map(begun).collect();
    for event in events {
        let Some(source) = event.source_event_id else {
            continue;
        };
        let ended = bars
            .iter_mut()
            .find(|bar| bar.event == source && bar.to.is_none());
        if let Some(bar) = ended {
            bar.to = Some(Timestamp::from_millis(event.timestamp_ms));
            bar.failed = event.r#type.ends_with("Failed");
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

/// What begins something that lasts.
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
        event: event.event_id,
        instance: event.instance.clone(),
    }
}

/// External events name no subscription: the first one of a name ends the first wait for it.
fn match_raised(events: &[RawEvent], bars: &mut [Bar]) {
    for event in events
        .iter()
        .filter(|event| event.r#type.starts_with("ExternalEvent"))
    {
        let waits = bars.iter_mut().find(|bar| {
            bar.lane == Lane::Event
                && bar.to.is_none()
                && Some(&bar.name) == event.name.as_ref()
                && bar.event < event.event_id
        });
        if let Some(bar) = waits {
            bar.to = Some(Timestamp::from_millis(event.timestamp_ms));
        }
    }
}

/// A turn, from its first event to its last.
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
        let rows = self.events.iter().map(|line| {
            let of = line.of.map(|of| format!(" of #{of}")).unwrap_or_default();
            let name = line.name.as_deref().unwrap_or_default();
            let what = format!("{}{of} {}", line.kind, short(name, 60));
            vec![
                format!("#{}", line.id),
                utc(line.at),
                what.trim_end().to_owned(),
                short(&line.detail, 120),
            ]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        f.write_str(&table(&["EVENT", "AT", "WHAT", "WITH"], &rows))
    }
}
