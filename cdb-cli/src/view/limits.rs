//! The limits of activities, and the keys that they limit at present.

use std::fmt;

use cdb_model::Timestamp;
use cdb_provider::documents::{OperatorAction, Priority, Rule, Selector};
use serde::Serialize;

use super::limited_keys::{self, LimitedKeys};
use crate::exit::Failure;
use crate::orchestrations::Orchestrations;
use crate::output::{short, table};
use crate::time::span;

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
    /// The limits that select no activity, as far as is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_activities: Vec<Selector>,
    #[serde(flatten)]
    pub keys: LimitedKeys,
    pub now: Timestamp,
}

/// Reads the limits, and the keys that they limit at present.
pub(crate) async fn read(orchestrations: &Orchestrations) -> Result<LimitList, Failure> {
    let limits = orchestrations.provider.limits().await?;
    let keys = match &limits {
        Some(limits) => limited_keys::read(orchestrations, limits).await?,
        None => None,
    };
    let without_activities = match &limits {
        Some(limits) => limited_keys::without_activities(orchestrations, limits).await?,
        None => Vec::new(),
    };
    let without_activities = without_activities.into_iter().map(|rule| rule.select);
    let changed = limits.as_ref().map(|limits| limits.changed.clone());
    Ok(LimitList {
        without_activities: without_activities.collect(),
        would: None,
        limits: limits.map_or_else(Vec::new, |limits| limits.rules),
        changed,
        keys: keys.unwrap_or_default(),
        now: orchestrations.container.now(),
    })
}

/// Says that a limit selects no activity, as far as is known.
pub(crate) fn no_activities(select: &Selector) -> String {
    let select = short(&select.to_string(), 80);
    format!(
        "`{select}` selects no activity that waits or runs, and none that used a limit within the last hour"
    )
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
        for select in &self.without_activities {
            writeln!(f, "{}", no_activities(select))?;
        }
        self.keys.fmt(f)
    }
}
