//! Results: of activities and children, and the status that clients read.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::rule;
use crate::history::{History, Turn};
use crate::order::{Ranked, passed};
use crate::read::Call;
use crate::rule::Found;

rule!(
    Activities,
    "activities",
    "A scheduled activity has at most one stored result, which is the result of one of its attempts",
    activities
);
rule!(
    Attempts,
    "attempts",
    "At most one attempt of a scheduled activity is accepted as its end",
    attempts
);
rule!(
    Children,
    "children",
    "The result of a child that its parent has stored equals the child's end and comes after it",
    children
);
rule!(
    Statuses,
    "status",
    "The status and the history that a client reads never go back",
    statuses
);

/// The instance, the execution and the event of a schedule.
type Schedule<'a> = (&'a str, u64, u64);

fn number(item: &Value, field: &str) -> u64 {
    item[field].as_u64().unwrap_or_default()
}

fn schedule(item: &Value) -> Schedule<'_> {
    let instance = item["instance"].as_str().unwrap_or_default();
    (instance, number(item, "execution_id"), number(item, "id"))
}

/// Returns the result of an activity or a child, if an item or an event holds one.
fn result(item: &Value) -> &Value {
    if item["result"].is_null() {
        &item["details"]
    } else {
        &item["result"]
    }
}

/// Returns the ends of activities that calls reported.
fn reported<'a>(history: &History<'a>) -> impl Iterator<Item = (&'a Value, &'a Call)> {
    let calls = history
        .record
        .calls
        .iter()
        .filter(|call| !call.is_refused());
    calls.filter_map(|call| {
        let item = match &*call.op {
            "ack_work_item" => &call.args["completion"],
            "enqueue_for_orchestrator" => &call.args["item"],
            _ => return None,
        };
        let end = item
            .get("ActivityCompleted")
            .or(item.get("ActivityFailed"))?;
        Some((end, call))
    })
}

fn activities(history: &History<'_>, found: &mut Found) {
    let mut attempts: HashMap<Schedule<'_>, Vec<(&Value, &Call)>> = HashMap::new();
    for (item, call) in reported(history) {
        attempts
            .entry(schedule(item))
            .or_default()
            .push((item, call));
    }
    for (instance, execution_id, execution) in history.all() {
        let mut stored: HashMap<u64, &Turn<'_>> = HashMap::new();
        for (event, turn) in history.events(execution) {
            let kind = event["type"].as_str().unwrap_or_default();
            let source = event["source_event_id"].as_u64();
            let Some(id) =
                source.filter(|_| ["ActivityCompleted", "ActivityFailed"].contains(&kind))
            else {
                continue;
            };
            let what = format!("activity {id} of `{instance}`, execution {execution_id},");
            if let Some(first) = stored.insert(id, turn) {
                found.calls(
                    format!("{what} has two results"),
                    &[first.ack(), turn.ack()],
                );
            }
            let attempts = attempts.get(&(instance, execution_id, id));
            let attempts = attempts.map_or(&[][..], Vec::as_slice);
            if !attempts
                .iter()
                .any(|(item, _)| result(item) == result(event))
            {
                let mut calls: Vec<&Call> = attempts.iter().map(|it| it.1).collect();
                calls.push(turn.ack());
                found.calls(format!("{what} has a result of no attempt"), &calls);
            }
        }
    }
}

fn attempts(history: &History<'_>, found: &mut Found) {
    let mut accepted: BTreeMap<Schedule<'_>, Vec<&Call>> = BTreeMap::new();
    for (item, call) in reported(history).filter(|(_, call)| call.is_sure()) {
        if call.op == "ack_work_item" && history.is_whole(schedule(item).0) {
            accepted.entry(schedule(item)).or_default().push(call);
        }
    }
    for ((instance, execution, id), calls) in accepted.into_iter().filter(|it| it.1.len() > 1) {
        let text = format!("activity {id} of `{instance}`, execution {execution}, ended twice");
        found.calls(text, &calls);
    }
}

fn children(history: &History<'_>, found: &mut Found) {
    let mut sent: HashMap<Schedule<'_>, Vec<(&Value, &Call, bool)>> = HashMap::new();
    for kind in ["SubOrchCompleted", "SubOrchFailed"] {
        for (item, call, _) in history.sent(kind) {
            let parent = item["parent_instance"].as_str().unwrap_or_default();
            let parent = (
                parent,
                number(item, "parent_execution_id"),
                number(item, "parent_id"),
            );
            // A child that completes sends its own output.
            let end = |event: &Value| {
                event["type"] == "OrchestrationCompleted" && event["output"] == *result(item)
            };
            let mut events = crate::history::list(&call.args["events"]).iter();
            let equal =
                kind == "SubOrchFailed" || call.op != "ack_orchestration_item" || events.any(end);
            sent.entry(parent)
                .or_default()
                .push((result(item), call, equal));
        }
    }
    for (instance, execution_id, execution) in history.all() {
        for (event, turn) in history.events(execution) {
            let kind = event["type"].as_str().unwrap_or_default();
            let source = event["source_event_id"].as_u64();
            let is_end = ["SubOrchestrationCompleted", "SubOrchestrationFailed"].contains(&kind);
            let Some(id) = source.filter(|_| is_end) else {
                continue;
            };
            let ends = sent
                .get(&(instance, execution_id, id))
                .map_or(&[][..], Vec::as_slice);
            let is_later = |call: &Call| {
                turn.fetch
                    .end
                    .is_some_and(|end| history.record.is_before(&end, &call.begin))
            };
            let explains =
                |it: &(&Value, &Call, bool)| it.0 == result(event) && it.2 && !is_later(it.1);
            if !ends.iter().any(explains) {
                let mut calls: Vec<&Call> = ends.iter().map(|it| it.1).collect();
                calls.push(turn.ack());
                let text = format!(
                    "child {id} of `{instance}`, execution {execution_id}, has a stored result that no end of it sent before"
                );
                found.calls(text, &calls);
            }
        }
    }
}

/// How far an instance was, as a client read it: execution, whether it ended, events.
type Progress = (u64, bool, u64);

fn progress(call: &Call) -> Option<Progress> {
    let result = &call.result;
    if call.op == "get_instance_info" {
        let ended = ["Completed", "Failed"].contains(&result["status"].as_str()?);
        return Some((number(result, "execution_id"), ended, 0));
    }
    let last = &result["last"];
    let ended = ["OrchestrationCompleted", "OrchestrationFailed"].contains(&last["type"].as_str()?);
    Some((
        number(last, "execution_id"),
        ended,
        number(result, "events"),
    ))
}

fn statuses(history: &History<'_>, found: &mut Found) {
    let mut reads: BTreeMap<(usize, &str), Vec<Ranked<'_, Progress>>> = BTreeMap::new();
    let calls = history.record.calls.iter().filter(|call| call.is_sure());
    for call in calls.filter(|call| ["get_instance_info", "read"].contains(&&*call.op)) {
        // A read of a chosen execution tells nothing of the latest one.
        let is_latest = call.args["execution_id"].is_null();
        let instance = call.text("instance");
        if let Some(progress) = progress(call).filter(|_| is_latest && history.is_whole(instance)) {
            reads
                .entry((call.begin.process, instance))
                .or_default()
                .push((progress, call));
        }
    }
    for ((_, instance), reads) in reads {
        // A status has no number of events.
        let later = reads.iter().map(|(rank, call)| {
            let events = if rank.2 == 0 { u64::MAX } else { rank.2 };
            ((rank.0, rank.1, events), *call)
        });
        let later: Vec<_> = later.collect();
        for (one, other) in passed(history.record, &reads, &later) {
            let text = format!("a client read an older state of `{instance}` after a newer one");
            found.calls(text, &[reads[one].1, reads[other].1]);
        }
    }
}
