//! The confirmation of destructive commands: without `--yes` a command only shows its plan.

use std::fmt;

use clap::Args;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::exit::{Exit, Failure};
use crate::output::{Console, counted, short, table};
use crate::view::instances::Row;

/// The operator's name if none is given.
pub(crate) const UNKNOWN: &str = "unknown";

/// The name of the operator.
#[derive(Debug, Args)]
pub(crate) struct Operator {
    /// Who makes the change, for the record and the JSON answer; by default the user of this machine
    #[arg(
        long,
        value_name = "NAME",
        env = if cfg!(windows) { "USERNAME" } else { "USER" },
        hide_env = true,
        default_value = UNKNOWN
    )]
    pub(crate) by: String,
}

/// The options of a change that needs no confirmation, because it loses nothing.
#[derive(Debug, Args)]
pub(crate) struct Unconfirmed {
    /// Make the change, as without the option: nothing is lost by it
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Show the plan and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) operator: Operator,
}

/// The options of a change that needs a confirmation.
#[derive(Debug, Args)]
pub(crate) struct Confirmation {
    /// Make the change; without it the command only shows the plan
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Show the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(crate) operator: Operator,
    /// Change only what a plan with this digest covers, and nothing if other items match now
    #[arg(long, value_name = "DIGEST", requires = "yes")]
    planned: Option<String>,
}

/// A plan of a destructive command.
pub(crate) trait Planned: Serialize + fmt::Display {
    /// The number of affected items.
    fn count(&self) -> u64;

    /// The digest of the items; `None` if they are named.
    fn digest(&self) -> Option<&str>;
}

/// A plan for instances.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    #[serde(rename = "would")]
    action: &'static str,
    count: u64,
    /// The digest of all instances, if the plan lists the first of them only.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    instances: Vec<Row>,
}

/// The digest of the items that a plan covers: two selections with as many items differ in it.
#[derive(Debug, Default)]
pub(crate) struct PlanDigest(Sha256);

/// What identifies an item of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PlanItem(u128);

impl PlanItem {
    /// Creates the item that these texts identify.
    pub(crate) fn of(texts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for text in texts {
            hash.update(text.len().to_le_bytes());
            hash.update(text);
        }
        Self(half_of(hash))
    }
}

/// Returns half of the hash.
fn half_of(hash: Sha256) -> u128 {
    let hash = hash.finalize();
    u128::from_be_bytes(std::array::from_fn(|at| hash[at]))
}

impl PlanDigest {
    pub(crate) fn add(&mut self, item: PlanItem) {
        self.0.update(item.0.to_be_bytes());
    }

    /// Returns the digest in hexadecimal digits.
    pub(crate) fn finish(self) -> String {
        format!("{:032x}", half_of(self.0))
    }
}

impl Plan {
    /// A plan for `count` instances that lists `instances`, all or the first of them.
    pub(crate) fn new(action: &'static str, count: u64, instances: Vec<Row>) -> Self {
        Self {
            action,
            count,
            digest: None,
            instances,
        }
    }

    /// Adds the digest of all instances.
    pub(crate) fn with_digest(mut self, digest: Option<PlanDigest>) -> Self {
        self.digest = digest.map(PlanDigest::finish);
        self
    }

    /// The listed instances.
    pub(crate) fn rows(&self) -> &[Row] {
        &self.instances
    }

    pub(crate) fn take_rows(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.instances)
    }

    /// Lists these instances. `skipped` of those that were listed are not part of the plan.
    pub(crate) fn list(&mut self, instances: Vec<Row>, skipped: usize) {
        self.instances = instances;
        self.count -= skipped as u64;
    }
}

impl Confirmation {
    /// Whether `--yes` was not given, so that the command shows its plan.
    pub(crate) fn is_missing(&self) -> bool {
        !self.yes
    }

    /// Returns the digest of the plan that the change is limited to.
    pub(crate) fn planned(&self) -> Option<&str> {
        self.planned.as_deref()
    }

    /// Shows the plan and returns the exit code. An empty plan needs no confirmation.
    ///
    /// # Errors
    /// When the plan is not empty and `--dry-run` was not given.
    pub(crate) fn stop<P: Planned>(
        &self,
        plan: &P,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        console.answer(plan)?;
        if self.dry_run || plan.count() == 0 {
            return Ok(Exit::Ok);
        }
        let mut advice =
            "nothing was changed; pass --yes to make the change, or --dry-run to see the plan only"
                .to_owned();
        if let Some(digest) = plan.digest() {
            advice += "; --yes changes what matches then, --yes --planned ";
            advice += digest;
            advice += " only what this plan covers";
        }
        Err(Failure::usage(advice))
    }
}

/// Checks that what matches now is what the plan of the user covers.
///
/// # Errors
/// When it is not, or the items are named.
pub(crate) fn check_planned(now: Option<&str>, planned: &str) -> Result<(), Failure> {
    match now {
        Some(now) if now == planned => Ok(()),
        Some(now) => Err(Failure::finding(format!(
            "nothing was changed: other items match than the plan {planned} covers; the plan is now {now}. An interrupted run leaves fewer: look at what is left with --dry-run"
        ))),
        None => Err(Failure::usage(
            "--planned is for a selection; named items are the plan, so leave it out",
        )),
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
        let what = counted(self.count, "instance");
        writeln!(f, "would {} {what}", self.action)?;
        let cells = |row: &Row| {
            vec![
                row.state.clone(),
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
