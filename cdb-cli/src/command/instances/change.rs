//! `cdb instances cancel`, `raise`, `delete` and `prune`. Without `--yes` a destructive command
//! only shows its plan.

use std::fmt;

use cdb_provider::documents::Status;
use clap::Args;
use duroxide::providers::{DeleteInstanceResult, InstanceFilter, PruneOptions, PruneResult};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Serialize;

use super::chosen::Chosen;
use super::select::State;
use crate::confirm::Confirmation;
use crate::exit::{Exit, Failure};
use crate::orchestrations::Orchestrations;
use crate::output::{Console, counted};
use crate::view::instances::Row;
use crate::view::waits;

/// The action in the answer of `cancel`.
const CANCELLED: &str = "cancelled";

/// The number of cancellations that are sent at the same time.
const CONCURRENT: usize = 16;

#[derive(Debug, Args)]
pub(super) struct Cancel {
    /// Reason, which the orchestration receives
    #[arg(long, value_name = "TEXT", default_value = "cancelled by an operator")]
    reason: String,
    #[command(flatten)]
    confirmation: Confirmation,
    #[command(flatten)]
    chosen: Chosen,
}

#[derive(Debug, Args)]
pub(super) struct Raise {
    /// Instance id
    instance: String,
    /// Name of the event
    event: String,
    /// Data of the event
    #[arg(default_value = "")]
    data: String,
    /// Queue the event: the instance keeps it until the orchestration dequeues it
    #[arg(long)]
    queue: bool,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Delete running instances too; the result of a running activity is discarded
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    confirmation: Confirmation,
    #[command(flatten)]
    chosen: Chosen,
}

#[derive(Debug, Args)]
pub(super) struct Prune {
    /// Number of newest executions to keep; the current execution is always kept
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    keep: u32,
    #[command(flatten)]
    confirmation: Confirmation,
    #[command(flatten)]
    chosen: Chosen,
}

/// The result of a command, in numbers.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    action: &'static str,
    instances: u64,
    executions: u64,
    events: u64,
    messages: u64,
}

impl Cancel {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let chosen = || {
            let batches = self.chosen.batches(orchestrations)?.roots();
            Ok::<_, Failure>(batches.only(&[Status::Running]))
        };
        if self.confirmation.is_missing() {
            let plan = chosen()?.plan("cancel").await?;
            refuse_ended(plan.rows())?;
            return self.confirmation.stop(&plan, console);
        }
        let (mut batches, mut done) = (chosen()?, Done::of(CANCELLED));
        while let Some(rows) = batches.next().await? {
            refuse_ended(&rows)?;
            done.instances += rows.len() as u64;
            stream::iter(rows)
                .map(|row| cancel(orchestrations, row, &self.reason))
                .buffer_unordered(CONCURRENT)
                .try_collect::<()>()
                .await?;
            console.progress(done.progress())?;
        }
        console.answer(&done)?;
        Ok(Exit::Ok)
    }
}

async fn cancel(orchestrations: &Orchestrations, row: Row, reason: &str) -> Result<(), Failure> {
    let cancelled = orchestrations.client.cancel_instance(&row.id, reason);
    Ok(cancelled.await?)
}

impl Raise {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        // The event of an instance that does not exist would stay in the queue.
        let running = orchestrations.running(&self.instance).await?;
        let awaited = waits::read(orchestrations, &running).await?;
        let names = awaited.event_names();
        if !names.contains(&&*self.event) {
            let waits = match &*names {
                [] => "it waits for no event".to_owned(),
                names => format!("it waits for {}", names.join(", ")),
            };
            console.remark(&format!(
                "instance `{}` does not wait for an event `{}` now; {waits}. duroxide keeps the event until the instance waits for it",
                self.instance, self.event
            ))?;
        }
        let (instance, event, data) = (&*self.instance, &*self.event, &*self.data);
        if self.queue {
            orchestrations
                .client
                .enqueue_event(instance, event, data)
                .await?;
        } else {
            orchestrations
                .client
                .raise_event(instance, event, data)
                .await?;
        }
        console.answer(&Done {
            instances: 1,
            messages: 1,
            ..Done::of("raised an event for")
        })?;
        Ok(Exit::Ok)
    }
}

impl Delete {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        if self.chosen.asks_for(State::Running) && !self.force {
            return Err(Failure::usage(
                "running instances are not deleted; cancel them first, or delete them with --force",
            ));
        }
        let chosen = || {
            let batches = self.chosen.batches(orchestrations)?.roots();
            Ok::<_, Failure>(if self.force {
                batches
            } else {
                batches.only(&[Status::Completed, Status::Failed])
            })
        };
        if self.confirmation.is_missing() {
            let plan = chosen()?.plan("delete").await?;
            self.refuse_running(plan.rows())?;
            return self.confirmation.stop(&plan, console);
        }
        let (mut batches, mut done) = (chosen()?, Done::of("deleted"));
        while let Some(rows) = batches.next().await? {
            self.refuse_running(&rows)?;
            self.delete(orchestrations, rows, &mut done).await?;
            console.progress(done.progress())?;
        }
        console.answer(&done)?;
        Ok(Exit::Ok)
    }

    fn refuse_running(&self, rows: &[Row]) -> Result<(), Failure> {
        match rows.iter().find(|row| row.status == Status::Running) {
            Some(running) if !self.force => Err(Failure::usage(format!(
                "instance `{}` is running; cancel it first, or delete it with --force",
                running.id
            ))),
            _ => Ok(()),
        }
    }

    async fn delete(
        &self,
        orchestrations: &Orchestrations,
        rows: Vec<Row>,
        done: &mut Done,
    ) -> Result<(), Failure> {
        let client = &orchestrations.client;
        if self.force || self.chosen.are_named() {
            for row in rows {
                done.deleted(&client.delete_instance(&row.id, self.force).await?);
            }
        } else if !rows.is_empty() {
            let filter = InstanceFilter {
                instance_ids: Some(rows.into_iter().map(|row| row.id).collect()),
                completed_before: None,
                limit: None,
            };
            done.deleted(&client.delete_instance_bulk(filter).await?);
        }
        Ok(())
    }
}

impl Prune {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        if self.confirmation.is_missing() {
            let plan = self.chosen.batches(orchestrations)?.plan("prune").await?;
            return self.confirmation.stop(&plan, console);
        }
        let options = PruneOptions {
            keep_last: Some(self.keep),
            ..PruneOptions::default()
        };
        let mut batches = self.chosen.batches(orchestrations)?;
        let mut done = Done::of("pruned");
        while let Some(rows) = batches.next().await? {
            for row in rows {
                let pruned = orchestrations
                    .client
                    .prune_executions(&row.id, options.clone());
                done.pruned(&pruned.await?);
                console.progress(done.progress())?;
            }
        }
        console.answer(&done)?;
        Ok(Exit::Ok)
    }
}

/// # Errors
/// A finding when an instance has ended.
fn refuse_ended(rows: &[Row]) -> Result<(), Failure> {
    match rows.iter().find(|row| row.status != Status::Running) {
        Some(ended) => Err(Failure::finding(format!(
            "instance `{}` has ended: {}",
            ended.id, ended.status
        ))),
        None => Ok(()),
    }
}

impl Done {
    fn of(action: &'static str) -> Self {
        Self {
            action,
            ..Self::default()
        }
    }

    fn deleted(&mut self, result: &DeleteInstanceResult) {
        self.instances += result.instances_deleted;
        self.executions += result.executions_deleted;
        self.events += result.events_deleted;
        self.messages += result.queue_messages_deleted;
    }

    fn pruned(&mut self, result: &PruneResult) {
        self.instances += result.instances_processed;
        self.executions += result.executions_deleted;
        self.events += result.events_deleted;
    }

    fn progress(&self) -> String {
        format!(
            "{}, {}",
            counted(self.instances, "instance"),
            counted(self.events, "event")
        )
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action, counted(self.instances, "instance"))?;
        if self.action == CANCELLED {
            f.write_str("; an instance ends at its next turn")?;
        }
        if self.executions + self.events > 0 {
            write!(
                f,
                ": {} and {} deleted",
                counted(self.executions, "execution"),
                counted(self.events, "event")
            )?;
        }
        Ok(())
    }
}
