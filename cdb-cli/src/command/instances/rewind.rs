//! `cdb instances rewind` and `fork`: gives instances a new course from a recorded history.

use std::collections::BTreeMap;
use std::fmt;

use cdb_provider::documents::Status;
use cdb_provider::{Fork, RewindResult};
use clap::Args;
use serde::Serialize;

use super::change::{Change, Context};
use super::chosen::Batches;
use super::report::Outcomes;
use crate::command::confirm::Unconfirmed;
use crate::container::Orchestrations;
use crate::exit::{Exit, Failure};
use crate::output::{Console, counted};
use crate::view::instances::Row;

#[derive(Debug, Args)]
pub(super) struct Rewind {}

#[derive(Debug, Args)]
pub(super) struct ForkInstance {
    /// Id of the instance whose history is continued
    instance: String,
    /// Id of the new instance
    #[arg(long = "as", value_name = "ID")]
    new_id: String,
    /// Number of the event whose turn runs again; `instances history` lists them
    #[arg(long, value_name = "NUMBER")]
    event: u64,
    /// Number of the execution; the newest by default
    #[arg(long, value_name = "NUMBER")]
    execution: Option<u64>,
    #[command(flatten)]
    options: Unconfirmed,
}

/// The new course of an instance.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Course {
    instance: String,
    execution: u64,
    /// The events that are kept.
    kept: usize,
    /// The activities that run.
    activities: Vec<String>,
    /// The messages that arrive again.
    messages: usize,
    /// The names of the events among these messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<String>,
    /// Completed activities and children that are dropped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<String>,
    /// Events that must be raised again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    raise_again: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Course>,
}

/// The course of a fork.
#[derive(Debug, Serialize)]
struct Forked<'a> {
    /// The name of the operator; `None` for a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a String>,
    #[serde(flatten)]
    course: Course,
}

impl fmt::Display for Forked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.course.fmt(f)
    }
}

impl Change for Rewind {
    const VERB: &'static str = "rewind";
    const DONE: &'static str = "rewound";
    const SKIPS_REFUSED: bool = true;
    type Report = Outcomes;

    fn select<'a>(&self, of: &Context<'a, Outcomes>) -> Result<Batches<'a>, Failure> {
        Ok(of.batches()?.roots().only(&[Status::Failed]))
    }

    fn refuse(&self, row: &Row) -> Result<(), Failure> {
        if row.status.has_more() || row.status == Status::Failed {
            return Ok(());
        }
        Err(Failure::finding(format!(
            "instance `{}` is {}; only failed instances are rewound",
            row.id, row.status
        )))
    }

    async fn describe(
        &self,
        row: &Row,
        of: &Context<'_, Outcomes>,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        match of.orchestrations.provider.plan_rewind(&row.id).await {
            Ok(course) => {
                console.remark(Course::of(course).to_string().trim_end())?;
                Ok(Exit::Ok)
            }
            Err(refused) if of.chosen.is_single() => Err(refused.into()),
            Err(refused) => {
                console.remark(&format!("cannot be rewound: {}", refused.message))?;
                Ok(Exit::Finding)
            }
        }
    }

    async fn apply(&self, rows: Vec<Row>, to: &mut Context<'_, Outcomes>) -> Result<(), Failure> {
        let provider = &to.orchestrations.provider;
        for row in rows {
            let rewound = provider.rewind(&row.id, to.by).await;
            let rewound = rewound.map(|course| vec![course.instance]);
            to.report.add(rewound, to.chosen)?;
        }
        Ok(())
    }
}

impl ForkInstance {
    pub(super) async fn run(
        &self,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<Exit, Failure> {
        let at = Fork {
            execution: self.execution,
            event: self.event,
            new_instance: &self.new_id,
        };
        let provider = &orchestrations.provider;
        let forked = if self.options.dry_run {
            provider.plan_fork(&self.instance, at).await?
        } else {
            let by = &self.options.operator.by;
            provider.fork(&self.instance, at, by).await?
        };
        let by = &self.options.operator.by;
        console.answer(&Forked {
            by: (!self.options.dry_run).then_some(by),
            course: Course::of(forked),
        })?;
        Ok(Exit::Ok)
    }
}

impl Course {
    fn of(course: RewindResult) -> Self {
        Self {
            instance: course.instance,
            execution: course.execution,
            kept: course.kept,
            activities: course.activities,
            messages: course.messages,
            events: course.events,
            dropped: course.dropped,
            raise_again: course.raise_again,
            children: course.children.into_iter().map(Self::of).collect(),
        }
    }
}

impl Course {
    /// Writes the names of the events that arrive again, with their numbers.
    fn events(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = BTreeMap::<&str, usize>::new();
        for name in &self.events {
            *numbers.entry(name).or_default() += 1;
        }
        let events = numbers.iter().map(|(name, number)| match number {
            1 => (*name).to_owned(),
            _ => format!("{name} ×{number}"),
        });
        match &*events.collect::<Vec<_>>() {
            [] => Ok(()),
            events => write!(f, " (events: {})", events.join(", ")),
        }
    }
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "instance `{}`, execution {}: keeps {}",
            self.instance,
            self.execution,
            counted(self.kept as u64, "event")
        )?;
        if !self.activities.is_empty() {
            write!(f, ", runs {}", self.activities.join(", "))?;
        }
        if self.messages > 0 {
            let messages = counted(self.messages as u64, "message");
            write!(f, ", receives {messages} again")?;
            self.events(f)?;
        }
        if !self.dropped.is_empty() {
            write!(f, ", drops {}", self.dropped.join(", "))?;
        }
        if !self.raise_again.is_empty() {
            write!(f, "; raise again: {}", self.raise_again.join(", "))?;
        }
        writeln!(f)?;
        self.children.iter().try_for_each(|child| child.fmt(f))
    }
}
