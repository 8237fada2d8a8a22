//! `cdb instances cancel`, `raise`, `delete` and `prune`. Without `--yes` a destructive command
//! only shows its plan.

use std::fmt;
use std::time::Duration;

use cdb_model::{Filter, Query, Timestamp};
use cdb_provider::documents::{Instance, Status};
use clap::Args;
use duroxide::providers::{DeleteInstanceResult, InstanceFilter, PruneOptions, PruneResult};
use futures::try_join;
use serde::Serialize;

use crate::confirm::{Confirmation, Plan};
use crate::exit::{Exit, Failure};
use crate::orchestrations::Orchestrations;
use crate::output::Console;
use crate::time::parse_span;
use crate::view::instances::Row;
use crate::view::waits;

/// The number of instances that a plan for `--ended-before` lists.
const LISTED: u32 = 10;

/// The action in the answer of `cancel`.
const CANCELLED: &str = "cancelled";

/// The number of instances per bulk deletion, after which progress is reported.
const BATCH: u32 = 100;

#[derive(Debug, Args)]
pub(super) struct Cancel {
    /// Instance ids
    #[arg(required = true)]
    instances: Vec<String>,
    /// Reason, which the orchestration receives
    #[arg(long, value_name = "TEXT", default_value = "cancelled by an operator")]
    reason: String,
    #[command(flatten)]
    confirmation: Confirmation,
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

/// Instances by id, or by the time of their end.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Chosen {
    /// Instance ids
    instances: Vec<String>,
    /// All instances that ended longer ago than this: 24h, 30d
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    ended_before: Option<Duration>,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    #[command(flatten)]
    chosen: Chosen,
    /// Delete running instances too; the result of a running activity is discarded
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Debug, Args)]
pub(super) struct Prune {
    #[command(flatten)]
    chosen: Chosen,
    /// Number of newest executions to keep; the current execution is always kept
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    keep: u32,
    #[command(flatten)]
    confirmation: Confirmation,
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
        let mut rows = Vec::new();
        for id in &self.instances {
            rows.push(Row::of(orchestrations.running(id).await?));
        }
        let plan = Plan::new("cancel", rows);
        if let Some(exit) = self.confirmation.stop_unless_given(&plan, console)? {
            return Ok(exit);
        }
        let mut done = Done::of(CANCELLED);
        for id in &self.instances {
            orchestrations
                .client
                .cancel_instance(id, self.reason.clone())
                .await?;
            done.instances += 1;
        }
        console.answer(&done)?;
        Ok(Exit::Ok)
    }
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
        let plan = self.chosen.plan("delete", orchestrations).await?;
        if let Some(running) = plan.running().filter(|_| !self.force) {
            return Err(Failure::usage(format!(
                "instance `{running}` is running; cancel it first, or delete it with --force"
            )));
        }
        if let Some(exit) = self.confirmation.stop_unless_given(&plan, console)? {
            return Ok(exit);
        }
        let mut done = Done::of("deleted");
        for id in &self.chosen.instances {
            done.deleted(
                &orchestrations
                    .client
                    .delete_instance(id, self.force)
                    .await?,
            );
            console.progress(done.progress())?;
        }
        if let Some(before) = self.chosen.before(orchestrations) {
            loop {
                let batch = self.chosen.filter(before, BATCH);
                let deleted = orchestrations.client.delete_instance_bulk(batch).await?;
                if deleted.instances_deleted == 0 {
                    break;
                }
                done.deleted(&deleted);
                console.progress(done.progress())?;
            }
        }
        console.answer(&done)?;
        Ok(Exit::Ok)
    }
}

impl Prune {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let plan = self.chosen.plan("prune", orchestrations).await?;
        if let Some(exit) = self.confirmation.stop_unless_given(&plan, console)? {
            return Ok(exit);
        }
        let options = PruneOptions {
            keep_last: Some(self.keep),
            ..PruneOptions::default()
        };
        let mut done = Done::of("pruned");
        for id in &self.chosen.instances {
            done.pruned(
                &orchestrations
                    .client
                    .prune_executions(id, options.clone())
                    .await?,
            );
            console.progress(done.progress())?;
        }
        if let Some(before) = self.chosen.before(orchestrations) {
            // A pruned instance still matches the filter, so batches would repeat: prune all in one
            // call.
            let all = self.chosen.filter(before, u32::MAX);
            done.pruned(
                &orchestrations
                    .client
                    .prune_executions_bulk(all, options)
                    .await?,
            );
        }
        console.answer(&done)?;
        Ok(Exit::Ok)
    }
}

impl Chosen {
    async fn plan(
        &self,
        action: &'static str,
        orchestrations: &Orchestrations,
    ) -> Result<Plan, Failure> {
        match self.before(orchestrations) {
            Some(before) => {
                let counts = Query::<Instance>::across_partitions()
                    .filter(ended(before))
                    .count();
                let some = Query::<Instance>::across_partitions()
                    .filter(ended(before))
                    .limit(LISTED);
                let container = &orchestrations.container;
                let (count, some) =
                    try_join!(container.query(counts).all(), container.query(some).all())?;
                let rows = some.into_iter().map(|stored| Row::of(stored.document));
                Ok(Plan::of_many(
                    action,
                    count.into_iter().sum(),
                    rows.collect(),
                ))
            }
            None => Ok(Plan::new(
                action,
                named(orchestrations, &self.instances).await?,
            )),
        }
    }

    fn before(&self, orchestrations: &Orchestrations) -> Option<Timestamp> {
        self.ended_before
            .map(|span| orchestrations.container.now() - span)
    }

    fn filter(&self, before: Timestamp, most: u32) -> InstanceFilter {
        debug_assert!(
            self.instances.is_empty(),
            "clap accepts either ids or an age"
        );
        InstanceFilter {
            instance_ids: None,
            completed_before: Some(before.as_millis()),
            limit: Some(most),
        }
    }
}

fn ended(before: Timestamp) -> Filter<Instance> {
    Instance::STATUS.is_in([Status::Completed, Status::Failed]) & Instance::COMPLETED_AT.lt(before)
}

async fn named(orchestrations: &Orchestrations, ids: &[String]) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for id in ids {
        rows.push(Row::of(orchestrations.instance(id).await?));
    }
    Ok(rows)
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
        format!("{} instances, {} events", self.instances, self.events)
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} instance(s)", self.action, self.instances)?;
        if self.action == CANCELLED {
            f.write_str("; an instance ends at its next turn")?;
        }
        if self.executions + self.events > 0 {
            write!(
                f,
                ": {} executions and {} events deleted",
                self.executions, self.events
            )?;
        }
        Ok(())
    }
}
