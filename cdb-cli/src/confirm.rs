//! The confirmation of destructive commands: without `--yes` a command only shows its plan.

use std::fmt;

use cdb_provider::documents::Status;
use clap::Args;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::output::{Console, short, table};
use crate::view::instances::Row;

/// The options `--yes` and `--dry-run`.
#[derive(Debug, Args)]
pub(crate) struct Confirmation {
    /// Make the change; without it the command only shows the plan
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Show the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// A plan of a destructive command.
pub(crate) trait Planned: Serialize + fmt::Display {
    /// The number of affected items.
    fn count(&self) -> u64;
}

/// A plan for instances.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    #[serde(rename = "would")]
    action: &'static str,
    count: u64,
    instances: Vec<Row>,
}

impl Plan {
    pub(crate) fn new(action: &'static str, instances: Vec<Row>) -> Self {
        Self {
            action,
            count: instances.len() as u64,
            instances,
        }
    }

    /// Returns the id of a running instance of the plan, if there is one.
    pub(crate) fn running(&self) -> Option<&str> {
        let mut rows = self.instances.iter();
        let row = rows.find(|row| row.status == Status::Running)?;
        Some(&row.id)
    }

    /// A plan for `count` instances that lists only `some` of them.
    pub(crate) fn of_many(action: &'static str, count: u64, some: Vec<Row>) -> Self {
        Self {
            action,
            count,
            instances: some,
        }
    }
}

impl Confirmation {
    /// Returns `None` when `--yes` was given. Otherwise shows the plan and returns the exit code;
    /// an empty plan needs no confirmation.
    ///
    /// # Errors
    /// When the plan is not empty and neither `--yes` nor `--dry-run` was given.
    pub(crate) fn stop_unless_given<P: Planned>(
        &self,
        plan: &P,
        console: &mut Console<'_>,
    ) -> Result<Option<Exit>, Failure> {
        if self.yes {
            return Ok(None);
        }
        console.answer(plan)?;
        if self.dry_run || plan.count() == 0 {
            return Ok(Some(Exit::Ok));
        }
        Err(Failure::usage(
            "nothing was changed; pass --yes to make the change, or --dry-run to see the plan only",
        ))
    }
}

impl Planned for Plan {
    fn count(&self) -> u64 {
        self.count
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "would {} {} instance(s)", self.action, self.count)?;
        let cells = |row: &Row| {
            vec![
                row.status.to_string(),
                short(&row.orchestration, 40),
                short(&row.id, 120),
            ]
        };
        let rows: Vec<Vec<String>> = self.instances.iter().map(cells).collect();
        if rows.is_empty() {
            return Ok(());
        }
        f.write_str(&table(&["STATUS", "ORCHESTRATION", "INSTANCE"], &rows))?;
        match self.count.saturating_sub(rows.len() as u64) {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}
