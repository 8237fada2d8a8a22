//! Reads records: calls with their answers, and notes. Knows the form of the lines, but no promise.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// The differences of a clock's times in two processes of a machine, in microseconds.
const SAME_MACHINE: u64 = 30_000;

/// The operations that a record may have.
const OPERATIONS: [&str; 20] = [
    "fetch_orchestration_item",
    "ack_orchestration_item",
    "abandon_orchestration_item",
    "renew_orchestration_item_lock",
    "enqueue_for_orchestrator",
    "enqueue_for_worker",
    "fetch_work_item",
    "ack_work_item",
    "abandon_work_item",
    "renew_work_item_lock",
    "append_with_execution",
    "read",
    "read_with_execution",
    "get_instance_info",
    "delete",
    "message",
    "entry",
    "lease-acquire",
    "lease-write",
    "transaction",
];

/// How a call ended, as far as its caller knows. A call without an answer has the outcome `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// It took effect.
    Ok,
    /// It has no effect.
    Definite,
    /// It may have taken effect.
    Unknown,
    /// It may have taken effect: no answer arrived.
    None,
}

/// A line, with its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Moment {
    pub(crate) file: usize,
    pub(crate) line: usize,
    pub(crate) process: usize,
    clock: usize,
    /// Microseconds.
    mono: u64,
    /// Milliseconds since 1970.
    pub(crate) wall: u64,
}

/// A call and its answer.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) op: String,
    pub(crate) args: Value,
    pub(crate) begin: Moment,
    pub(crate) end: Option<Moment>,
    pub(crate) outcome: Outcome,
    pub(crate) result: Value,
}

impl Call {
    pub(crate) fn is_sure(&self) -> bool {
        self.outcome == Outcome::Ok
    }

    /// Returns whether the call has no effect. A refused commit may have been processed before: duroxide
    /// calls that an invalid lock token (`providers/error.rs`), and docs/liveness.md lets a commit go on
    /// without its dispatcher.
    pub(crate) fn is_refused(&self) -> bool {
        self.outcome == Outcome::Definite && !self.op.starts_with("ack_")
    }

    pub(crate) fn text(&self, field: &str) -> &str {
        self.args[field].as_str().unwrap_or_default()
    }
}

/// What the files of a run say.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub(crate) files: Vec<String>,
    pub(crate) calls: Vec<Call>,
    /// Notes and their instances.
    pub(crate) notes: BTreeSet<(String, String)>,
    /// Whether a file has the note that everything has come to rest. Polls may follow.
    pub(crate) rest: bool,
    /// Files whose last line is incomplete.
    pub(crate) cut: usize,
    skew: u64,
    names: Names,
}

/// The numbers of processes and clocks.
#[derive(Clone, Debug, Default)]
struct Names {
    all: HashMap<String, usize>,
    clocks: HashMap<usize, usize>,
}

impl Names {
    fn number(&mut self, name: String) -> usize {
        let next = self.all.len();
        *self.all.entry(name).or_insert(next)
    }
}

#[derive(Deserialize)]
struct Line {
    kind: String,
    process: String,
    mono: u64,
    wall: u64,
    format: Option<u32>,
    clock: Option<String>,
    call: Option<u64>,
    op: Option<String>,
    #[serde(default)]
    args: Value,
    outcome: Option<Outcome>,
    #[serde(default)]
    result: Value,
    note: Option<String>,
    instance: Option<String>,
}

impl Record {
    /// Returns the number of recorded calls.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Reads the files of all processes of a run.
    ///
    /// # Errors
    /// If a file cannot be read, or has a line that is no line of a record.
    pub fn read(paths: &[PathBuf], skew: u64) -> Result<Self, String> {
        let mut record = Self::new(skew);
        for path in paths {
            let name = path.display().to_string();
            let text =
                std::fs::read(path).map_err(|error| format!("cannot read {name}: {error}"))?;
            record.add(&name, &String::from_utf8_lossy(&text))?;
        }
        Ok(record)
    }

    /// Creates an empty record of processes whose clocks differ by so many milliseconds at most.
    pub fn new(skew: u64) -> Self {
        Self {
            skew,
            ..Self::default()
        }
    }

    /// Adds the text of a file.
    ///
    /// # Errors
    /// If a line is no line of a record, except for an incomplete last one.
    pub fn add(&mut self, name: &str, text: &str) -> Result<(), String> {
        let file = self.files.len();
        self.files.push(name.to_owned());
        let mut open = HashMap::new();
        let mut rest = false;
        for (number, text) in text.split_inclusive('\n').enumerate() {
            if !text.ends_with('\n') {
                self.cut += 1;
                break;
            }
            let at = || format!("{name}:{}", number + 1);
            let line: Line =
                serde_json::from_str(text).map_err(|error| format!("{}: {error}", at()))?;
            rest |= line.note.as_deref() == Some("rest");
            self.line(line, file, number + 1, &mut open)
                .map_err(|error| format!("{}: {error}", at()))?;
        }
        self.rest |= rest;
        Ok(())
    }

    fn line(
        &mut self,
        line: Line,
        file: usize,
        number: usize,
        open: &mut HashMap<u64, usize>,
    ) -> Result<(), String> {
        let process = self
            .names
            .number(format!("process {file} {}", line.process));
        if line.kind == "begin" {
            if line.format != Some(1) {
                return Err(format!("format {:?} is not 1", line.format));
            }
            let clock = self
                .names
                .number(format!("clock {}", line.clock.unwrap_or_default()));
            self.names.clocks.insert(process, clock);
            return Ok(());
        }
        let clock = self.names.clocks.get(&process);
        let moment = Moment {
            file,
            line: number,
            process,
            clock: *clock.ok_or("the process has no line of kind `begin`")?,
            mono: line.mono,
            wall: line.wall,
        };
        let missing = |field: &str| format!("`{}` without `{field}`", line.kind);
        match &*line.kind {
            "call" => {
                let op = line.op.ok_or_else(|| missing("op"))?;
                if !OPERATIONS.contains(&&*op) && op != "lease-release" {
                    return Err(format!("unknown operation `{op}`"));
                }
                open.insert(line.call.ok_or_else(|| missing("call"))?, self.calls.len());
                self.calls.push(Call {
                    op,
                    args: line.args,
                    begin: moment,
                    end: None,
                    outcome: Outcome::None,
                    result: Value::Null,
                });
            }
            "answer" => {
                let call = line.call.and_then(|call| open.remove(&call));
                let call = &mut self.calls[call.ok_or("an answer without its call")?];
                call.outcome = line.outcome.ok_or_else(|| missing("outcome"))?;
                call.end = Some(moment);
                call.result = line.result;
            }
            "note" => {
                let note = line.note.ok_or_else(|| missing("note"))?;
                if !["rest", "waiting", "changed", "retention"].contains(&&*note) {
                    return Err(format!("unknown note `{note}`"));
                }
                self.notes.insert((note, line.instance.unwrap_or_default()));
            }
            kind => return Err(format!("unknown kind `{kind}`")),
        }
        Ok(())
    }

    /// Returns whether a moment was certainly before another one.
    pub(crate) fn is_before(&self, one: &Moment, other: &Moment) -> bool {
        if one.file == other.file {
            return one.line < other.line; // lines are written in their order
        }
        if one.clock == other.clock {
            return one.mono + SAME_MACHINE < other.mono;
        }
        one.wall + self.skew < other.wall
    }

    /// Returns the milliseconds between two moments, and by how much they may be wrong.
    pub(crate) fn elapsed(&self, from: &Moment, to: &Moment) -> (u64, u64) {
        let mono = to.mono.saturating_sub(from.mono) / 1000;
        match () {
            () if from.file == to.file => (mono, 5),
            () if from.clock == to.clock => (mono, SAME_MACHINE / 1000 + 5),
            () => (to.wall.saturating_sub(from.wall), self.skew),
        }
    }

    /// Returns the calls of an operation.
    pub(crate) fn of<'a>(&'a self, op: &'a str) -> impl Iterator<Item = &'a Call> {
        self.calls.iter().filter(move |call| call.op == op)
    }

    pub(crate) fn place(&self, moment: &Moment) -> String {
        format!("{}:{}", self.files[moment.file], moment.line)
    }
}
