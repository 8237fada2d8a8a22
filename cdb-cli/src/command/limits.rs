//! `cdb limits`: lists, sets and removes limits of activities.

use cdb_provider::documents::{Priority, Rule, Selector};
use clap::{Args, Subcommand, ValueEnum};

use crate::confirm::Unconfirmed;
use crate::connection::Connection;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::orchestrations::Orchestrations;
use crate::output::Console;
use crate::view::limited_keys::LimitedKeys;
use crate::view::limits::{self, LimitList};

#[derive(Debug, Args)]
pub(crate) struct LimitsArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: LimitsCommand,
}

#[derive(Debug, Subcommand)]
enum LimitsCommand {
    /// List the limits, and the keys that are limited at present
    List,
    /// Set the limit of activities, in place of an earlier one with the same selector
    ///
    /// Runtimes learn of it within 10 s. Running activities continue. `--running 0` pauses activities until
    /// the limit is removed or changed. The first limit raises the schema of the container to
    /// version 3, which versions without limits refuse to open.
    Set(SetLimit),
    /// Remove the limit of activities
    Remove {
        /// Activities, as `limits list` shows them
        #[arg(value_name = "ACTIVITIES")]
        select: Selector,
        #[command(flatten)]
        options: Unconfirmed,
    },
}

#[derive(Debug, Args)]
struct SetLimit {
    /// `*` for all, or a name and a value: `activity=CallBank`, `orchestration=Import`, `tag=gpu`,
    /// a search attribute such as `tenant=ada`, or `tenant=*` for each tenant its own limit
    #[arg(value_name = "ACTIVITIES")]
    select: Selector,
    #[command(flatten)]
    limit: LimitValues,
    #[command(flatten)]
    options: Unconfirmed,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct LimitValues {
    /// Maximum number that run at a time, in all runtimes; 0 pauses them
    #[arg(long, value_name = "COUNT")]
    running: Option<u32>,
    /// Maximum number that start in a second, in all runtimes
    #[arg(long, value_name = "COUNT")]
    per_second: Option<f64>,
    /// Share among the keys that wait in a runtime, 1 to 1,000
    #[arg(long, value_name = "NUMBER")]
    weight: Option<u32>,
    /// Priority over other activities
    #[arg(long, value_name = "LEVEL")]
    priority: Option<Level>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    High,
    Normal,
    Low,
}

impl From<Level> for Priority {
    fn from(level: Level) -> Self {
        match level {
            Level::High => Self::High,
            Level::Normal => Self::Normal,
            Level::Low => Self::Low,
        }
    }
}

impl SetLimit {
    fn rule(&self) -> Rule {
        let LimitValues {
            running,
            per_second,
            weight,
            priority,
        } = self.limit;
        let mut rule = Rule::new(self.select.clone());
        rule.running = running;
        rule.starts_per_second = per_second;
        rule.weight = weight;
        rule.priority = priority.map(Priority::from);
        rule
    }
}

pub(crate) async fn run(
    args: &LimitsArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    if let LimitsCommand::Set(set) = &args.command {
        let checked = set.rule().check();
        checked.map_err(|error| Failure::usage(error.to_string()))?;
    }
    let orchestrations = Orchestrations::open(&args.connection, model).await?;
    let provider = &orchestrations.provider;
    match &args.command {
        LimitsCommand::List => {}
        LimitsCommand::Set(set) if set.options.dry_run => {
            let planned = provider.plan_set_limit(&set.rule()).await?;
            let list = LimitList {
                would: Some("set"),
                limits: planned,
                keys: LimitedKeys::default(),
                without_activities: Vec::new(),
                ..limits::read(&orchestrations).await?
            };
            console.answer(&list)?;
            return Ok(Exit::Ok);
        }
        LimitsCommand::Set(set) => {
            provider
                .set_limit(set.rule(), &set.options.operator.by)
                .await?;
        }
        LimitsCommand::Remove { select, options } if options.dry_run => {
            let planned = provider.plan_remove_limit(select).await?;
            let list = LimitList {
                would: Some("remove"),
                limits: planned,
                keys: LimitedKeys::default(),
                without_activities: Vec::new(),
                ..limits::read(&orchestrations).await?
            };
            console.answer(&list)?;
            return Ok(Exit::Ok);
        }
        LimitsCommand::Remove { select, options } => {
            provider.remove_limit(select, &options.operator.by).await?;
        }
    }
    console.answer(&limits::read(&orchestrations).await?)?;
    Ok(Exit::Ok)
}
