//! `cdb limits`: lists, sets and removes limits of activities.

use cdb_provider::documents::{MAX_RULES, Priority, Rule, RuleError, Selector};
use clap::{Args, Subcommand, ValueEnum};

use super::confirm::Unconfirmed;
use crate::connection::Connection;
use crate::container::Orchestrations;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;
use crate::view::queues::limits::{self, LimitList};

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
    /// Options that are not given are no limit, whatever the earlier limit had. Runtimes learn of it within 10 s. Running
    /// activities continue. `--running 0` pauses activities until the limit is removed or changed. The first limit raises
    /// the schema of the container to version 3, and the first `--running` or `--per-second` to version 4; versions of the
    /// provider without them refuse to open it.
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
    /// a label of instances such as `tenant=ada`, or `tenant=*` for each tenant its own limit
    #[arg(value_name = "ACTIVITIES", value_parser = selector)]
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
    #[arg(long, value_name = "COUNT", value_parser = running, allow_hyphen_values = true)]
    running: Option<u32>,
    /// Maximum number that start in a second, in all runtimes
    #[arg(long, value_name = "COUNT", value_parser = per_second, allow_hyphen_values = true)]
    per_second: Option<f64>,
    /// Share among the keys that wait in a runtime, 1 to 1,000
    #[arg(long, value_name = "NUMBER", value_parser = weight, allow_hyphen_values = true)]
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

/// Parses what `--running` says.
fn running(text: &str) -> Result<u32, String> {
    let parsed = text.parse();
    parsed.map_err(|_| {
        format!(
            "use a whole number from 0, which pauses them, to {}",
            u32::MAX
        )
    })
}

/// Parses what `--per-second` says.
fn per_second(text: &str) -> Result<f64, String> {
    let parsed = text.parse().ok();
    let parsed = parsed.filter(|rate| Rule::RATES.contains(rate));
    parsed.ok_or_else(|| {
        let (least, most) = (Rule::RATES.start(), Rule::RATES.end());
        format!("use a number from {least} to {most}; to start none, use --running 0")
    })
}

/// Parses what `--weight` says.
fn weight(text: &str) -> Result<u32, String> {
    let parsed = text.parse().ok();
    let parsed = parsed.filter(|weight| Rule::WEIGHTS.contains(weight));
    parsed.ok_or_else(|| {
        let (least, most) = (Rule::WEIGHTS.start(), Rule::WEIGHTS.end());
        format!("use a whole number from {least} to {most}")
    })
}

/// Parses the activities of a new limit. A shell or a pattern would explain a quote or a star in a value, and no
/// label has either by intention.
fn selector(text: &str) -> Result<Selector, String> {
    let select: Selector = text.parse().map_err(|error: RuleError| error.to_string())?;
    let is_odd = |char: char| matches!(char, '"' | '\'' | '`' | '*');
    let values = select.conditions().filter_map(|(_, value)| value);
    let odd = values.filter(|value| value.contains(is_odd)).map(|value| {
        format!("`{value}` has a quote or a `*`; write a value without quotes, or `*` alone for a limit of each value")
    });
    let odd = odd.collect::<Vec<_>>();
    if odd.is_empty() {
        Ok(select)
    } else {
        Err(odd.join("; "))
    }
}

/// The names that are not labels of instances.
const NAMES: [&str; 3] = ["activity", "orchestration", "tag"];

/// Returns what to ask about names that are similar to those of activities.
fn misspelt(select: &Selector) -> impl Iterator<Item = String> {
    let names = select.conditions().map(|(name, _)| name);
    let unknown = names.filter(|name| !NAMES.contains(name));
    unknown.filter_map(|name| {
        let lower = name.to_lowercase();
        let near = NAMES.iter().find(|known| is_near(&lower, known))?;
        Some(format!(
            "`{name}` is taken as a label of instances; did you mean `{near}`?"
        ))
    })
}

/// Returns whether two names differ by at most two letters, which are added, left out, exchanged or replaced.
fn is_near(name: &str, known: &str) -> bool {
    let known: Vec<char> = known.chars().collect();
    let mut distances: Vec<usize> = (0..=known.len()).collect();
    for (at, char) in (1..).zip(name.chars()) {
        let mut diagonal = std::mem::replace(&mut distances[0], at);
        for (to, other) in (1..).zip(&known) {
            let replaced = diagonal + usize::from(char != *other);
            diagonal = distances[to];
            distances[to] = replaced.min(diagonal + 1).min(distances[to - 1] + 1);
        }
    }
    // Of a short name, two letters are most of it.
    distances[known.len()] <= known.len().div_ceil(4)
}

impl LimitsArgs {
    /// Sets the limit, or shows what this would do.
    async fn set(
        set: &SetLimit,
        orchestrations: &Orchestrations,
        console: &mut Console<'_>,
    ) -> Result<LimitList, Failure> {
        let (provider, rule) = (&orchestrations.provider, set.rule());
        for question in misspelt(&rule.select) {
            console.remark(&question)?;
        }
        let limits = provider.limits().await?;
        let rules = limits.as_ref().map_or(&[][..], |limits| &limits.rules);
        let before = rules.iter().find(|other| other.select == rule.select);
        if before.is_none() && rules.len() >= MAX_RULES {
            return Err(Failure::usage(format!(
                "a container has at most {MAX_RULES} limits; remove one, or use a limit for each value, as `tenant=*`"
            )));
        }
        let change = before.and_then(|before| limits::change(before, &rule));
        if set.options.dry_run {
            let planned = provider.plan_set_limit(&rule).await?;
            let list = limits::read(orchestrations).await?;
            return Ok(LimitList {
                change,
                ..list.planned("set", planned)
            });
        }
        let select = rule.select.clone();
        provider.set_limit(rule, &set.options.operator.by).await?;
        let mut list = limits::read(orchestrations).await?;
        // Of the others, `limits list` tells.
        list.in_use
            .without_activities
            .retain(|other| *other == select);
        Ok(LimitList { change, ..list })
    }

    /// Removes the limit, or shows what this would do.
    async fn remove(
        select: &Selector,
        options: &Unconfirmed,
        orchestrations: &Orchestrations,
    ) -> Result<LimitList, Failure> {
        let provider = &orchestrations.provider;
        let planned = provider.plan_remove_limit(select).await;
        let limits = provider.limits().await?;
        let mut rules = limits.iter().flat_map(|limits| &limits.rules);
        let planned = match planned {
            // There is no limit of this kind.
            Err(refused) if rules.all(|rule| rule.select != *select) => {
                return Err(Failure::finding(refused.message));
            }
            planned => planned?,
        };
        if options.dry_run {
            let list = limits::read(orchestrations).await?;
            return Ok(list.planned("remove", planned));
        }
        provider.remove_limit(select, &options.operator.by).await?;
        let mut list = limits::read(orchestrations).await?;
        list.in_use.without_activities.clear();
        Ok(list)
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
    let list = match &args.command {
        LimitsCommand::List => limits::read(&orchestrations).await?,
        LimitsCommand::Set(set) => LimitsArgs::set(set, &orchestrations, console).await?,
        LimitsCommand::Remove { select, options } => {
            LimitsArgs::remove(select, options, &orchestrations).await?
        }
    };
    console.answer(&list)?;
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_nearly_that_of_activities_is_asked_about() {
        let asked = |select: &str| {
            let select = select.parse().expect(select);
            misspelt(&select).next().unwrap_or_default()
        };
        for near in [
            "activty=A",
            "Activity=A",
            "acitvity=A",
            "orchestraton=A",
            "tags=A",
        ] {
            assert!(asked(near).contains("did you mean"), "{near}");
        }
        for other in [
            "activity=A",
            "tag=gpu",
            "tenant=acme",
            "region=*",
            "*",
            "team=a",
        ] {
            assert_eq!(asked(other), "", "{other}");
        }
    }
}
