//! `cdb instances cancel`, `delete` and `prune`.

use clap::Args;
use duroxide::ClientError;
use duroxide::providers::{InstanceFilter, PruneOptions};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::change::{Change, Context};
use super::chosen::{Batches, ENDED};
use super::report::{CANCELLED, Counts, Report as _};
use super::select::State;
use crate::command::confirm::UNKNOWN;
use crate::exit::Failure;
use crate::view::instances::{RUNNING, Row};

/// The number of instances that are changed at the same time.
pub(super) const CONCURRENT: usize = 16;

#[derive(Debug, Args)]
pub(super) struct Cancel {
    /// Reason, which the orchestration receives; by default `cancelled by NAME`
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Delete running instances too; the result of a running activity is discarded
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(super) struct Prune {
    /// Number of newest executions to keep; the current execution is always kept
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    keep: u32,
}

impl Change for Cancel {
    const VERB: &'static str = "cancel";
    const DONE: &'static str = CANCELLED;
    // A cancelled instance ends.
    const SKIPS_REFUSED: bool = true;
    type Report = Counts;

    fn select<'a>(&self, of: &Context<'a, Counts>) -> Result<Batches<'a>, Failure> {
        let running = of.batches()?.roots().only(&RUNNING);
        Ok(running.skipping_missing().with_unbegun())
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

    async fn apply(&self, rows: Vec<Row>, to: &mut Context<'_, Counts>) -> Result<(), Failure> {
        let client = &to.orchestrations.client;
        to.report.instances += rows.len() as u64;
        let count = |is: fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count() as u64;
        to.report.paused += count(|row| row.paused.is_some());
        to.report.unbegun += count(|row| row.is_unbegun && row.paused.is_none());
        let reason = match &self.reason {
            Some(reason) => reason.clone(),
            None if to.by == UNKNOWN => "cancelled by an operator".to_owned(),
            None => format!("cancelled by {}", to.by),
        };
        let cancel = async |row: Row| Ok(client.cancel_instance(&row.id, &*reason).await?);
        stream::iter(rows)
            .map(cancel)
            .buffer_unordered(CONCURRENT)
            .try_collect()
            .await
    }
}

impl Change for Delete {
    const VERB: &'static str = "delete";
    const DONE: &'static str = "deleted";
    type Report = Counts;

    fn select<'a>(&self, of: &Context<'a, Counts>) -> Result<Batches<'a>, Failure> {
        if self.force {
            return Ok(of.batches()?.roots().skipping_missing().with_unbegun());
        }
        if of.chosen.asks_for(State::Running) {
            return Err(Failure::usage(
                "running instances are not deleted; cancel them first, or delete them with --force",
            ));
        }
        let ended = of.batches()?.roots().only(&ENDED);
        Ok(ended.skipping_missing().with_unbegun())
    }

    fn refuse(&self, row: &Row) -> Result<(), Failure> {
        if let Some(parent) = &row.parent {
            return Err(Failure::usage(format!(
                "instance `{}` is a sub-orchestration of `{parent}`; delete the instance without a parent, and it is deleted with it",
                row.id
            )));
        }
        if !row.status.has_more() || self.force {
            return Ok(());
        }
        let state = if row.is_unbegun {
            "has not begun; delete"
        } else {
            "is running; cancel it first, or delete"
        };
        Err(Failure::usage(format!(
            "instance `{}` {state} it with --force",
            row.id
        )))
    }

    async fn apply(&self, rows: Vec<Row>, to: &mut Context<'_, Counts>) -> Result<(), Failure> {
        let client = &to.orchestrations.client;
        if self.force || to.chosen.are_named() {
            for row in rows {
                match client.delete_instance(&row.id, self.force).await {
                    Ok(deleted) => to.report.add_deleted(&deleted),
                    // With its parent, or by another process.
                    Err(gone @ ClientError::InstanceNotFound { .. }) if !to.chosen.is_single() => {
                        to.report.refuse(gone.to_string());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        } else if !rows.is_empty() {
            let filter = InstanceFilter {
                instance_ids: Some(rows.into_iter().map(Row::into_id).collect()),
                completed_before: None,
                limit: None,
            };
            to.report
                .add_deleted(&client.delete_instance_bulk(filter).await?);
        }
        Ok(())
    }
}

impl Change for Prune {
    const VERB: &'static str = "prune";
    const DONE: &'static str = "pruned";
    const AT_A_TIME: usize = 1;
    type Report = Counts;

    /// Selects sub-orchestrations too: pruning does not include those of an instance.
    fn select<'a>(&self, of: &Context<'a, Counts>) -> Result<Batches<'a>, Failure> {
        of.batches()
    }

    async fn apply(&self, rows: Vec<Row>, to: &mut Context<'_, Counts>) -> Result<(), Failure> {
        let options = PruneOptions {
            keep_last: Some(self.keep),
            ..PruneOptions::default()
        };
        for row in rows {
            let client = &to.orchestrations.client;
            let pruned = client.prune_executions(&row.id, options.clone());
            to.report.add_pruned(&pruned.await?);
        }
        Ok(())
    }
}
