//! Intervening: cancel, raise, delete, prune. What cannot be undone shows what it would do, and does it with `--yes`.

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

/// How many of those that are chosen by age a plan names.
const NAMED: u32 = 10;

/// What is said of instances that were asked to end.
const CANCELLED: &str = "cancelled";

/// How many instances one step of a long deletion takes.
const STEP: u32 = 100;

#[derive(Debug, Args)]
pub(super) struct Cancel {
    /// The instances
    #[arg(required = true)]
    instances: Vec<String>,
    /// What the orchestration is told
    #[arg(long, value_name = "TEXT", default_value = "cancelled by an operator")]
    reason: String,
    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Debug, Args)]
pub(super) struct Raise {
    /// The instance
    instance: String,
    /// The event's name
    event: String,
    /// What it carries
    #[arg(default_value = "")]
    data: String,
    /// For a queue: kept until it is consumed, also before anybody waits for it
    #[arg(long)]
    queue: bool,
}

/// Instances by name, or by how long ago they ended.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Chosen {
    /// The instances
    instances: Vec<String>,
    /// All that ended longer ago than this: 24h, 30d
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    ended_before: Option<Duration>,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    #[command(flatten)]
    chosen: Chosen,
    /// Also what is still running; a running activity ends without effect
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Debug, Args)]
pub(super) struct Prune {
    #[command(flatten)]
    chosen: Chosen,
    /// How many of the newest executions to keep; the current one always stays
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    keep: u32,
    #[command(flatten)]
    confirmation: Confirmation,
}

/// What was done, in numbers.
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
        // An event for nobody would wait for an instance of that name for ever.
        orchestrations.running(&self.instance).await?;
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
                let some = self.chosen.filter(before, STEP);
                let step = orchestrations.client.delete_instance_bulk(some).await?;
                if step.instances_deleted == 0 {
                    break;
                }
                done.deleted(&step);
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
            // What is pruned stays on the list of those that ended, so all of them are taken in one go.
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
                    .top(NAMED);
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
            "either names or an age are given"
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
            f.write_str("; each ends at its next turn")?;
        }
        if self.executions + self.events > 0 {
            write!(
                f,
                ": {} executions and {} events gone",
                self.executions, self.events
            )?;
        }
        Ok(())
    }
}
