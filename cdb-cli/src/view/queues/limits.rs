//! The limits of activities, and the keys that they limit at present.

use std::fmt;

use cdb_provider::documents::{Priority, Rule, Selector};
use cdb_provider::observe::{KeysInUse, LimitsInUse};
use serde::Serialize;

use super::limited_keys::Keys;
use crate::container::Orchestrations;
use crate::exit::Failure;
use crate::output::{short, span, table};

/// The limits of a container.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LimitList {
    /// What a dry run would have done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would: Option<&'static str>,
    /// What the limit was, and what it is, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    #[serde(flatten)]
    pub in_use: LimitsInUse,
}

/// Reads the limits, and the keys that they limit at present.
pub(crate) async fn read(orchestrations: &Orchestrations) -> Result<LimitList, Failure> {
    Ok(LimitList {
        would: None,
        change: None,
        in_use: orchestrations.provider.observe().limits().await?,
    })
}

/// Says that limits select no activity, as far as is known.
pub(crate) fn no_activities(selects: &[Selector]) -> String {
    let names = selects.iter().map(|select| format!("`{select}`"));
    let names = names.collect::<Vec<_>>().join(", ");
    let select = if selects.len() == 1 {
        "selects"
    } else {
        "select"
    };
    format!(
        "{names} {select} no activity that waits or runs, and none that used a limit within the last hour"
    )
}

/// Returns how a limit differs from the one that it replaces; `None` if it does not.
pub(crate) fn change(before: &Rule, after: &Rule) -> Option<String> {
    let [before, after_values] = [before, after].map(values);
    let values = before.into_iter().zip(after_values);
    let changed = values.filter(|((_, before), (_, after))| before != after);
    let changed = changed.map(|((name, before), (_, after))| format!("{name} {before} → {after}"));
    let changed: Vec<_> = changed.collect();
    let select = &after.select;
    (!changed.is_empty()).then(|| format!("`{select}`: {}", changed.join(", ")))
}

/// Returns the values of a limit, with their names.
fn values(rule: &Rule) -> [(&'static str, String); 4] {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let running = rule.running.map(|most| match most {
        0 => "paused".to_owned(),
        most => most.to_string(),
    });
    let priority = rule.priority.map(|priority| match priority {
        Priority::High => "high",
        Priority::Normal => "normal",
        Priority::Low => "low",
    });
    [
        ("running", or_none(running)),
        (
            "per second",
            or_none(rule.starts_per_second.map(|rate| rate.to_string())),
        ),
        (
            "weight",
            or_none(rule.weight.map(|weight| weight.to_string())),
        ),
        ("priority", or_none(priority.map(ToOwned::to_owned))),
    ]
}

impl LimitList {
    /// Returns the limits as a change would leave them.
    pub(crate) fn planned(mut self, would: &'static str, limits: Vec<Rule>) -> Self {
        self.would = Some(would);
        self.in_use.rules = limits;
        self.in_use.keys = KeysInUse::default();
        self.in_use.without_activities.clear();
        self
    }
}

impl fmt::Display for LimitList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.would, &self.change) {
            (Some(would), None) => writeln!(f, "would {would}; the limits would be:")?,
            (Some(_), Some(change)) => writeln!(f, "would change {change}; the limits would be:")?,
            (None, Some(change)) => writeln!(f, "changed {change}")?,
            (None, None) => {}
        }
        let LimitsInUse {
            rules,
            changed,
            without_activities,
            keys,
            now,
            ..
        } = &self.in_use;
        if rules.is_empty() {
            return writeln!(f, "no limits");
        }
        let rows = rules.iter().map(|rule| {
            let mut row = vec![short(&rule.select.to_string(), 80)];
            row.extend(values(rule).map(|(_, value)| value));
            row
        });
        let rows: Vec<_> = rows.collect();
        let head = ["ACTIVITIES", "RUNNING", "PER SECOND", "WEIGHT", "PRIORITY"];
        f.write_str(&table(&head, &rows))?;
        if let Some(changed) = changed {
            let age = span(now.since(changed.at));
            writeln!(
                f,
                "last change: {} by {}, {age} ago",
                changed.what, changed.by
            )?;
        }
        if !without_activities.is_empty() {
            writeln!(f, "{}", no_activities(without_activities))?;
        }
        Keys(keys).fmt(f)
    }
}
