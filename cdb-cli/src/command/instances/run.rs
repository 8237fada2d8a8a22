//! `cdb instances start`, `raise`, `wait` and `watch`: starts an orchestration, sends it events and
//! follows it.

use std::fmt;
use std::time::Duration;

use cdb_provider::documents::Status;
use clap::Args;
use duroxide::{ClientError, OrchestrationStatus};
use serde::Serialize;

use super::report::{Counts, Report as _};
use super::span::parse_span;
use crate::command::confirm::{Plan, Unconfirmed};
use crate::container::Orchestrations;
use crate::exit::{Exit, Failure};
use crate::output::{Console, span};
use crate::view::instances::waits::Waits;
use crate::view::instances::{Row, detail, history};

/// The time between two reads of `watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct Start {
    /// Instance id, which no other instance may have
    instance: String,
    /// Name of the orchestration
    orchestration: String,
    /// Input, as the orchestration reads it: usually JSON
    #[arg(default_value = "")]
    input: String,
    /// Version of the orchestration; the runtime's policy decides by default
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Wait until it has ended, at most as long as `wait` does by default
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    options: Unconfirmed,
}

/// A start that is queued, or that a dry run shows.
#[derive(Debug, Serialize)]
struct Queued<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    would: Option<&'static str>,
    instance: &'a str,
    orchestration: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    /// The name of the operator; `None` for a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
}

#[derive(Debug, Args)]
pub(super) struct Wait {
    /// Instance id
    instance: String,
    /// The longest time to wait: 90s, 15m, 24h
    #[arg(long = "for", value_name = "SPAN", default_value = "5m", value_parser = parse_span)]
    most: Duration,
}

#[derive(Debug, Args)]
pub(super) struct Watch {
    /// Instance id
    instance: String,
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
    /// Queue the event: the instance keeps it until the orchestration dequeues it. Otherwise, an
    /// event for which the orchestration does not wait yet is dropped
    #[arg(long)]
    queue: bool,
    #[command(flatten)]
    options: Unconfirmed,
}

impl Start {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let (id, name, input) = (&*self.instance, &*self.orchestration, &*self.input);
        if id.is_empty() {
            return Err(Failure::usage(
                "the instance id is empty; choose another id",
            ));
        }
        if orchestrations.is_known(id).await? {
            return Err(Failure::usage(format!(
                "instance `{id}` exists or is queued; choose another id"
            )));
        }
        let queued = Queued {
            would: self.options.dry_run.then_some("start"),
            instance: id,
            orchestration: name,
            version: self.version.as_deref(),
            by: (!self.options.dry_run).then_some(&*self.options.operator.by),
        };
        if self.options.dry_run {
            console.answer(&queued)?;
            return Ok(Exit::Ok);
        }
        let client = &orchestrations.client;
        match &self.version {
            Some(version) => {
                let started = client.start_orchestration_versioned(id, name, version, input);
                started.await?;
            }
            None => client.start_orchestration(id, name, input).await?,
        }
        if self.wait {
            let wait = Wait {
                instance: self.instance.clone(),
                most: Duration::from_secs(300),
            };
            return Box::pin(wait.run(orchestrations, console)).await;
        }
        console.answer(&queued)?;
        Ok(Exit::Ok)
    }
}

impl Wait {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let id = &*self.instance;
        if !orchestrations.is_known(id).await? {
            return Err(Failure::finding(format!("instance `{id}` does not exist")));
        }
        let ended = orchestrations
            .client
            .wait_for_orchestration(id, self.most)
            .await;
        match ended {
            Ok(OrchestrationStatus::Completed { .. }) => {
                show(orchestrations, id, console).await?;
                Ok(Exit::Ok)
            }
            Ok(_) => {
                show(orchestrations, id, console).await?;
                Ok(Exit::Finding)
            }
            Err(ClientError::Timeout) => {
                // A start that no runtime has fetched is a finding of its own.
                show(orchestrations, id, console).await?;
                let waited = span(self.most);
                Err(Failure::finding(format!(
                    "instance `{id}` has not ended after {waited}"
                )))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Watch {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let id = &*self.instance;
        let (mut execution, mut shown) = (0, 0);
        loop {
            // The state is read first: the events of an ended instance are then complete.
            let instance = orchestrations.instance(id).await?;
            if instance.execution != execution {
                (execution, shown) = (instance.execution, 0);
            }
            let window = shown..usize::MAX;
            let news = history::read(orchestrations, id, Some(execution), window, false).await?;
            shown = news.total;
            for event in &news.events {
                console.line(event)?;
            }
            if !instance.status.has_more() {
                return Ok(match instance.status {
                    Status::Failed => Exit::Finding,
                    _ => Exit::Ok,
                });
            }
            tokio::time::sleep(WATCH_INTERVAL).await;
        }
    }
}

impl Raise {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        // The event of an instance that does not exist would stay in the queue. A queued one waits for the start.
        let running = if self.queue {
            orchestrations.running_or_queued(&self.instance).await?
        } else {
            orchestrations.running(&self.instance).await?
        };
        let observe = orchestrations.provider.observe();
        let awaited = Waits(observe.waits(&running).await?);
        if let Some(remark) = self.mismatch(&awaited)? {
            console.remark(&remark)?;
        }
        if self.options.dry_run {
            let row = Row::of(running);
            console.answer(&Plan::new("raise an event for", 1, vec![row]))?;
            return Ok(Exit::Ok);
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
        let mut raised = Counts::of("raised an event for", &self.options.operator.by);
        (raised.instances, raised.messages) = (1, 1);
        console.answer(&raised)?;
        Ok(Exit::Ok)
    }
}

impl Raise {
    /// Returns a remark if the instance does not wait for an event of this kind and name.
    ///
    /// # Errors
    /// When it waits for a queued event of this name: one that is raised would be lost.
    fn mismatch(&self, awaited: &Waits) -> Result<Option<String>, Failure> {
        let Self {
            instance, event, ..
        } = self;
        let awaits = |is_queue| awaited.awaits(event, is_queue);
        if awaits(self.queue) {
            return Ok(None);
        }
        if self.queue && awaits(false) {
            return Ok(Some(format!(
                "instance `{instance}` waits for an event `{event}` that is raised; one that is queued is kept until the orchestration \
                 dequeues it: leave out --queue"
            )));
        }
        if awaits(true) {
            return Err(Failure::usage(format!(
                "instance `{instance}` waits for the queue `{event}`, and duroxide would drop an event that is raised; use --queue"
            )));
        }
        let waits = awaited.described();
        if self.queue {
            return Ok(Some(format!(
                "instance `{instance}` does not wait for the queue `{event}` now; {waits}. The event is kept until the orchestration \
                 dequeues it from this queue"
            )));
        }
        Ok(Some(format!(
            "instance `{instance}` does not wait for an event `{event}` now; {waits}. duroxide drops an event that nothing waits for; use --queue \
             if the orchestration dequeues it"
        )))
    }
}

impl fmt::Display for Queued<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, name) = (self.instance, self.orchestration);
        match self.would {
            Some(would) => write!(f, "would {would} `{name}` as instance `{id}`"),
            None => write!(
                f,
                "instance `{id}` is queued; a runtime that has `{name}` registered starts it"
            ),
        }
    }
}

async fn show(
    orchestrations: &Orchestrations,
    id: &str,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    console.answer(&detail::read(orchestrations, id).await?)
}
