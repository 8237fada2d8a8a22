//! What an instance receives: starts, events, timers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::rule;
use crate::history::{History, Turn, list};
use crate::order::{Ranked, passed};
use crate::read::{Call, Moment};
use crate::rule::Found;

rule!(
    Starts,
    "starts",
    "Each accepted start leads to an instance that ends or is named as waiting",
    starts,
    at_rest = true
);
rule!(
    Queued,
    "queued",
    "A queued event is received at most once, and those that one process sends in the order of the calls",
    queued
);
rule!(
    Arrivals,
    "arrivals",
    "Each accepted queued event is received by its running instance",
    arrivals,
    at_rest = true
);
rule!(
    Raised,
    "raised",
    "A raised event is received at most once",
    raised
);
rule!(
    Carried,
    "carried",
    "The next execution begins with the queued events that its predecessor handed over",
    carried
);
rule!(Timers, "timers", "A timer never fires early", timers);

/// The events that an execution receives at most without taking them (docs/limits.md).
const ROOM: usize = 64;

fn starts(history: &History<'_>, found: &mut Found) {
    for (item, call, _) in history
        .sent("StartOrchestration")
        .filter(|(_, _, sure)| *sure)
    {
        let instance = item["instance"].as_str().unwrap_or_default();
        let waits = ("waiting".to_owned(), instance.to_owned());
        if !history.is_whole(instance) || history.record.notes.contains(&waits) {
            continue;
        }
        let began = history.of_instance(instance).next().is_some();
        let text = match history.ended(instance) {
            Ok(None) if began => "has not ended",
            Ok(None) => "never began",
            _ => continue,
        };
        found.calls(format!("`{instance}` {text}"), &[call]);
    }
}

/// A queue of an instance: what was sent to it, and the places of what was received.
#[derive(Default)]
struct Queue<'a> {
    sent: Vec<(&'a Value, &'a Call)>,
    received: Vec<(&'a Value, &'a Call)>,
}

impl<'a> Queue<'a> {
    /// Returns the calls of each process with the places of their events, the last one for those that
    /// were not received. An event that was sent twice has no certain place.
    fn places(&self) -> BTreeMap<usize, Vec<Ranked<'a, usize>>> {
        let received = self.received.iter().enumerate().rev();
        let place: HashMap<&Value, usize> = received.map(|(at, (data, _))| (*data, at)).collect();
        let mut times: HashMap<&Value, usize> = HashMap::new();
        for (data, _) in &self.sent {
            *times.entry(data).or_default() += 1;
        }
        let mut calls: BTreeMap<usize, Vec<Ranked<'_, usize>>> = BTreeMap::new();
        for (data, call) in self.sent.iter().filter(|(data, _)| times[data] == 1) {
            let place = place.get(data).copied().unwrap_or(usize::MAX);
            calls
                .entry(call.begin.process)
                .or_default()
                .push((place, call));
        }
        calls
    }
}

type Queues<'a> = BTreeMap<(&'a str, &'a str), Queue<'a>>;

fn field<'a>(item: &'a Value, name: &str) -> &'a str {
    item[name].as_str().unwrap_or_default()
}

/// Returns the queues of instances for one kind of event.
fn queues<'a>(history: &History<'a>, item: &'a str, event: &str) -> Queues<'a> {
    let mut queues = Queues::new();
    for (item, call, _) in history.sent(item) {
        let instance = field(item, "instance");
        if history.is_whole(instance) {
            let queue = queues.entry((instance, field(item, "name"))).or_default();
            queue.sent.push((&item["data"], call));
        }
    }
    for (instance, _, execution) in history.all() {
        let mut carried = None;
        for (it, turn) in history.events(execution) {
            let first = carried.get_or_insert_with(|| list(&it["carry_forward_events"]).len());
            if it["type"] != event || !history.is_whole(instance) {
                continue;
            }
            if *first > 0 && event == "ExternalEventPersistent" {
                *first -= 1; // received by a former execution
                continue;
            }
            let queue = queues.entry((instance, field(it, "name"))).or_default();
            queue.received.push((&it["data"], turn.ack()));
        }
    }
    queues
}

/// Finds events that were received more often than they were sent.
fn too_often(queues: &Queues<'_>, found: &mut Found) {
    for ((instance, name), queue) in queues {
        let mut by_data: HashMap<&Value, (Vec<&Call>, Vec<&Call>)> = HashMap::new();
        for (data, call) in &queue.sent {
            by_data.entry(data).or_default().0.push(call);
        }
        for (data, call) in &queue.received {
            by_data.entry(data).or_default().1.push(call);
        }
        for (data, (sent, received)) in by_data {
            if received.len() > sent.len() {
                let (sent_times, times) = (sent.len(), received.len());
                let text = format!(
                    "event `{name}` {data} of `{instance}` was sent {sent_times} times and received {times} times"
                );
                found.calls(text, &[sent, received].concat());
            }
        }
    }
}

fn raised(history: &History<'_>, found: &mut Found) {
    too_often(&queues(history, "ExternalRaised", "ExternalEvent"), found);
}

fn queued(history: &History<'_>, found: &mut Found) {
    let queues = queues(history, "QueueMessage", "ExternalEventPersistent");
    too_often(&queues, found);
    let starts = history
        .sent("StartOrchestration")
        .filter(|(_, _, sure)| *sure);
    let starts = starts.filter_map(|(it, call, _)| Some((it["instance"].as_str()?, call.end?)));
    let started: HashMap<&str, Moment> = starts.collect();
    for ((instance, name), queue) in &queues {
        for calls in queue.places().values() {
            // What was not received has the last place; it was passed if it was accepted after the start.
            let is_due = |call: &Call| {
                let start = started.get(instance).filter(|_| call.is_sure());
                start.is_some_and(|start| history.record.is_before(start, &call.begin))
            };
            let is_received = |place: usize| place < usize::MAX;
            let earlier = calls
                .iter()
                .filter(|(place, call)| is_received(*place) || is_due(call));
            let later = calls.iter().filter(|(place, _)| is_received(*place));
            let (earlier, later): (Vec<_>, Vec<_>) =
                (earlier.copied().collect(), later.copied().collect());
            for (one, other) in passed(history.record, &earlier, &later) {
                let ((place, call), (next, passing)) = (earlier[one], later[other]);
                let how = if is_received(place) {
                    "received after it"
                } else {
                    "never received"
                };
                let text = format!(
                    "an event `{name}` of `{instance}` was sent before another one and {how}"
                );
                found.calls(text, &[call, passing, queue.received[next].1]);
            }
        }
    }
}

fn arrivals(history: &History<'_>, found: &mut Found) {
    let queues = queues(history, "QueueMessage", "ExternalEventPersistent");
    for ((instance, name), queue) in queues {
        let runs = matches!(history.ended(instance), Ok(None));
        let Some((_, last)) = history.of_instance(instance).next_back().filter(|_| runs) else {
            continue;
        };
        let kind = |kind: &str| {
            history
                .events(last)
                .filter(|(it, _)| it["type"] == kind)
                .count()
        };
        let taken = kind("ExternalSubscribedPersistent");
        if kind("ExternalEventPersistent").saturating_sub(taken) >= ROOM {
            continue; // the others stay in the store
        }
        let received: BTreeSet<String> = queue
            .received
            .iter()
            .map(|(data, _)| data.to_string())
            .collect();
        let accepted = queue.sent.iter().filter(|(_, call)| call.is_sure());
        for (data, call) in accepted.filter(|(data, _)| !received.contains(&data.to_string())) {
            let text = format!("event `{name}` {data} of `{instance}` was accepted and is gone");
            found.calls(text, &[call]);
        }
    }
}

fn carried(history: &History<'_>, found: &mut Found) {
    for (instance, number, execution) in history.all().filter(|it| history.is_whole(it.0)) {
        let next = history
            .of_instance(instance)
            .find(|(next, _)| *next == number + 1);
        let Some((next, before)) = next.zip(execution.path.last()) else {
            continue;
        };
        let before = &history.turns[*before];
        let handed = before
            .messages
            .iter()
            .find_map(|it| it.get("ContinueAsNew"));
        let mut events = history.events(next.1);
        let Some(((begin, turn), handed)) = events.next().zip(handed) else {
            continue;
        };
        let handed = list(&handed["carry_forward_events"]);
        let received = events.filter(|(event, _)| event["type"] == "ExternalEventPersistent");
        let is_same = |(handed, (event, _)): (&Value, (&Value, &Turn<'_>))| {
            handed[0] == event["name"] && handed[1] == event["data"]
        };
        let same = handed
            .iter()
            .zip(received)
            .take_while(|it| is_same(*it))
            .count();
        if same < handed.len() || list(&begin["carry_forward_events"]) != handed {
            let text =
                format!("`{instance}`, execution {number}, handed over other events than arrived");
            found.calls(text, &[before.ack(), turn.ack()]);
        }
    }
}

fn timers(history: &History<'_>, found: &mut Found) {
    for (instance, number, execution) in history.all() {
        let mut created: HashMap<u64, (&Value, &Turn<'_>)> = HashMap::new();
        for (event, turn) in history.events(execution) {
            if event["type"] == "TimerCreated" {
                created.insert(
                    event["event_id"].as_u64().unwrap_or_default(),
                    (event, turn),
                );
            }
            let source = event["source_event_id"]
                .as_u64()
                .filter(|_| event["type"] == "TimerFired");
            let timer = source.and_then(|source| created.get(&source));
            let (Some((timer, creation)), Some(fetched)) = (timer, turn.fetch.end) else {
                continue;
            };
            let began = creation.acks[0].begin;
            let wait = timer["fire_at_ms"]
                .as_u64()
                .unwrap_or_default()
                .saturating_sub(began.wall);
            let (elapsed, margin) = history.record.elapsed(&began, &fetched);
            if elapsed + margin < wait {
                let text = format!(
                    "a timer of `{instance}`, execution {number}, fired {} ms early",
                    wait - elapsed
                );
                found.add(text, vec![began, fetched]);
            }
        }
    }
}
