//! Sound histories: a store that keeps all promises, with processes that crash, answers that are lost
//! and locks that are taken over.

mod effects;

use serde_json::{Value, json};

use crate::history::{ROOT, State, hash};
use crate::tests::Text;

/// A generator of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) >> 33).unwrap_or(0) % end
    }
}

#[derive(Clone, Default)]
struct Instance {
    execution: u64,
    history: Vec<Value>,
    /// Number, time from which on it is visible, message.
    messages: Vec<(u64, u64, Value)>,
    lock: Option<u64>,
    parent: Value,
    ended: bool,
}

#[derive(Clone)]
struct Holder {
    process: usize,
    token: u64,
    instance: usize,
    execution: u64,
    history: Vec<Value>,
    messages: Vec<(u64, u64, Value)>,
}

#[derive(Clone)]
struct Activity {
    item: Value,
    lock: Option<u64>,
    done: bool,
}

/// A promise that the store breaks now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    LosesEvents,
    DoublesEvents,
    AcceptsFormerHolders,
    FiresEarly,
}

/// A run of the store.
pub(crate) struct Sound {
    pub(crate) text: Text,
    random: Random,
    instances: Vec<Instance>,
    activities: Vec<Activity>,
    holders: Vec<Holder>,
    workers: Vec<(usize, u64, usize)>,
    lists: [Vec<String>; 3],
    next: u64,
    token: u64,
    entry: u64,
    calm: bool,
    fault: Option<Fault>,
}

/// A turn of an orchestration with an activity, a timer and perhaps a child.
#[derive(Default)]
struct Turn {
    token: u64,
    execution: u64,
    history: Vec<Value>,
    /// The number of events before the turn.
    before: usize,
    messages: Vec<Value>,
    activities: Vec<Value>,
    child: bool,
    closes: bool,
}

impl Turn {
    fn event(&mut self, kind: &str, source: u64, more: &Value) {
        let (id, execution) = (self.history.len() + 1, self.execution);
        let mut event = json!({"type": kind, "event_id": id, "execution_id": execution});
        event["source_event_id"] = json!((source > 0).then_some(source));
        let fields = more.as_object().cloned().unwrap_or_default();
        event.as_object_mut().unwrap().extend(fields);
        // Two commits never have equal events.
        event["hash"] = json!(format!("{:016x}", hash(self.token, &event.to_string())));
        self.history.push(event);
    }

    /// Ends the execution if it waits for nothing.
    fn end(&mut self, me: &str, parent: &Value, at_once: bool) {
        let has = |kind: &str| self.history.iter().any(|event| event["type"] == kind);
        let waits = has("SubOrchestrationScheduled") && !has("SubOrchestrationCompleted");
        if !has("ActivityCompleted") || !has("TimerFired") || waits {
            return;
        }
        self.closes = self.execution > 1 || at_once;
        if !self.closes {
            self.event("OrchestrationContinuedAsNew", 0, &json!({}));
            let next = json!({"instance": me, "carry_forward_events": []});
            self.messages.push(json!({"ContinueAsNew": next}));
            return;
        }
        self.event("OrchestrationCompleted", 0, &json!({"output": me}));
        if !parent.is_null() {
            let end = json!({"parent_instance": parent[0], "parent_execution_id": parent[1],
                "parent_id": 4, "result": me});
            self.messages.push(json!({"SubOrchCompleted": end}));
        }
    }
}

/// Whether a call takes effect, and what its caller is told.
type Fate = (bool, Option<&'static str>);

fn digest(history: &[Value]) -> State {
    let hashes = history
        .iter()
        .map(|event| event["hash"].as_str().unwrap_or_default());
    hashes.fold(ROOT, State::then)
}

fn name(instance: usize) -> String {
    format!("i{instance}")
}

impl Sound {
    /// Makes a history of about so many calls.
    pub(crate) fn run(seed: u64, calls: u64, fault: Option<Fault>) -> String {
        let mut run = Self {
            text: Text::new(&["client", "a", "b", "c"]),
            random: Random(seed),
            instances: Vec::new(),
            activities: Vec::new(),
            holders: Vec::new(),
            workers: Vec::new(),
            lists: Default::default(),
            next: 0,
            token: 0,
            entry: 0,
            calm: false,
            fault,
        };
        while run.text.calls < calls {
            run.step();
        }
        run.calm = true;
        while run.instances.iter().any(|instance| !instance.ended) {
            run.turn();
            run.work();
            run.text.pass();
        }
        run.text.note("rest");
        run.text.lines
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn fate(&mut self) -> Fate {
        let outcome = if self.calm { 9 } else { self.random.below(20) };
        match outcome {
            0 => (true, Some("unknown")),
            1 => (false, Some("unknown")),
            2 => (true, None),
            3 => (false, None),
            4 => (true, Some("none")),
            5 => (false, Some("definite")),
            _ => (true, Some("ok")),
        }
    }

    fn step(&mut self) {
        match self.random.below(12) {
            0 => self.start(&Value::Null),
            1 | 2 => self.event(),
            3..=6 => self.turn(),
            7 | 8 => self.work(),
            9 => self.look(),
            10 => self.transaction(),
            _ => self.effects(),
        }
    }

    /// Starts an instance, at once for a parent, or by a call that is repeated until it succeeds.
    fn start(&mut self, parent: &Value) {
        let instance = self.instances.len();
        let begin = json!({"StartOrchestration": {"instance": name(instance), "parent_instance": parent[0]}});
        self.instances.push(Instance {
            execution: 1,
            parent: parent.clone(),
            ..Instance::default()
        });
        if parent.is_null() {
            loop {
                let (effect, told) = self.fate();
                if effect {
                    let number = self.number();
                    self.instances[instance]
                        .messages
                        .push((number, 0, begin.clone()));
                }
                self.text.done(
                    0,
                    "enqueue_for_orchestrator",
                    &json!({"item": begin}),
                    told,
                    &Value::Null,
                );
                if told == Some("ok") {
                    break;
                }
            }
        } else {
            let number = self.number();
            self.instances[instance].messages.push((number, 0, begin));
        }
    }

    fn event(&mut self) {
        if self.instances.is_empty() {
            return;
        }
        let (to, number) = (self.random.below(self.instances.len()), self.number());
        let kind = ["QueueMessage", "ExternalRaised"][self.random.below(2)];
        let item = json!({kind: {"instance": name(to), "name": "q", "data": number.to_string()}});
        let (mut effect, told) = self.fate();
        effect &= self.fault != Some(Fault::LosesEvents) || self.random.below(5) > 0;
        let times = if self.fault == Some(Fault::DoublesEvents) {
            2
        } else {
            1
        };
        for _ in 0..usize::from(effect) * times {
            self.instances[to].messages.push((number, 0, item.clone()));
        }
        self.text.done(
            0,
            "enqueue_for_orchestrator",
            &json!({"item": item}),
            told,
            &Value::Null,
        );
    }

    /// Fetches a turn, or commits one.
    fn turn(&mut self) {
        if !self.holders.is_empty() && self.random.below(3) > 0 {
            let holder = self.random.below(self.holders.len());
            let holder = self.holders.swap_remove(holder);
            return self.commit(&holder);
        }
        let now = self.text.wall();
        let takes_over = self.calm || self.random.below(10) == 0;
        let due = self.instances.iter().enumerate().filter(|(_, it)| {
            (takes_over || it.lock.is_none()) && it.messages.iter().any(|message| message.1 <= now)
        });
        let due: Vec<usize> = due.map(|(at, _)| at).collect();
        if due.is_empty() {
            return;
        }
        let instance = due[self.random.below(due.len())];
        let (process, token) = (1 + self.random.below(3), self.number());
        let it = &mut self.instances[instance];
        it.lock = Some(token);
        let messages = it
            .messages
            .iter()
            .filter(|message| message.1 <= now)
            .cloned()
            .collect();
        let holder = Holder {
            process,
            token,
            instance,
            execution: it.execution,
            history: it.history.clone(),
            messages,
        };
        let state = digest(&holder.history);
        let messages: Vec<&Value> = holder.messages.iter().map(|it| &it.2).collect();
        let result = json!({
            "instance": name(instance), "token": token.to_string(), "execution_id": holder.execution,
            "history": {"events": state.events, "hash": state.digest(), "last": holder.history.last()},
            "messages": messages,
        });
        self.text.done(
            process,
            "fetch_orchestration_item",
            &Value::Null,
            Some("ok"),
            &result,
        );
        self.holders.push(holder);
    }

    /// Decides a turn: what the orchestration does with its messages.
    fn decide(&self, holder: &Holder) -> Turn {
        let ended = holder.history.last().is_some_and(crate::history::is_end);
        let mut messages = holder.messages.iter();
        let next = messages.any(|it| it.2.get("ContinueAsNew").is_some());
        let mut turn = Turn {
            token: holder.token,
            execution: holder.execution + u64::from(next),
            history: if next {
                Vec::new()
            } else {
                holder.history.clone()
            },
            ..Turn::default()
        };
        turn.before = turn.history.len();
        if ended && !next {
            return turn;
        }
        let me = name(holder.instance);
        if turn.before == 0 {
            turn.event(
                "OrchestrationStarted",
                0,
                &json!({"carry_forward_events": null}),
            );
            turn.event("ActivityScheduled", 0, &json!({}));
            let fire = self.text.wall() + 50;
            turn.event("TimerCreated", 0, &json!({"fire_at_ms": fire}));
            let at = json!({"instance": me, "execution_id": turn.execution, "id": 2});
            turn.activities.push(json!({"ActivityExecute": at}));
            let timer = json!({"TimerFired": {"instance": me, "id": 3, "fire_at_ms": fire}});
            turn.messages.push(timer);
            let is_root = self.instances[holder.instance].parent.is_null();
            turn.child = is_root && turn.execution == 1 && holder.instance.is_multiple_of(4);
            if turn.child {
                turn.event("SubOrchestrationScheduled", 0, &json!({}));
            }
        }
        for (_, _, message) in &holder.messages {
            let (kind, it) = message.as_object().unwrap().iter().next().unwrap();
            let result = json!({"result": it["result"]});
            match &**kind {
                "ActivityCompleted" => turn.event(kind, 2, &result),
                "TimerFired" => turn.event(kind, 3, &json!({})),
                "SubOrchCompleted" => turn.event("SubOrchestrationCompleted", 4, &result),
                "QueueMessage" => turn.event("ExternalEventPersistent", 0, it),
                "ExternalRaised" => turn.event("ExternalEvent", 0, it),
                _ => {}
            }
        }
        let parent = &self.instances[holder.instance].parent;
        turn.end(&me, parent, !holder.instance.is_multiple_of(3));
        turn
    }

    fn commit(&mut self, holder: &Holder) {
        let (instance, token) = (holder.instance, holder.token);
        let turn = self.decide(holder);
        let args = json!({"token": token.to_string(), "execution_id": turn.execution,
            "events": turn.history[turn.before..], "activities": turn.activities, "messages": turn.messages});
        let (mut again, mut done) = (true, false);
        while again {
            let (mut effect, mut told) = self.fate();
            let accepts = self.fault == Some(Fault::AcceptsFormerHolders);
            let is_held = accepts || self.instances[instance].lock == Some(token);
            effect &= is_held && !done;
            let refused = !is_held && !done;
            if refused || !effect && !done && told == Some("ok") {
                told = told.map(|_| "definite");
            }
            let (process, op) = (holder.process, "ack_orchestration_item");
            self.text
                .done(process, op, &args.clone(), told, &Value::Null);
            done |= effect;
            if effect {
                self.apply(holder, &turn);
            }
            again = told == Some("unknown");
        }
    }

    fn apply(&mut self, holder: &Holder, turn: &Turn) {
        let it = &mut self.instances[holder.instance];
        (it.lock, it.execution) = (None, turn.execution);
        it.history.clone_from(&turn.history);
        it.ended |= turn.closes;
        let is_received = |number| holder.messages.iter().any(|one| one.0 == number);
        it.messages.retain(|message| !is_received(message.0));
        let items = turn.activities.iter().cloned();
        let items = items.map(|item| Activity {
            item,
            lock: None,
            done: false,
        });
        self.activities.extend(items);
        for message in &turn.messages {
            self.send(message);
        }
        if turn.child {
            self.start(&json!([name(holder.instance), 1]));
        }
    }

    fn send(&mut self, message: &Value) {
        let (_, it) = message.as_object().unwrap().iter().next().unwrap();
        let to = it["instance"]
            .as_str()
            .or(it["parent_instance"].as_str())
            .unwrap();
        let (to, number): (usize, u64) = (to[1..].parse().unwrap(), self.number());
        let from = it["fire_at_ms"].as_u64().unwrap_or(0);
        let from = if self.fault == Some(Fault::FiresEarly) {
            0
        } else {
            from
        };
        self.instances[to]
            .messages
            .push((number, from, message.clone()));
    }

    /// Fetches an activity, or ends one.
    fn work(&mut self) {
        if !self.workers.is_empty() && self.random.below(3) > 0 {
            let at = self.random.below(self.workers.len());
            let (process, token, activity) = self.workers.swap_remove(at);
            let it = &self.activities[activity];
            let is_held = it.lock == Some(token) && !it.done;
            let is_held = is_held || self.fault == Some(Fault::AcceptsFormerHolders);
            let (effect, told) = self.fate();
            let mut end = self.activities[activity].item["ActivityExecute"].clone();
            end["result"] = json!(token.to_string());
            let completion = json!({"ActivityCompleted": end});
            let told = if is_held {
                told
            } else {
                told.map(|_| "definite")
            };
            let args = json!({"token": token.to_string(), "completion": completion});
            self.text
                .done(process, "ack_work_item", &args, told, &Value::Null);
            if effect && is_held {
                self.activities[activity].done = true;
                self.send(&completion);
            }
            return;
        }
        let takes_over = self.calm || self.random.below(10) == 0;
        let due = self.activities.iter().enumerate();
        let due = due.filter(|(_, it)| !it.done && (takes_over || it.lock.is_none()));
        let due: Vec<usize> = due.map(|(at, _)| at).collect();
        if due.is_empty() {
            return;
        }
        let activity = due[self.random.below(due.len())];
        let (process, token) = (1 + self.random.below(3), self.number());
        self.activities[activity].lock = Some(token);
        let result = json!({"item": self.activities[activity].item, "token": token.to_string()});
        self.text.done(
            process,
            "fetch_work_item",
            &Value::Null,
            Some("ok"),
            &result,
        );
        self.workers.push((process, token, activity));
    }

    fn look(&mut self) {
        if self.instances.is_empty() {
            return;
        }
        let instance = self.random.below(self.instances.len());
        let history = &self.instances[instance].history;
        let state = digest(history);
        let result =
            json!({"events": state.events, "hash": state.digest(), "last": history.last()});
        let args = json!({"instance": name(instance), "execution_id": null});
        self.text.done(0, "read", &args, Some("ok"), &result);
    }
}
