//! `cdb instances pause` and `resume`.

use cdb_provider::TreeScope;
use clap::Args;
use duroxide::providers::ProviderError;
use futures::{StreamExt as _, stream};

use super::change::{Change, Context};
use super::chosen::Batches;
use super::end::CONCURRENT;
use super::report::Outcomes;
use crate::exit::Failure;
use crate::view::instances::{RUNNING, Row};

#[derive(Debug, Args)]
pub(super) struct Pause {
    #[command(flatten)]
    tree: Tree,
}

#[derive(Debug, Args)]
pub(super) struct Resume {
    #[command(flatten)]
    tree: Tree,
}

#[derive(Debug, Args)]
struct Tree {
    /// Include the sub-orchestrations that the instances wait for, and theirs
    #[arg(long)]
    tree: bool,
}

impl Tree {
    fn extent(&self) -> TreeScope {
        if self.tree {
            TreeScope::Tree
        } else {
            TreeScope::Alone
        }
    }

    /// Selects no sub-orchestrations beside their parents.
    fn select<'a>(&self, of: &Context<'a, Outcomes>) -> Result<Batches<'a>, Failure> {
        let running = of.batches()?.only(&RUNNING).with_unbegun();
        Ok(if self.tree { running.roots() } else { running })
    }
}

impl Change for Pause {
    const VERB: &'static str = "pause";
    const DONE: &'static str = "paused";
    const SKIPS_REFUSED: bool = true;
    type Report = Outcomes;

    fn select<'a>(&self, of: &Context<'a, Outcomes>) -> Result<Batches<'a>, Failure> {
        self.tree.select(of)
    }

    fn refuse(&self, row: &Row) -> Result<(), Failure> {
        if row.status.has_more() {
            return Ok(());
        }
        Err(Failure::finding(format!(
            "instance `{}` has ended: {}",
            row.id, row.status
        )))
    }

    async fn apply(&self, rows: Vec<Row>, to: &mut Context<'_, Outcomes>) -> Result<(), Failure> {
        let (provider, extent) = (&to.orchestrations.provider, self.tree.extent());
        let pause = async |row: Row| (provider.pause(&row.id, extent, to.by).await, row);
        let mut all = stream::iter(rows).map(pause).buffer_unordered(CONCURRENT);
        while let Some((paused, row)) = all.next().await {
            if let (Some(before), false) = (&row.paused, has_changed(&row, &paused)) {
                let says = format!("instance `{}` is paused already, by {}", row.id, before.by);
                to.report.unchanged.push(says);
            }
            to.report.add(paused, to.chosen)?;
        }
        Ok(())
    }
}

impl Change for Resume {
    const VERB: &'static str = "resume";
    const DONE: &'static str = "resumed";
    type Report = Outcomes;

    fn select<'a>(&self, of: &Context<'a, Outcomes>) -> Result<Batches<'a>, Failure> {
        Ok(self.tree.select(of)?.paused())
    }

    async fn apply(&self, rows: Vec<Row>, to: &mut Context<'_, Outcomes>) -> Result<(), Failure> {
        let (provider, extent) = (&to.orchestrations.provider, self.tree.extent());
        let resume = async |row: Row| (provider.resume(&row.id, extent).await, row);
        let mut all = stream::iter(rows).map(resume).buffer_unordered(CONCURRENT);
        while let Some((resumed, row)) = all.next().await {
            if row.paused.is_none() && !has_changed(&row, &resumed) {
                let says = format!("instance `{}` is not paused", row.id);
                to.report.unchanged.push(says);
            }
            to.report.add(resumed, to.chosen)?;
        }
        Ok(())
    }
}

/// Returns whether the instance is among those that were changed, or may be.
fn has_changed(row: &Row, changed: &Result<Vec<String>, ProviderError>) -> bool {
    let changed = changed.as_ref();
    changed.map_or(true, |changed| changed.contains(&row.id))
}
