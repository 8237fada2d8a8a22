//! Redrives and discards dead messages.

use std::collections::HashSet;
use std::fmt;

use cdb_model::Timestamp;
use clap::Args;
use serde::Serialize;

use crate::command::confirm::{Confirmation, PlanDigest, PlanItem, Planned, check_planned};
use crate::exit::{Exit, Failure};
use crate::model::messages::{
    Action, FailedMessages, MessageName, MessageRow, Outcome, Source, State,
};
use crate::output::{Console, counted};
use crate::view::messages::failed::message_table;

/// The number of messages between two progress reports.
const BATCH: usize = 100;

/// The arguments of `redrive` and `discard`.
#[derive(Debug, Args)]
pub(super) struct Chosen {
    #[command(flatten)]
    which: Which,
    /// With --all: only messages between instances, between partitions, or of ordered work
    #[arg(long, conflicts_with = "names")]
    source: Option<Source>,
    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// Names, as `messages list` shows them
    #[arg(value_name = "NAME")]
    names: Vec<MessageName>,
    /// All that are dead now
    #[arg(long)]
    all: bool,
}

/// The plan without `--yes`.
#[derive(Serialize)]
struct Plan {
    #[serde(rename = "would")]
    action: &'static str,
    count: u64,
    /// The digest of all messages, if the plan lists none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    messages: Vec<MessageRow>,
    #[serde(flatten)]
    skipped: Skipped,
    now: Timestamp,
}

/// The given names that are not changed.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Skipped {
    /// Those without a message, which an earlier run may have redriven or discarded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_found: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    retrying: Vec<String>,
}

/// The result of a command, in numbers.
#[derive(Debug, Serialize)]
struct Done<'a> {
    action: &'static str,
    /// The name of the operator.
    by: &'a str,
    messages: u64,
    /// The number that another process had redriven or discarded before.
    gone: u64,
    /// Those that stay, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
    #[serde(flatten)]
    skipped: Skipped,
}

impl Chosen {
    pub(super) async fn run(
        &self,
        messages: &FailedMessages,
        action: Action,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let (would, did) = match action {
            Action::Redrive => ("redrive", "redrove"),
            Action::Discard => ("discard", "discarded"),
        };
        let (plan, names) = self.plan(messages, would).await?;
        if names.is_empty() && !plan.skipped.is_empty() {
            return Err(Failure::finding(plan.skipped.to_string()));
        }
        let exit = plan.skipped.exit();
        if self.confirmation.is_missing() {
            self.confirmation.stop(&plan, console)?;
            return Ok(exit);
        }
        if let Some(planned) = self.confirmation.planned() {
            check_planned(plan.digest(), planned)?;
        }
        let is_single = names.len() == 1 && plan.skipped.is_empty();
        let mut done = Done {
            action: did,
            by: &self.confirmation.operator.by,
            messages: 0,
            gone: 0,
            refused: Vec::new(),
            skipped: plan.skipped,
        };
        for (number, name) in names.iter().enumerate() {
            match messages.apply(name, action).await {
                Ok(Outcome::Done) => done.messages += 1,
                Ok(Outcome::Gone) => done.gone += 1,
                Err(refused) if is_single => return Err(refused),
                // One message must not stop the others; the next run finds it again.
                Err(refused) => done.refused.push(format!("{name}: {}", refused.message)),
            }
            if (number + 1) % BATCH == 0 {
                console.progress(format!("{} of {} messages", number + 1, names.len()))?;
            }
        }
        console.answer(&done)?;
        if done.refused.is_empty() {
            return Ok(exit);
        }
        Ok(Exit::Finding)
    }

    /// Returns the plan, and the names of its messages, each once.
    async fn plan(
        &self,
        messages: &FailedMessages,
        action: &'static str,
    ) -> Result<(Plan, Vec<MessageName>), Failure> {
        let (mut names, mut rows) = (Vec::new(), Vec::new());
        let (mut skipped, mut known) = (Skipped::default(), HashSet::new());
        for name in &self.which.names {
            let text = name.to_string();
            if !known.insert(text.clone()) {
                continue;
            }
            match messages.find(name).await? {
                Some(found) if found.row.state == State::Dead => {
                    rows.push(found.row);
                    names.push(name.clone());
                }
                Some(_) => skipped.retrying.push(text),
                // An interrupted run has done so, and must not stop the next one.
                None => skipped.not_found.push(text),
            }
        }
        let mut digest = None;
        if self.which.all {
            // All names before the first change, so that a message that fails again is not processed
            // twice.
            names = messages.dead(self.source).await?;
            let mut all = PlanDigest::default();
            for name in &names {
                all.add(PlanItem::of(&[&name.to_string()]));
            }
            digest = Some(all.finish());
        }
        let plan = Plan {
            action,
            count: names.len() as u64,
            digest,
            messages: rows,
            skipped,
            now: messages.now(),
        };
        Ok((plan, names))
    }
}

impl Skipped {
    fn is_empty(&self) -> bool {
        self.not_found.is_empty() && self.retrying.is_empty()
    }

    fn exit(&self) -> Exit {
        if self.is_empty() {
            Exit::Ok
        } else {
            Exit::Finding
        }
    }
}

impl Planned for Plan {
    fn count(&self) -> u64 {
        self.count
    }

    fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = counted(self.count, "message");
        writeln!(f, "would {} {what}", self.action)?;
        if !self.messages.is_empty() {
            f.write_str(&message_table(&self.messages, self.now))?;
        }
        self.skipped.fmt(f)
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |names: &[String]| format!("`{}`", names.join("`, `"));
        let lines = [
            (
                "not found",
                &self.not_found,
                "redriven or discarded before, or the name is wrong",
            ),
            (
                "retried by itself",
                &self.retrying,
                "only dead messages are redriven or discarded",
            ),
        ];
        let lines = lines.iter().filter(|(_, names, _)| !names.is_empty());
        let lines = lines.map(|(state, names, why)| format!("{state}: {}; {why}", quoted(names)));
        f.write_str(&lines.collect::<Vec<_>>().join("\n"))
    }
}

impl fmt::Display for Done<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = counted(self.messages, "message");
        write!(f, "{} {what}", self.action)?;
        if self.gone > 0 {
            write!(f, "; {} no longer existed", self.gone)?;
        }
        for refused in &self.refused {
            write!(f, "\nnot {}: {refused}", self.action)?;
        }
        if !self.skipped.is_empty() {
            write!(f, "\n{}", self.skipped)?;
        }
        Ok(())
    }
}
