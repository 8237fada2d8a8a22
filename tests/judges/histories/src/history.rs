//! Finds the committed turns of each execution.
//!
//! A turn leads from the history that its fetch returned to that history with the events of its commit.
//! The histories of an execution so form a graph, whose edges are commits that took effect or may have.
//! A commit of unknown outcome took effect if a later fetch or read returned its history.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use crate::read::{Call, Outcome, Record};

/// The hash of an empty text, by FNV-1a.
const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// A history: its length and a hash over its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct State {
    pub(crate) events: u64,
    hash: u64,
}

/// The history of an execution that has not begun.
pub(crate) const ROOT: State = State {
    events: 0,
    hash: EMPTY,
};

/// Returns the FNV-1a hash of a text, continuing that of the text before it.
pub(crate) fn hash(before: u64, text: &str) -> u64 {
    text.bytes().fold(before, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl State {
    pub(crate) fn then(self, event_hash: &str) -> Self {
        Self {
            events: self.events + 1,
            hash: hash(self.hash, event_hash),
        }
    }

    fn read(history: &Value) -> Option<Self> {
        let hash = u64::from_str_radix(history["hash"].as_str()?, 16).ok()?;
        Some(Self {
            events: history["events"].as_u64()?,
            hash,
        })
    }

    #[cfg(test)]
    pub(crate) fn digest(self) -> String {
        format!("{:016x}", self.hash)
    }
}

/// A turn that was committed, or may have been.
#[derive(Clone, Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) fetch: &'a Call,
    /// The calls that committed it: after a lost answer there are several.
    pub(crate) acks: Vec<&'a Call>,
    pub(crate) instance: &'a str,
    pub(crate) execution: u64,
    pub(crate) from: State,
    pub(crate) to: State,
    pub(crate) events: &'a [Value],
    pub(crate) messages: &'a [Value],
}

impl<'a> Turn<'a> {
    pub(crate) fn is_sure(&self) -> bool {
        self.acks.iter().any(|ack| ack.is_sure())
    }

    /// Returns whether its caller was told that it is refused.
    pub(crate) fn is_refused(&self) -> bool {
        self.acks.iter().all(|ack| ack.outcome == Outcome::Definite)
    }

    /// Returns the call that answered, or the last one without an answer.
    pub(crate) fn ack(&self) -> &'a Call {
        let sure = self.acks.iter().find(|ack| ack.is_sure());
        sure.or(self.acks.last()).expect("a turn has a commit")
    }
}

/// The committed turns of an execution, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) path: Vec<usize>,
    /// Whether a further turn may have been committed.
    pub(crate) open: bool,
}

/// A record with its executions.
#[derive(Debug)]
pub struct History<'a> {
    pub(crate) record: &'a Record,
    pub(crate) turns: Vec<Turn<'a>>,
    /// By instance and number: several if the instance was deleted and started again.
    pub(crate) executions: BTreeMap<(&'a str, u64), Vec<Execution>>,
    /// The histories that fetches and reads returned.
    pub(crate) seen: BTreeMap<(&'a str, u64), Vec<(State, &'a Call)>>,
    /// The histories that the commits of an execution make.
    pub(crate) made: BTreeMap<(&'a str, u64), BTreeSet<State>>,
    left_out: BTreeSet<&'a str>,
    deleted: BTreeSet<&'a str>,
    any_deleted: bool,
    retention: bool,
}

/// Returns whether an event ends its execution.
pub(crate) fn is_end(event: &Value) -> bool {
    let kind = event["type"].as_str().unwrap_or_default();
    [
        "OrchestrationCompleted",
        "OrchestrationFailed",
        "OrchestrationContinuedAsNew",
    ]
    .contains(&kind)
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

impl<'a> History<'a> {
    /// Finds the turns of a record.
    pub fn of(record: &'a Record) -> Self {
        let mut history = Self {
            record,
            turns: Vec::new(),
            executions: BTreeMap::new(),
            seen: BTreeMap::new(),
            made: BTreeMap::new(),
            left_out: BTreeSet::new(),
            deleted: BTreeSet::new(),
            any_deleted: false,
            retention: record.notes.iter().any(|(note, _)| note == "retention"),
        };
        history.leave_out();
        history.see();
        history.find_turns();
        history.find_executions();
        history
    }

    fn leave_out(&mut self) {
        let changed = self
            .record
            .notes
            .iter()
            .filter(|(note, _)| note == "changed");
        self.left_out
            .extend(changed.map(|(_, instance)| &**instance));
        for call in &self.record.calls {
            match &*call.op {
                "append_with_execution" => drop(self.left_out.insert(call.text("instance"))),
                "delete" => {
                    let named = list(&call.args["instances"])
                        .iter()
                        .filter_map(Value::as_str);
                    self.deleted.extend(named);
                    self.any_deleted |= call.args["instances"].is_null();
                }
                "fetch_orchestration_item" if call.result["damaged"] == true => {
                    self.left_out.extend(call.result["instance"].as_str());
                }
                _ => {}
            }
        }
        // A deletion includes the children.
        let mut starts: Vec<_> = self.sent("StartOrchestration").map(|it| it.0).collect();
        let parent = |start: &Value| start["parent_instance"].as_str().map(str::to_owned);
        while let Some(at) = starts
            .iter()
            .position(|start| parent(start).is_some_and(|parent| self.deleted.contains(&*parent)))
        {
            self.deleted
                .extend(starts.swap_remove(at)["instance"].as_str());
        }
    }

    fn see(&mut self) {
        for call in self.record.calls.iter().filter(|call| call.is_sure()) {
            let (instance, history) = match &*call.op {
                "fetch_orchestration_item" => (&call.result["instance"], &call.result["history"]),
                "read" | "read_with_execution" => (&call.args["instance"], &call.result),
                _ => continue,
            };
            let number = history["last"]["execution_id"].as_u64();
            let (Some(instance), Some(number)) = (instance.as_str(), number) else {
                continue;
            };
            let state = State::read(history).filter(|_| !self.left_out.contains(instance));
            let seen = state.map(|state| (state, call));
            self.seen
                .entry((instance, number))
                .or_default()
                .extend(seen);
        }
    }

    fn find_turns(&mut self) {
        let fetches = self.record.of("fetch_orchestration_item");
        let fetches: HashMap<&str, &Call> = fetches
            .filter_map(|it| Some((it.result["token"].as_str()?, it)))
            .collect();
        let mut turns: HashMap<(&str, State), usize> = HashMap::new();
        for ack in self
            .record
            .of("ack_orchestration_item")
            .filter(|it| !it.is_refused())
        {
            let Some(fetch) = fetches.get(ack.text("token")) else {
                continue; // reported by `locks`
            };
            let item = &fetch.result;
            let instance = item["instance"].as_str().unwrap_or_default();
            let execution = ack.args["execution_id"].as_u64().unwrap_or_default();
            let is_next = item["execution_id"].as_u64() != Some(execution);
            let from = if is_next {
                Some(ROOT)
            } else {
                State::read(&item["history"])
            };
            let Some(from) = from.filter(|_| !self.left_out.contains(instance)) else {
                continue;
            };
            let events = list(&ack.args["events"]);
            let hashes = events.iter().filter_map(|event| event["hash"].as_str());
            let to = hashes.fold(from, State::then);
            let turn = Turn {
                fetch,
                acks: Vec::new(),
                instance,
                execution,
                from,
                to,
                events,
                messages: list(&ack.args["messages"]),
            };
            let index = *turns
                .entry((ack.text("token"), to))
                .or_insert(self.turns.len());
            if index == self.turns.len() {
                self.turns.push(turn);
            }
            self.turns[index].acks.push(ack);
        }
    }

    fn find_executions(&mut self) {
        let mut edges: BTreeMap<(&str, u64), BTreeMap<State, Vec<usize>>> = BTreeMap::new();
        for (index, turn) in self.turns.iter().enumerate() {
            if turn.from != turn.to {
                let execution = edges.entry((turn.instance, turn.execution)).or_default();
                execution.entry(turn.from).or_default().push(index);
            }
        }
        for (key, edges) in edges {
            let seen = self.seen.get(&key).into_iter().flatten();
            let seen: BTreeSet<State> = seen.map(|(state, _)| *state).collect();
            let made = self.states(&edges, self.is_deleted(key.0));
            self.made.insert(key, made);
            let roots = edges.get(&ROOT).map_or(&[][..], Vec::as_slice);
            let is_root = |index: &&usize| self.happened(**index, &edges, &seen);
            let mut paths: Vec<Execution> = roots
                .iter()
                .filter(is_root)
                .map(|root| self.path(*root, &edges, &seen))
                .collect();
            if paths.is_empty() {
                paths.push(Execution {
                    path: Vec::new(),
                    open: true,
                });
            }
            self.executions.insert(key, paths);
        }
    }

    /// Returns whether the turn took effect, if a turn of its state did.
    fn happened(
        &self,
        index: usize,
        edges: &BTreeMap<State, Vec<usize>>,
        seen: &BTreeSet<State>,
    ) -> bool {
        let turn = &self.turns[index];
        let is_sure = |it: &usize| self.turns[*it].is_sure();
        let other = !self.is_deleted(turn.instance) && edges[&turn.from].iter().any(is_sure);
        turn.is_sure() || !other && seen.contains(&turn.to)
    }

    fn path(
        &self,
        root: usize,
        edges: &BTreeMap<State, Vec<usize>>,
        seen: &BTreeSet<State>,
    ) -> Execution {
        let mut path = vec![root];
        let mut state = self.turns[root].to;
        while let Some(next) = edges.get(&state) {
            let sure = next.iter().find(|it| self.turns[**it].is_sure());
            let Some(next) = sure.or(next.iter().find(|it| self.happened(**it, edges, seen)))
            else {
                return Execution { path, open: true };
            };
            path.push(*next);
            state = self.turns[*next].to;
        }
        Execution { path, open: false }
    }

    /// Returns the histories that commits can have made.
    fn states(&self, edges: &BTreeMap<State, Vec<usize>>, deleted: bool) -> BTreeSet<State> {
        let (mut made, mut open) = (BTreeSet::from([ROOT]), vec![ROOT]);
        while let Some(state) = open.pop() {
            let next = edges.get(&state).map_or(&[][..], Vec::as_slice);
            let any_sure = next.iter().any(|it| self.turns[*it].is_sure());
            for index in next {
                let turn = &self.turns[*index];
                let counts = turn.is_sure() || !any_sure || deleted && state == ROOT;
                if counts && made.insert(turn.to) {
                    open.push(turn.to);
                }
            }
        }
        made
    }

    /// Returns whether an instance may have been deleted, so that its id may have been used again.
    pub(crate) fn is_deleted(&self, instance: &str) -> bool {
        self.any_deleted || self.retention || self.deleted.contains(instance)
    }

    /// Returns whether operators have changed an instance.
    pub(crate) fn is_left_out(&self, instance: &str) -> bool {
        self.left_out.contains(instance)
    }

    /// Returns whether an instance is judged as a whole: operators have neither changed nor deleted it,
    /// and it was started once.
    pub(crate) fn is_whole(&self, instance: &str) -> bool {
        let lives = self.executions.get(&(instance, 1)).map_or(0, Vec::len);
        let changed = self.any_deleted || self.deleted.contains(instance);
        lives < 2 && !changed && !self.is_left_out(instance)
    }

    /// Returns the events of an execution with their turns.
    pub(crate) fn events<'b>(
        &'b self,
        execution: &'b Execution,
    ) -> impl Iterator<Item = (&'a Value, &'b Turn<'a>)> {
        let turns = execution.path.iter().map(|index| &self.turns[*index]);
        turns.flat_map(|turn| turn.events.iter().map(move |event| (event, turn)))
    }

    /// Returns all committed turns with events.
    pub(crate) fn committed(&self) -> impl Iterator<Item = &Turn<'a>> {
        let paths = self.executions.values().flatten().flat_map(|it| &it.path);
        paths.map(|index| &self.turns[*index])
    }

    /// Returns the executions of an instance.
    pub(crate) fn of_instance(
        &self,
        instance: &'a str,
    ) -> impl DoubleEndedIterator<Item = (u64, &Execution)> {
        let all = self.executions.range((instance, 0)..=(instance, u64::MAX));
        all.flat_map(|((_, number), paths)| paths.iter().map(move |it| (*number, it)))
    }

    /// Returns all executions with their instance and number.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'a str, u64, &Execution)> {
        let all = self.executions.iter();
        all.flat_map(|((name, number), paths)| paths.iter().map(|it| (*name, *number, it)))
    }

    /// Returns how an instance ended: an event, or `None` if it runs. `Err` if that is not known.
    pub(crate) fn ended(&self, instance: &'a str) -> Result<Option<&'a Value>, ()> {
        let Some((_, last)) = self.of_instance(instance).next_back() else {
            return Ok(None);
        };
        let end = self
            .events(last)
            .map(|(event, _)| event)
            .find(|event| is_end(event));
        match end.filter(|end| end["type"] != "OrchestrationContinuedAsNew") {
            Some(end) => Ok(Some(end)),
            None if last.open => Err(()),
            None => Ok(None),
        }
    }

    /// Returns the items that calls and turns sent, with the call, and whether it certainly did.
    pub(crate) fn sent(&self, kind: &'a str) -> impl Iterator<Item = (&'a Value, &'a Call, bool)> {
        let calls = self.record.of("enqueue_for_orchestrator");
        let calls = calls.map(|call| (&call.args["item"], call));
        let acks = self.record.of("ack_orchestration_item");
        let acks = acks.flat_map(|call| {
            list(&call.args["messages"])
                .iter()
                .map(move |it| (it, call))
        });
        calls.chain(acks).filter_map(move |(item, call)| {
            let item = item.get(kind)?;
            (!call.is_refused()).then_some((item, call, call.is_sure()))
        })
    }
}
