//! The results of the commands that change instances.

use std::fmt;

use duroxide::providers::{DeleteInstanceResult, ProviderError, PruneResult};
use serde::Serialize;

use super::chosen::Chosen;
use crate::exit::{Exit, Failure};
use crate::output::counted;

/// The result of a change.
pub(super) trait Report: Serialize + fmt::Display {
    /// Returns the report before the first change.
    fn of(action: &'static str, by: &str) -> Self;

    /// Returns the text of the progress line.
    fn progress(&self) -> String;

    /// Adds an instance that was not changed, with the reason.
    fn refuse(&mut self, reason: String);

    fn refused(&self) -> &[String];

    fn exit(&self) -> Exit {
        match self.refused() {
            [] => Exit::Ok,
            _ => Exit::Finding,
        }
    }
}

/// The action in the report of `cancel`.
pub(super) const CANCELLED: &str = "cancelled";

/// What was deleted or sent, in numbers.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    action: &'static str,
    /// The name of the operator.
    by: String,
    pub(super) instances: u64,
    executions: u64,
    events: u64,
    pub(super) messages: u64,
    /// The paused ones among the cancelled instances.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) paused: u64,
    /// Those that have not begun.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) unbegun: u64,
    /// The instances that had ended or were deleted before, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference to the field"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The instances that have a new course, and those that have none.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcomes {
    #[serde(skip)]
    action: &'static str,
    /// The name of the operator.
    by: String,
    pub(super) instances: u64,
    /// Instances that an earlier run had restarted; `None` for `rewind`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) known: Option<u64>,
    /// The ids of the instances that were started.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) started: Vec<String>,
    /// The instances that were in the wanted state already, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unchanged: Vec<String>,
    /// The instances that could not be changed, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) refused: Vec<String>,
}

impl Counts {
    pub(super) fn add_deleted(&mut self, result: &DeleteInstanceResult) {
        self.instances += result.instances_deleted;
        self.executions += result.executions_deleted;
        self.events += result.events_deleted;
        self.messages += result.queue_messages_deleted;
    }

    pub(super) fn add_pruned(&mut self, result: &PruneResult) {
        self.instances += result.instances_processed;
        self.executions += result.executions_deleted;
        self.events += result.events_deleted;
    }
}

impl Outcomes {
    /// Adds what became of a chosen instance: the instances that were changed. One instance that is
    /// refused does not stop the others; the next run finds it again.
    ///
    /// # Errors
    /// When the only chosen instance is refused.
    pub(super) fn add(
        &mut self,
        changed: Result<Vec<String>, ProviderError>,
        chosen: &Chosen,
    ) -> Result<(), Failure> {
        match changed {
            Ok(changed) => self.instances += changed.len() as u64,
            Err(refused) if chosen.is_single() => return Err(refused.into()),
            Err(refused) => self.refused.push(refused.message),
        }
        Ok(())
    }
}

impl Report for Counts {
    fn of(action: &'static str, by: &str) -> Self {
        Self {
            action,
            by: by.to_owned(),
            ..Self::default()
        }
    }

    fn progress(&self) -> String {
        let events = counted(self.events, "event");
        format!("{}, {events}", counted(self.instances, "instance"))
    }

    fn refuse(&mut self, reason: String) {
        self.refused.push(reason);
    }

    fn refused(&self) -> &[String] {
        &self.refused
    }
}

impl Report for Outcomes {
    fn of(action: &'static str, by: &str) -> Self {
        Self {
            action,
            by: by.to_owned(),
            ..Self::default()
        }
    }

    fn progress(&self) -> String {
        self.to_string()
    }

    fn refuse(&mut self, reason: String) {
        self.refused.push(reason);
    }

    fn refused(&self) -> &[String] {
        &self.refused
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action, counted(self.instances, "instance"))?;
        if self.action == CANCELLED {
            f.write_str("; an instance ends at its next turn")?;
        }
        match (self.paused, self.instances) {
            (0, _) => {}
            (1, 1) => f.write_str("; it is paused, so `resume` it first")?,
            (some, _) => write!(f, "; {some} of them are paused, so `resume` them first")?,
        }
        match (self.unbegun, self.instances) {
            (0, _) => {}
            (1, 1) => f.write_str("; it has not begun, and `delete --force` removes it at once")?,
            (some, _) => write!(
                f,
                "; {some} of them have not begun, and `delete --force` removes these at once"
            )?,
        }
        if self.executions + self.events > 0 {
            let executions = counted(self.executions, "execution");
            let events = counted(self.events, "event");
            write!(f, ": {executions} and {events} deleted")?;
        }
        write_refused(f, self.action, &self.refused)
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action, counted(self.instances, "instance"))?;
        if let Some(known) = self.known {
            if known > 0 {
                write!(f, "; restarted before: {known}")?;
            }
            match &*self.started {
                [one] => write!(
                    f,
                    " as `{one}`; a runtime that has the orchestration registered starts it"
                )?,
                _ => {
                    f.write_str("; a runtime that has the orchestration registered starts them")?;
                }
            }
        }
        let mut unchanged = self.unchanged.iter();
        unchanged.try_for_each(|unchanged| write!(f, "\n{unchanged}"))?;
        write_refused(f, self.action, &self.refused)
    }
}

fn write_refused(f: &mut fmt::Formatter<'_>, action: &str, refused: &[String]) -> fmt::Result {
    let mut refused = refused.iter();
    refused.try_for_each(|refused| write!(f, "\nnot {action}: {refused}"))
}
