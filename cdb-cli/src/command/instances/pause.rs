//! `cdb instances pause` and `resume`.

use cdb_provider::Extent;
use clap::Args;
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
    fn extent(&self) -> Extent {
        if self.tree {
            Extent::Tree
        } else {
            Extent::Alone
        }
    }

    /// Selects no sub-orchestrations beside their parents.
    fn select<'a>(&self, of: &Context<'a, Outcomes>) -> Result<Batches<'a>, Failure> {
        let running = of.batches()?.only(&RUNNING);
        Ok(if self.tree { running.roots() } else { running })
    }
}

impl Change for Pause {
    const VERB: &'static str = "pause";
    const DONE: &'static str = "paused";
    type Report = Outcomes;

    fn select<'a>(&self, of: &Context<'a, Outcomes>) -> Result<Batches<'a>, Failure> {
        self.tree.select(of)
    }

    async fn apply(&self, rows: Vec<Row>, to: &mut Context<'_, Outcomes>) -> Result<(), Failure> {
        let (provider, extent) = (&to.orchestrations.provider, self.tree.extent());
        let pause = async |row: Row| provider.pause(&row.id, extent, to.by).await;
        let mut all = stream::iter(rows).map(pause).buffer_unordered(CONCURRENT);
        while let Some(paused) = all.next().await {
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
        let resume = async |row: Row| provider.resume(&row.id, extent).await;
        let mut all = stream::iter(rows).map(resume).buffer_unordered(CONCURRENT);
        while let Some(resumed) = all.next().await {
            to.report.add(resumed, to.chosen)?;
        }
        Ok(())
    }
}
