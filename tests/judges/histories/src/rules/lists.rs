//! Transactions on documents that each hold a list, after Elle (Kingsbury and Alvaro, 2020): the longest
//! read of a list tells the order of its appends, from which the dependencies of transactions follow.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::rule;
use crate::history::{History, list};
use crate::order::passed;
use crate::read::Call;
use crate::rule::Found;

rule!(
    Lists,
    "lists",
    "Reads of a document agree on one order of its appends, in which acknowledged ones stay, in real-time order, and refused ones are absent",
    lists
);
rule!(
    Cycles,
    "cycles",
    "Transactions have one order: no cycle of writes (G0), of writes and reads (G1c), or with overwritten reads (G2)",
    cycles
);

/// What transactions did to a document.
#[derive(Default)]
struct Document<'a> {
    appends: Vec<(&'a str, usize)>,
    reads: Vec<(Vec<&'a str>, usize)>,
}

impl<'a> Document<'a> {
    /// Returns the longest read list: the places of its values.
    fn places(&self) -> (Vec<&'a str>, HashMap<&'a str, usize>) {
        let longest = self
            .reads
            .iter()
            .map(|read| &read.0)
            .max_by_key(|read| read.len());
        let longest = longest.cloned().unwrap_or_default();
        let places = longest
            .iter()
            .enumerate()
            .map(|(at, value)| (*value, at))
            .collect();
        (longest, places)
    }
}

fn documents<'a>(calls: &[&'a Call]) -> BTreeMap<&'a str, Document<'a>> {
    let mut documents: BTreeMap<&str, Document<'_>> = BTreeMap::new();
    for (index, call) in calls.iter().enumerate() {
        let mut read = list(&call.result).iter();
        for it in list(&call.args) {
            if let Some(name) = it["read"].as_str() {
                if let Some(values) = read.next() {
                    let values = list(values).iter().filter_map(Value::as_str).collect();
                    documents
                        .entry(name)
                        .or_default()
                        .reads
                        .push((values, index));
                }
            } else if let (Some(name), Some(value)) =
                (it["append"][0].as_str(), it["append"][1].as_str())
            {
                documents
                    .entry(name)
                    .or_default()
                    .appends
                    .push((value, index));
            }
        }
    }
    documents
}

fn lists(history: &History<'_>, found: &mut Found) {
    let calls: Vec<&Call> = history.record.of("transaction").collect();
    for (name, document) in documents(&calls) {
        values(name, &document, &calls, found);
        let (longest, places) = document.places();
        let place = |value: &str| places.get(value).copied().unwrap_or(usize::MAX);
        // An append at place `n` shows in reads of more than `n` values.
        let appends = document
            .appends
            .iter()
            .map(|(value, index)| (place(value), calls[*index]));
        let appends = appends.filter(|(_, call)| call.is_sure());
        let ranked = appends.map(|(at, call)| (at.saturating_mul(2).saturating_add(1), call));
        let reads = document
            .reads
            .iter()
            .filter(|(values, _)| longest.starts_with(values));
        let reads = reads.map(|(values, index)| (values.len() * 2, calls[*index]));
        let before: Vec<_> = ranked.chain(reads).collect();
        let after = before.iter().filter(|(rank, _)| *rank < usize::MAX);
        let after: Vec<_> = after.copied().collect();
        for (one, other) in passed(history.record, &before, &after) {
            let text =
                format!("`{name}`: a later transaction lacks or precedes what was acknowledged");
            found.calls(text, &[before[one].1, after[other].1]);
        }
    }
}

/// Finds reads that no order of the appends explains.
fn values(name: &str, document: &Document<'_>, calls: &[&Call], found: &mut Found) {
    let (longest, places) = document.places();
    let writers: HashMap<&str, usize> = document.appends.iter().copied().collect();
    for (values, index) in &document.reads {
        if !longest.starts_with(values) {
            let text = format!("a read of `{name}` is no prefix of another one");
            found.calls(text, &[calls[*index]]);
        }
        for (at, value) in values.iter().enumerate() {
            let writer = writers.get(value).map(|writer| calls[*writer]);
            let (text, proof) = match writer {
                None => ("no transaction appended", None),
                Some(writer) if writer.is_refused() => ("was refused", Some(writer)),
                Some(_) if longest.get(at) == Some(value) && places.get(value) != Some(&at) => {
                    ("is twice in its list", None)
                }
                Some(_) => continue,
            };
            let proof: Vec<&Call> = proof.into_iter().chain([calls[*index]]).collect();
            found.calls(format!("`{name}`: value {value} {text}"), &proof);
        }
    }
}

/// How a transaction depends on one before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    /// Both wrote, in this order.
    Write,
    /// The later one read what the earlier one wrote.
    Read,
    /// The later one overwrote what the earlier one read.
    Overwrite,
}

fn cycles(history: &History<'_>, found: &mut Found) {
    let calls: Vec<&Call> = history
        .record
        .of("transaction")
        .filter(|it| !it.is_refused())
        .collect();
    let mut edges: Vec<Vec<(usize, Edge)>> = vec![Vec::new(); calls.len()];
    for document in documents(&calls).into_values() {
        let (longest, _) = document.places();
        let writers: HashMap<&str, usize> = document.appends.iter().copied().collect();
        let order: Vec<Option<usize>> = longest.iter().map(|it| writers.get(it).copied()).collect();
        let mut add = |from: Option<usize>, to: Option<usize>, edge| {
            if let (Some(from), Some(to)) = (from, to)
                && from != to
            {
                edges[from].push((to, edge));
            }
        };
        for pair in order.windows(2) {
            add(pair[0], pair[1], Edge::Write);
        }
        for (values, reader) in &document.reads {
            let last = values
                .len()
                .checked_sub(1)
                .and_then(|last| order.get(last).copied().flatten());
            add(last, Some(*reader), Edge::Read);
            let next = order[values.len().min(order.len())..].iter().flatten();
            // A transaction reads its own appends after those of others.
            add(
                Some(*reader),
                next.copied().find(|next| next != reader),
                Edge::Overwrite,
            );
        }
    }
    let kinds = [
        (Edge::Write, "G0"),
        (Edge::Read, "G1c"),
        (Edge::Overwrite, "G2"),
    ];
    for (most, name) in kinds {
        if let Some(cycle) = cycle(&edges, most) {
            let text = format!("{name}: {} transactions depend on each other", cycle.len());
            found.calls(text, &cycle.iter().map(|it| calls[*it]).collect::<Vec<_>>());
            return;
        }
    }
}

/// Returns a cycle of edges of so many kinds, found by depth-first search.
fn cycle(edges: &[Vec<(usize, Edge)>], most: Edge) -> Option<Vec<usize>> {
    let mut done = vec![false; edges.len()];
    let mut place = vec![None; edges.len()];
    for root in 0..edges.len() {
        let mut stack = vec![(root, 0)];
        while let Some((node, next)) = stack.pop() {
            if done[node] {
                continue;
            }
            place[node].get_or_insert(stack.len());
            let Some((to, kind)) = edges[node].get(next) else {
                done[node] = true;
                place[node] = None;
                continue;
            };
            stack.push((node, next + 1));
            if *kind > most || done[*to] {
                continue;
            }
            if let Some(begin) = place[*to] {
                return Some(stack[begin..].iter().map(|it| it.0).collect());
            }
            stack.push((*to, 0));
        }
    }
    None
}
