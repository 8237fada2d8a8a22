//! Turns and executions: what a provider commits, and what it returns.

use std::collections::BTreeMap;

use serde_json::Value;

use super::rule;
use crate::history::{History, ROOT, State, Turn, is_end};
use crate::rule::Found;

rule!(
    Turns,
    "turns",
    "No two committed turns have the same events, and event ids have no gaps",
    turns
);
rule!(
    Histories,
    "histories",
    "A fetched or read history consists of the committed turns, whole and in their order",
    histories
);
rule!(
    Ends,
    "ends",
    "An execution ends at most once, and nothing is committed after its end",
    ends
);
rule!(
    Failures,
    "failures",
    "No orchestration fails by a temporary error of its store",
    failures
);

fn turns(history: &History<'_>, found: &mut Found) {
    let mut same: BTreeMap<(&str, u64, State), Vec<&Turn<'_>>> = BTreeMap::new();
    // After a refusal, the runtime tries to commit a failure under the same lock.
    let turns = history.turns.iter().filter(|turn| !turn.is_refused());
    for turn in turns.filter(|turn| !turn.events.is_empty()) {
        let (instance, execution) = (turn.instance, turn.execution);
        let ids = turn.events.iter().map(|event| event["event_id"].as_u64());
        if !ids.eq((turn.from.events + 1..).take(turn.events.len()).map(Some)) {
            let text = format!("event ids of `{instance}`, execution {execution}, have a gap");
            found.calls(text, &[turn.fetch, turn.ack()]);
        }
        let may_begin_again = turn.from == ROOT && history.is_deleted(instance);
        if turn.is_sure() && !may_begin_again {
            same.entry((instance, execution, turn.from))
                .or_default()
                .push(turn);
        }
    }
    for ((instance, execution, from), turns) in same {
        if turns.len() > 1 {
            let text = format!(
                "{} turns of `{instance}`, execution {execution}, were committed after event {}",
                turns.len(),
                from.events
            );
            let calls = turns.iter().flat_map(|turn| [turn.fetch, turn.ack()]);
            found.calls(text, &calls.collect::<Vec<_>>());
        }
    }
}

fn histories(history: &History<'_>, found: &mut Found) {
    for ((instance, execution), seen) in &history.seen {
        let made = history.made.get(&(*instance, *execution));
        let odd = seen
            .iter()
            .find(|(state, _)| !made.is_some_and(|made| made.contains(state)));
        if let Some((state, call)) = odd {
            let text = format!(
                "a history of `{instance}`, execution {execution}, with {} events was made by no turns",
                state.events
            );
            let mut calls = vec![*call];
            let turns = history
                .turns
                .iter()
                .filter(|turn| turn.instance == *instance);
            let turns = turns.filter(|turn| turn.execution == *execution);
            calls.extend(
                turns
                    .map(Turn::ack)
                    .filter(|ack| !history.record.is_before(&call.begin, &ack.begin)),
            );
            found.calls(text, &calls);
        }
    }
}

fn ends(history: &History<'_>, found: &mut Found) {
    for (instance, number, execution) in history.all() {
        let mut events = history.events(execution);
        let end = events.find(|(event, _)| is_end(event));
        let Some(((_, end), (after, turn))) = end.zip(events.next()) else {
            continue;
        };
        let after = after["type"].as_str().unwrap_or_default();
        let text = format!("`{instance}`, execution {number}, has {after} after its end");
        found.calls(text, &[end.ack(), turn.ack()]);
    }
}

fn failures(history: &History<'_>, found: &mut Found) {
    for (instance, number, execution) in history.all() {
        let mut events = history.events(execution);
        let by_store = |event: &Value| event["details"]["Infrastructure"]["retryable"] == true;
        let failed = events.find(|(it, _)| it["type"] == "OrchestrationFailed" && by_store(it));
        if let Some((event, turn)) = failed {
            let why = &event["details"]["Infrastructure"]["message"];
            let text = format!("`{instance}`, execution {number}, failed: {why}");
            found.calls(text, &[turn.ack()]);
        }
    }
}
