//! Locks of instances and activities.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::rule;
use crate::history::History;
use crate::read::Call;
use crate::rule::Found;

rule!(
    Locks,
    "locks",
    "A lock is given up once, and its holder commits, renews or releases nothing after a newer holder has it",
    locks
);

/// The fetches of one queue item, and the calls under each lock.
type Holders<'a> = BTreeMap<String, Vec<&'a Call>>;

/// The operations of a queue: the fetch, the commit, and those that must fail without a lock.
const QUEUES: [(&str, &str, [&str; 3]); 2] = [
    (
        "fetch_orchestration_item",
        "ack_orchestration_item",
        [
            "ack_orchestration_item",
            "renew_orchestration_item_lock",
            "abandon_orchestration_item",
        ],
    ),
    (
        "fetch_work_item",
        "ack_work_item",
        ["ack_work_item", "renew_work_item_lock", "abandon_work_item"],
    ),
];

/// Returns what a fetch has locked.
fn locked(history: &History<'_>, result: &Value) -> Option<String> {
    if let Some(instance) = result["instance"].as_str() {
        return (!history.is_left_out(instance)).then(|| instance.to_owned());
    }
    let item = &result["item"]["ActivityExecute"];
    let instance = item["instance"]
        .as_str()
        .filter(|it| history.is_whole(it))?;
    Some(format!(
        "{instance}`, execution {}, activity `{}",
        item["execution_id"], item["id"]
    ))
}

fn locks(history: &History<'_>, found: &mut Found) {
    for (fetch, commit, ends) in QUEUES {
        let mut holders = Holders::new();
        let mut under: HashMap<&str, Vec<&Call>> = HashMap::new();
        for call in &history.record.calls {
            if call.op == fetch {
                let what = locked(history, &call.result);
                if let Some(it) = what {
                    holders.entry(it).or_default().push(call);
                }
            } else if ends.contains(&&*call.op) {
                under.entry(call.text("token")).or_default().push(call);
            }
        }
        for calls in under.values() {
            let done = calls
                .iter()
                .filter(|call| call.op == commit && call.is_sure());
            let done: Vec<&Call> = done.copied().collect();
            if done.len() > 1 {
                found.calls("a lock was committed twice".to_owned(), &done);
            }
        }
        for (what, fetches) in holders {
            for fetch in &fetches {
                let calls = under.get(fetch.result["token"].as_str().unwrap_or_default());
                let late = late(
                    history,
                    commit,
                    &fetches,
                    fetch,
                    calls.map_or(&[], Vec::as_slice),
                );
                if let Some((newer, late)) = late {
                    let text = format!("a former holder of `{what}` called {}", late.op);
                    found.calls(text, &[fetch, newer, late]);
                }
            }
        }
    }
}

/// Returns a call that succeeded under a lock after another holder had it. A repeated commit succeeds if
/// its first call had taken effect before.
fn late<'a>(
    history: &History<'_>,
    commit: &str,
    fetches: &[&'a Call],
    fetch: &Call,
    calls: &[&'a Call],
) -> Option<(&'a Call, &'a Call)> {
    let record = history.record;
    let first = fetch.end?;
    calls.iter().filter(|call| call.is_sure()).find_map(|call| {
        let newer = fetches.iter().find(|newer| {
            let taken = record.is_before(&first, &newer.begin);
            taken
                && newer
                    .end
                    .is_some_and(|end| record.is_before(&end, &call.begin))
        })?;
        let began = |it: &&&Call| it.op == commit && it.begin.line != call.begin.line;
        let repeated = calls.iter().filter(began).any(|it| {
            !it.is_refused()
                && newer
                    .end
                    .is_some_and(|end| !record.is_before(&end, &it.begin))
        });
        (!repeated).then_some((*newer, *call))
    })
}
