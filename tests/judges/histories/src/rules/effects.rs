//! Effects outside of duroxide: leases, streams, messages.

use std::collections::{BTreeMap, BTreeSet};

use super::rule;
use crate::history::History;
use crate::order::{Ranked, passed};
use crate::read::Call;
use crate::rule::Found;

rule!(
    Leases,
    "leases",
    "Fencing tokens grow with each holder, and no write of a former holder takes effect after a newer one's",
    leases
);
rule!(
    Streams,
    "streams",
    "Each entry of a stream takes effect once, after the one before it",
    streams
);
rule!(
    Entries,
    "entries",
    "No entry of a stream is missing",
    entries,
    at_rest = true
);
rule!(Messages, "messages", "A message has one effect", messages);

type Uses<'a> = Vec<Ranked<'a, u64>>;

fn leases(history: &History<'_>, found: &mut Found) {
    let mut leases: BTreeMap<&str, (Uses<'_>, Uses<'_>)> = BTreeMap::new();
    for call in history.record.calls.iter().filter(|call| call.is_sure()) {
        let (acquired, used) = (call.result["token"].as_u64(), call.args["token"].as_u64());
        match (&*call.op, acquired.or(used)) {
            ("lease-acquire", Some(token)) => {
                leases
                    .entry(call.text("document"))
                    .or_default()
                    .0
                    .push((token, call));
            }
            ("lease-write" | "lease-release", Some(token)) => {
                leases
                    .entry(call.text("document"))
                    .or_default()
                    .1
                    .push((token, call));
            }
            _ => {}
        }
    }
    for (document, (acquired, writes)) in leases {
        let mut holders: BTreeMap<u64, &Call> = BTreeMap::new();
        for (token, call) in &acquired {
            if let Some(other) = holders.insert(*token, call) {
                let text = format!("two holders of `{document}` have token {token}");
                found.calls(text, &[other, call]);
            }
        }
        let all: Vec<_> = acquired.iter().chain(&writes).copied().collect();
        for (one, other) in passed(history.record, &all, &all) {
            let text = format!(
                "`{document}`: token {} took effect after token {}",
                all[other].0, all[one].0
            );
            found.calls(text, &[all[one].1, all[other].1]);
        }
    }
}

/// Returns the entries of streams that took effect, or may have.
fn handled<'a>(history: &History<'a>) -> BTreeMap<&'a str, Uses<'a>> {
    let mut streams: BTreeMap<&str, Uses<'_>> = BTreeMap::new();
    for call in history.record.of("entry").filter(|call| !call.is_refused()) {
        let number = call.args["number"].as_u64().unwrap_or_default();
        streams
            .entry(call.text("stream"))
            .or_default()
            .push((number, call));
    }
    streams
}

fn streams(history: &History<'_>, found: &mut Found) {
    for (stream, all) in handled(history) {
        let sure = all.iter().filter(|(_, call)| call.is_sure()).copied();
        let sure: Vec<_> = sure.collect();
        let mut once: BTreeMap<u64, &Call> = BTreeMap::new();
        for (number, call) in &sure {
            if let Some(other) = once.insert(*number, call) {
                found.calls(
                    format!("`{stream}`: entry {number} took effect twice"),
                    &[other, call],
                );
            }
        }
        for (one, other) in passed(history.record, &sure, &sure) {
            let text = format!(
                "`{stream}`: entry {} came after {}",
                sure[other].0, sure[one].0
            );
            found.calls(text, &[sure[one].1, sure[other].1]);
        }
    }
}

fn entries(history: &History<'_>, found: &mut Found) {
    for (stream, all) in handled(history) {
        let numbers: BTreeSet<u64> = all.iter().map(|(number, _)| *number).collect();
        let after = numbers
            .iter()
            .zip(numbers.iter().skip(1))
            .find(|(one, next)| *one + 1 < **next);
        if let Some((one, next)) = after {
            let around = all
                .iter()
                .filter(|(number, _)| number == one || number == next);
            let around: Vec<&Call> = around.map(|(_, call)| *call).collect();
            found.calls(format!("`{stream}`: entry {} is missing", one + 1), &around);
        }
    }
}

fn messages(history: &History<'_>, found: &mut Found) {
    let mut effects: BTreeMap<(&str, &str), Vec<&Call>> = BTreeMap::new();
    for call in history.record.of("message").filter(|call| call.is_sure()) {
        effects
            .entry((call.text("receiver"), call.text("id")))
            .or_default()
            .push(call);
    }
    for ((receiver, id), calls) in effects.into_iter().filter(|it| it.1.len() > 1) {
        let text = format!(
            "message `{id}` took effect {} times on `{receiver}`",
            calls.len()
        );
        found.calls(text, &calls);
    }
}
