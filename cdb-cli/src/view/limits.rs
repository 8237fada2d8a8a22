//! The limits of activities, and who holds the permits of the limited keys.

use std::fmt;

use cdb_client::ContainerClient;
use cdb_model::Timestamp;
use cdb_provider::documents::Priority;
use cdb_provider::documents::{Durable, Limits, OperatorAction, Permits, Rule, WorkerItem};
use serde::Serialize;

use crate::exit::Failure;
use crate::orchestrations::Orchestrations;
use crate::output::{counted, short, table};
use crate::time::span;

/// The most keys that a list shows.
const MAX_KEYS: u32 = 1_000;

/// The limits of a container.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitList {
    /// What a dry run would have done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<&'static str>,
    pub limits: Vec<Rule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<OperatorAction>,
    /// The limited keys with activities that run or wait.
    pub keys: Vec<KeyPermits>,
    pub now: Timestamp,
}

/// The permits of a key.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeyPermits {
    pub key: String,
    /// The activities that may run at a time, in all runtimes.
    pub permits: u32,
    /// The activities that run or wait in a runtime.
    pub wanted: u32,
    /// The runtimes that have such activities.
    pub runtimes: usize,
}

impl From<&Permits> for KeyPermits {
    fn from(permits: &Permits) -> Self {
        let sum = |count: fn(&cdb_provider::documents::Holder) -> u32| {
            permits
                .holders
                .iter()
                .map(count)
                .fold(0, u32::saturating_add)
        };
        Self {
            key: permits.key.clone(),
            permits: sum(|holder| holder.running),
            wanted: sum(|holder| holder.wanted),
            runtimes: permits.holders.len(),
        }
    }
}

/// A limit that an activity waits for.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limited {
    pub key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts_per_second: Option<f64>,
    /// The activities with the key that run or wait in a runtime.
    pub wanted: u32,
}

/// Reads the limits and the permits.
pub(crate) async fn read(orchestrations: &Orchestrations) -> Result<LimitList, Failure> {
    let provider = &orchestrations.provider;
    let limits = provider.limits().await?;
    let permits = match &limits {
        Some(_) => provider.permits(MAX_KEYS).await?,
        None => Vec::new(),
    };
    let mut keys: Vec<_> = permits.iter().map(KeyPermits::from).collect();
    keys.sort_by(|a, b| b.wanted.cmp(&a.wanted).then_with(|| a.key.cmp(&b.key)));
    let changed = limits.as_ref().map(|limits| limits.changed.clone());
    Ok(LimitList {
        would: None,
        limits: limits.map_or_else(Vec::new, |limits| limits.rules),
        changed,
        keys,
        now: orchestrations.container.now(),
    })
}

/// Returns the limits of what runs or starts that select an activity.
pub(super) async fn of_activity(
    container: &ContainerClient<Durable>,
    limits: &Limits,
    activity: &WorkerItem,
) -> Result<Vec<Limited>, Failure> {
    let mut found = Vec::new();
    for (rule, key) in limits.of(activity) {
        if rule.running.is_none() && rule.starts_per_second.is_none() {
            continue;
        }
        let permits = container.read(&Permits::key_of(&key)).await?;
        let permits = permits.map(|stored| KeyPermits::from(&stored.document));
        found.push(Limited {
            running: rule.running,
            starts_per_second: rule.starts_per_second,
            wanted: permits.map_or(0, |permits| permits.wanted),
            key,
        });
    }
    Ok(found)
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: ", short(&self.key, 80))?;
        match (self.running, self.starts_per_second) {
            (Some(0), _) => return f.write_str("it is paused"),
            (Some(most), None) => write!(f, "{most} may run at a time")?,
            (Some(most), Some(rate)) => {
                write!(f, "{most} may run at a time, and {rate} start in a second")?;
            }
            (None, rate) => write!(f, "{} may start in a second", rate.unwrap_or_default())?,
        }
        write!(f, ", {} run or wait", self.wanted)
    }
}

impl fmt::Display for LimitList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(would) = self.would {
            writeln!(f, "would {would}; the limits would be:")?;
        }
        if self.limits.is_empty() {
            return writeln!(f, "no limits");
        }
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let rows = self.limits.iter().map(|rule| {
            vec![
                short(&rule.select.to_string(), 80),
                or_none(rule.running.map(|most| match most {
                    0 => "paused".to_owned(),
                    most => most.to_string(),
                })),
                or_none(rule.starts_per_second.map(|rate| rate.to_string())),
                or_none(rule.weight.map(|weight| weight.to_string())),
                or_none(rule.priority.map(|priority| match priority {
                    Priority::High => "high".to_owned(),
                    Priority::Normal => "normal".to_owned(),
                    Priority::Low => "low".to_owned(),
                })),
            ]
        });
        let rows: Vec<_> = rows.collect();
        let head = ["ACTIVITIES", "RUNNING", "PER SECOND", "WEIGHT", "PRIORITY"];
        f.write_str(&table(&head, &rows))?;
        if let Some(changed) = &self.changed {
            let age = span(self.now.since(changed.at));
            writeln!(
                f,
                "last change: {} by {}, {age} ago",
                changed.what, changed.by
            )?;
        }
        if self.keys.is_empty() {
            return Ok(());
        }
        let rows = self.keys.iter().map(|key| {
            vec![
                short(&key.key, 80),
                key.permits.to_string(),
                key.wanted.to_string(),
                counted(key.runtimes as u64, "runtime"),
            ]
        });
        let rows: Vec<_> = rows.collect();
        writeln!(f)?;
        f.write_str(&table(&["KEY", "PERMITS", "RUN OR WAIT", "IN"], &rows))
    }
}
