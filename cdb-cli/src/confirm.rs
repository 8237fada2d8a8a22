//! What cannot be undone is shown first, and done with `--yes` only.

use std::fmt;

use cdb_provider::documents::Status;
use clap::Args;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::output::{Console, short, table};
use crate::view::instances::Row;

/// Whether to do it.
#[derive(Debug, Args)]
pub(crate) struct Confirmation {
    /// Do it
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// What would be done.
pub(crate) trait Planned: Serialize + fmt::Display {
    /// To how many.
    fn count(&self) -> u64;
}

/// What would be done to instances.
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

    /// One of those that are named and have more to do.
    pub(crate) fn running(&self) -> Option<&str> {
        let mut rows = self.instances.iter();
        let row = rows.find(|row| row.status == Status::Running)?;
        Some(&row.id)
    }

    /// More than are named.
    pub(crate) fn of_many(action: &'static str, count: u64, some: Vec<Row>) -> Self {
        Self {
            action,
            count,
            instances: some,
        }
    }
}

impl Confirmation {
    /// Shows the plan unless it is to be carried out, and says how to end then. A plan of nothing needs no confirmation.
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
            "nothing was changed; repeat it with --yes to do it, or with --dry-run to look only",
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
