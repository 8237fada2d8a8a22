//! Every rule finds its planted anomaly, and no rule finds one in a sound history.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::history::{ROOT, State};
use crate::rules::rules;
use crate::sound::{Fault, Sound};
use crate::{Record, judge};

/// The text of a record.
pub(crate) struct Text {
    pub(crate) lines: String,
    pub(crate) calls: u64,
    processes: Vec<&'static str>,
    time: u64,
}

impl Text {
    pub(crate) fn new(processes: &[&'static str]) -> Self {
        let mut text = Self {
            lines: String::new(),
            calls: 0,
            processes: processes.to_vec(),
            time: 1_000_000_000,
        };
        for process in 0..processes.len() {
            text.line(process, json!({"kind": "begin", "format": 1, "clock": "c"}));
        }
        text
    }

    pub(crate) fn wall(&self) -> u64 {
        self.time / 1000
    }

    /// Lets a millisecond pass.
    pub(crate) fn pass(&mut self) {
        self.time += 1000;
    }

    fn line(&mut self, process: usize, mut line: Value) {
        self.pass();
        line["process"] = json!(self.processes[process]);
        line["mono"] = json!(self.time);
        line["wall"] = json!(self.wall());
        writeln!(self.lines, "{line}").unwrap();
    }

    pub(crate) fn note(&mut self, note: &str) {
        self.line(0, json!({"kind": "note", "note": note}));
    }

    fn call(&mut self, process: usize, op: &str, args: &Value) -> u64 {
        self.calls += 1;
        let call = self.calls;
        self.line(
            process,
            json!({"kind": "call", "call": call, "op": op, "args": args}),
        );
        call
    }

    fn answer(&mut self, process: usize, call: u64, outcome: &str, result: &Value) {
        let line = json!({"kind": "answer", "call": call, "outcome": outcome, "result": result});
        self.line(process, line);
    }

    /// Adds a call and its answer, if there is one.
    pub(crate) fn done(
        &mut self,
        process: usize,
        op: &str,
        args: &Value,
        outcome: Option<&str>,
        result: &Value,
    ) {
        let call = self.call(process, op, args);
        if let Some(outcome) = outcome {
            let is_ok = outcome == "ok";
            self.answer(
                process,
                call,
                outcome,
                if is_ok { result } else { &Value::Null },
            );
        }
    }

    fn ok(&mut self, op: &str, args: &Value) {
        self.done(0, op, args, Some("ok"), &Value::Null);
    }

    fn sends(&mut self, item: &Value) {
        self.ok("enqueue_for_orchestrator", &json!({"item": item}));
    }

    /// A fetch of the history that `before` makes.
    fn fetches(&mut self, token: &str, execution: u64, before: &[Value]) -> State {
        let hashes = before.iter().map(|event| event["hash"].as_str().unwrap());
        let state = hashes.fold(ROOT, State::then);
        let history =
            json!({"events": state.events, "hash": state.digest(), "last": before.last()});
        let result = json!({"instance": "i", "token": token, "execution_id": execution,
            "history": history, "messages": []});
        self.done(
            0,
            "fetch_orchestration_item",
            &Value::Null,
            Some("ok"),
            &result,
        );
        state
    }

    fn commits(&mut self, token: &str, execution: u64, events: &[Value], messages: &[Value]) {
        let args = json!({"token": token, "execution_id": execution, "events": events, "messages": messages});
        self.ok("ack_orchestration_item", &args);
    }

    /// A turn of the instance `i`.
    fn turn(&mut self, token: &str, before: &[Value], events: &[Value]) {
        self.fetches(token, 1, before);
        self.commits(token, 1, events, &[]);
    }
}

/// An event.
fn event(id: u64, kind: &str, more: &Value) -> Value {
    let mut event =
        json!({"type": kind, "event_id": id, "execution_id": 1, "hash": format!("{kind}{id}")});
    event
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    event
}

fn plain(id: u64, kind: &str) -> Value {
    event(id, kind, &json!({}))
}

fn queued(data: &str) -> Value {
    json!({"QueueMessage": {"instance": "i", "name": "q", "data": data}})
}

fn start() -> Value {
    json!({"StartOrchestration": {"instance": "i"}})
}

fn delivered(id: u64, data: &str) -> Value {
    event(
        id,
        "ExternalEventPersistent",
        &json!({"name": "q", "data": data}),
    )
}

fn found(text: &str) -> Vec<&'static str> {
    let mut record = Record::new(0);
    record.add("a.jsonl", text).unwrap();
    let verdict = judge(&record);
    assert!(
        verdict.anomalies.iter().all(|it| !it.proof.is_empty()),
        "{}",
        verdict.text(&record, 9)
    );
    let mut found: Vec<_> = verdict.anomalies.iter().map(|it| it.rule).collect();
    found.dedup();
    found
}

/// Writes a small history that breaks one promise.
#[expect(clippy::too_many_lines, reason = "a table")]
fn plant(rule: &str, text: &mut Text) {
    let begun = [plain(1, "OrchestrationStarted")];
    let scheduled = [begun[0].clone(), plain(2, "ActivityScheduled")];
    let ended = |result: &str| {
        let more = json!({"source_event_id": 2, "result": result});
        event(3, "ActivityCompleted", &more)
    };
    let end = |token: &str| {
        let it = json!({"instance": "i", "execution_id": 1, "id": 2, "result": "r"});
        json!({"token": token, "completion": {"ActivityCompleted": it}})
    };
    match rule {
        "turns" => text.turn("t", &[], &[begun[0].clone(), plain(3, "TimerCreated")]),
        "histories" => {
            text.turn("t", &[], &begun);
            text.fetches("u", 1, &scheduled);
        }
        "ends" => {
            let end = [begun[0].clone(), plain(2, "OrchestrationCompleted")];
            text.turn("t", &[], &end);
            text.turn("u", &end, &[plain(3, "TimerCreated")]);
        }
        "failures" => {
            let why = json!({"details": {"Infrastructure": {"message": "503", "retryable": true}}});
            let end = event(2, "OrchestrationFailed", &why);
            text.turn("t", &[], &[begun[0].clone(), end]);
        }
        "starts" => {
            text.sends(&start());
            text.turn("t", &[], &begun);
            text.note("rest");
        }
        "queued" => {
            text.sends(&start());
            text.turn("t", &[], &begun);
            text.sends(&queued("1"));
            text.sends(&queued("2"));
            text.turn("u", &begun, &[delivered(2, "2"), delivered(3, "1")]);
        }
        "arrivals" => {
            text.turn("t", &[], &begun);
            text.sends(&queued("1"));
            text.note("rest");
        }
        "raised" => {
            text.sends(&json!({"ExternalRaised": {"instance": "i", "name": "q", "data": "1"}}));
            let raised = |id| event(id, "ExternalEvent", &json!({"name": "q", "data": "1"}));
            text.turn("t", &[], &[begun[0].clone(), raised(2), raised(3)]);
        }
        "carried" => {
            text.sends(&queued("1"));
            text.fetches("t", 1, &[]);
            let first = [
                begun[0].clone(),
                delivered(2, "1"),
                plain(3, "OrchestrationContinuedAsNew"),
            ];
            let next =
                json!({"ContinueAsNew": {"instance": "i", "carry_forward_events": [["q", "1"]]}});
            text.commits("t", 1, &first, &[next]);
            text.fetches("u", 1, &first);
            text.commits("u", 2, &begun, &[]);
        }
        "timers" => {
            let fire = text.wall() + 60_000;
            let timer = event(2, "TimerCreated", &json!({"fire_at_ms": fire}));
            let first = [begun[0].clone(), timer];
            text.turn("t", &[], &first);
            text.turn(
                "u",
                &first,
                &[event(3, "TimerFired", &json!({"source_event_id": 2}))],
            );
        }
        "activities" => {
            text.turn("t", &[], &scheduled);
            text.ok("ack_work_item", &end("a"));
            text.turn("u", &scheduled, &[ended("another")]);
        }
        "attempts" => {
            text.ok("ack_work_item", &end("a"));
            text.ok("ack_work_item", &end("b"));
        }
        "children" => {
            let first = [begun[0].clone(), plain(2, "SubOrchestrationScheduled")];
            text.turn("t", &[], &first);
            let result = json!({"source_event_id": 2, "result": "r"});
            text.turn(
                "u",
                &first,
                &[event(3, "SubOrchestrationCompleted", &result)],
            );
        }
        "status" => {
            for status in ["Completed", "Running"] {
                let args = json!({"instance": "i", "execution_id": null});
                let result = json!({"status": status, "execution_id": 1});
                text.done(0, "get_instance_info", &args, Some("ok"), &result);
            }
        }
        "locks" => {
            text.fetches("t", 1, &[]);
            text.fetches("u", 1, &[]);
            text.ok("renew_orchestration_item_lock", &json!({"token": "t"}));
        }
        "lists" => {
            text.ok("transaction", &json!([{"append": ["d", "1"]}]));
            text.done(
                0,
                "transaction",
                &json!([{"read": "d"}]),
                Some("ok"),
                &json!([[]]),
            );
        }
        "cycles" => {
            // Write skew: each reads before the other one writes.
            for (read, append) in [("x", "y"), ("y", "x")] {
                text.call(
                    0,
                    "transaction",
                    &json!([{"read": read}, {"append": [append, "1"]}]),
                );
            }
            text.answer(0, 1, "ok", &json!([[]]));
            text.answer(0, 2, "ok", &json!([[]]));
            let read = json!([{"read": "x"}, {"read": "y"}]);
            text.done(0, "transaction", &read, Some("ok"), &json!([["1"], ["1"]]));
        }
        "leases" => {
            for token in [5, 6] {
                let result = json!({"token": token});
                text.done(
                    0,
                    "lease-acquire",
                    &json!({"document": "d"}),
                    Some("ok"),
                    &result,
                );
            }
            text.ok("lease-write", &json!({"document": "d", "token": 5}));
        }
        "streams" => {
            for number in [1, 2, 1] {
                text.ok("entry", &json!({"stream": "s", "number": number}));
            }
        }
        "entries" => {
            text.ok("entry", &json!({"stream": "s", "number": 1}));
            text.ok("entry", &json!({"stream": "s", "number": 3}));
            text.note("rest");
        }
        "messages" => {
            text.ok("message", &json!({"receiver": "r", "id": "m"}));
            text.ok("message", &json!({"receiver": "r", "id": "m"}));
        }
        rule => panic!("no planted anomaly of `{rule}`"),
    }
}

#[test]
fn every_rule_finds_its_planted_anomaly_and_no_other_rule_does() {
    for rule in rules() {
        let mut text = Text::new(&["a"]);
        plant(rule.name(), &mut text);
        assert_eq!(found(&text.lines), [rule.name()], "{}", text.lines);
    }
}

#[test]
fn two_dispatchers_that_both_commit_are_found() {
    let mut text = Text::new(&["a"]);
    text.fetches("t", 1, &[]);
    text.turn("u", &[], &[plain(1, "OrchestrationStarted")]);
    let other = event(1, "OrchestrationStarted", &json!({"hash": "other"}));
    text.commits("t", 1, &[other], &[]);
    assert_eq!(found(&text.lines), ["turns", "locks"]);
    let (before, last) = text.lines.rsplit_once(r#""ok""#).unwrap();
    let unknown = [before, r#""unknown""#, last].concat();
    assert_eq!(found(&unknown), Vec::<&str>::new());
}

#[test]
fn the_faults_of_a_store_are_found() {
    let faults = [
        (Fault::LosesEvents, "queued"),
        (Fault::DoublesEvents, "queued"),
        (Fault::AcceptsFormerHolders, "locks"),
        (Fault::AcceptsFormerHolders, "attempts"),
        (Fault::FiresEarly, "timers"),
    ];
    for (fault, rule) in faults {
        let found =
            (0..20).find(|seed| found(&Sound::run(*seed, 2000, Some(fault))).contains(&rule));
        assert!(found.is_some(), "{fault:?}");
    }
}

#[test]
fn the_same_histories_with_unknown_outcomes_are_sound() {
    // What a lost answer excuses: the call may have had no effect, or a part of another one.
    for rule in [
        "attempts", "locks", "lists", "leases", "streams", "messages", "arrivals",
    ] {
        let mut text = Text::new(&["a"]);
        plant(rule, &mut text);
        let unknown = text.lines.lines().map(|line| {
            let is_fetch = line.contains("\"token\"") && line.contains("\"history\"");
            let is_read = line.contains("[[");
            let unknown = || line.replace(r#""outcome":"ok""#, r#""outcome":"unknown""#);
            if is_fetch || is_read {
                line.to_owned()
            } else {
                unknown()
            }
        });
        let unknown: Vec<String> = unknown.collect();
        assert_eq!(
            found(&(unknown.join("\n") + "\n")),
            Vec::<&str>::new(),
            "{rule}"
        );
    }
}

#[test]
fn sound_histories_have_no_anomaly() {
    for seed in 0..50 {
        let text = Sound::run(seed, 2000, None);
        let mut record = Record::new(0);
        record.add("a.jsonl", &text).unwrap();
        let verdict = judge(&record);
        assert!(
            verdict.anomalies.is_empty(),
            "seed {seed}: {}",
            verdict.text(&record, 3)
        );
        assert!(verdict.skipped.is_empty() && record.calls.len() >= 2000);
    }
}

#[test]
fn without_rest_rules_of_completeness_are_named_and_not_applied() {
    let mut text = Text::new(&["a"]);
    text.sends(&start());
    let mut record = Record::new(0);
    record.add("a.jsonl", &text.lines).unwrap();
    let said = judge(&record).text(&record, 3);
    assert!(
        said.starts_with("not at rest, so not applied: starts, arrivals, entries\n"),
        "{said}"
    );
}

#[test]
fn an_incomplete_last_line_is_accepted_and_unknown_kinds_are_refused_by_name() {
    let mut text = Text::new(&["a"]);
    text.sends(&start());
    let add = |text: &str| Record::new(0).add("a.jsonl", text);
    assert_eq!(add(&text.lines[..text.lines.len() - 9]), Ok(()));
    let odd = text
        .lines
        .replace("\"kind\":\"answer\"", "\"kind\":\"reply\"");
    assert_eq!(add(&odd), Err("a.jsonl:3: unknown kind `reply`".to_owned()));
    let odd = text.lines.replace("enqueue_for_orchestrator", "peek");
    assert_eq!(
        add(&odd),
        Err("a.jsonl:2: unknown operation `peek`".to_owned())
    );
}
