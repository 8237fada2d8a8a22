//! Applies all rules, and prints what they find.

use std::fmt::Write as _;

use crate::history::History;
use crate::read::Record;
use crate::rule::{Anomaly, Found};
use crate::rules::rules;

/// What a judge says of a record.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What breaks a promise.
    pub anomalies: Vec<Anomaly>,
    /// The rules that were not applied.
    pub skipped: Vec<&'static str>,
    turns: usize,
    executions: usize,
    /// Commits that were refused and took effect.
    refused: usize,
}

/// Judges a record.
pub fn judge(record: &Record) -> Verdict {
    let history = History::of(record);
    let (mut anomalies, mut skipped) = (Vec::new(), Vec::new());
    for rule in rules() {
        if rule.needs_rest() && !record.rest {
            skipped.push(rule.name());
            continue;
        }
        let mut found = Found::default();
        rule.check(&history, &mut found);
        let rule = rule.name();
        let all = found.all.into_iter();
        anomalies.extend(all.map(|(text, proof)| Anomaly { rule, text, proof }));
    }
    Verdict {
        anomalies,
        skipped,
        turns: history.committed().count(),
        executions: history.executions.len(),
        refused: history.committed().filter(|turn| turn.is_refused()).count(),
    }
}

impl Verdict {
    /// Returns the verdict as text, with so many anomalies of a rule.
    pub fn text(&self, record: &Record, most: usize) -> String {
        let mut text = String::new();
        for rule in rules() {
            let of_rule = || self.anomalies.iter().filter(|it| it.rule == rule.name());
            for anomaly in of_rule().take(most) {
                let lines = anomaly.proof.iter().map(|at| record.place(at));
                let lines: Vec<String> = lines.collect();
                text += &format(&[
                    rule.name(),
                    ": ",
                    &anomaly.text,
                    "\n  promise: ",
                    rule.promise(),
                ]);
                text += &format(&["\n  lines: ", &lines.join(" "), "\n"]);
            }
            if let Some(more) = of_rule().count().checked_sub(most + 1) {
                text += &format(&[rule.name(), ": ", &(more + 1).to_string(), " more\n"]);
            }
        }
        if !self.skipped.is_empty() {
            text += &format(&[
                "not at rest, so not applied: ",
                &self.skipped.join(", "),
                "\n",
            ]);
        }
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{} calls, {} turns, {} executions, {} refused commits that took effect, {} incomplete lines, {} anomalies",
            record.calls.len(),
            self.turns,
            self.executions,
            self.refused,
            record.cut,
            self.anomalies.len()
        );
        text
    }
}

fn format(parts: &[&str]) -> String {
    parts.concat()
}

/// Returns the rules, one a line or as a table of a page.
pub fn rules_table(docs: bool) -> String {
    let row = |name: &str, promise: &str, rest: bool| match (docs, rest) {
        (true, true) => format!("| `{name}` | {promise}, at rest |\n"),
        (true, false) => format!("| `{name}` | {promise} |\n"),
        (false, true) => format!("{name}: {promise}, at rest\n"),
        (false, false) => format!("{name}: {promise}\n"),
    };
    let rules = rules();
    let rows = rules
        .iter()
        .map(|it| row(it.name(), it.promise(), it.needs_rest()));
    let head = if docs {
        "| rule | promise |\n|---|---|\n"
    } else {
        ""
    };
    head.to_owned() + &rows.collect::<String>()
}
