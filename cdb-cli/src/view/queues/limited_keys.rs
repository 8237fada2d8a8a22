//! The limited keys: what runs, what waits for the limit, and since when.
//!
//! What runs is what the runtimes hold permits for. What waits is counted among the oldest due activities.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use cdb_provider::documents::{self, Durable, FIRST_DUE, Limits, OperatorAction, Rule, WorkerItem};
use futures::try_join;
use serde::Serialize;

use super::unstarted;
use crate::container::Orchestrations;
use crate::exit::Failure;
use crate::output::{counted, milliseconds, short, span, table};

/// The most keys that an answer shows.
const MAX_SHOWN: usize = 50;

/// The most keys whose permits are read.
const MAX_READ: u32 = 1_000;

/// The number of oldest due activities that are compared with the limits.
const SAMPLE: u32 = 1_000;

/// The limited keys with activities that run or wait.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitedKeys {
    /// Those whose activities wait longest come first.
    #[serde(rename = "limitedKeys")]
    pub shown: Vec<LimitedKey>,
    /// The keys that are not shown.
    #[serde(rename = "limitedKeysLeftOut", skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// The instances that limits may keep from beginning: only programs know the labels of instances.
    #[serde(skip_serializing_if = "is_zero")]
    pub may_not_begin: u64,
    /// The time since the oldest activity became due that no limit holds back.
    #[serde(skip)]
    pub unlimited: Option<Duration>,
    /// The last change of the limits.
    #[serde(skip)]
    pub changed: Option<OperatorAction>,
}

/// A limited key.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitedKey {
    pub key: String,
    /// The permits that runtimes hold, most of them for activities that run; `None` if only a rate limits the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// Those among the oldest 1,000 due activities that wait for the limit.
    pub waiting: u64,
    /// What the limit lets run or start, in words.
    pub limit: String,
    /// The time since the oldest waiting activity became due.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "milliseconds",
        rename = "oldestMs"
    )]
    pub oldest: Option<Duration>,
    #[serde(skip)]
    pub is_paused: bool,
    /// Whether no activity may start now.
    #[serde(skip)]
    is_used_up: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference to the field"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Reads the limited keys. Sends no request if no limit concerns what runs or starts.
pub(crate) async fn read(
    orchestrations: &Orchestrations,
    limits: &Limits,
) -> Result<Option<LimitedKeys>, Failure> {
    if !limits.rules.iter().any(Rule::is_cap) {
        return Ok(None);
    }
    let container = &orchestrations.container;
    let now = container.now();
    let used = async { Ok(orchestrations.provider.limited_keys(MAX_READ).await?) };
    let due = async {
        let due = Query::<WorkerItem>::across_partitions()
            .filter(WorkerItem::VISIBLE_AT.between(FIRST_DUE, now))
            .order_by(WorkerItem::BY_DUE)
            .limit(SAMPLE);
        Ok::<_, Failure>(container.query(due).all().await?)
    };
    let (used, due) = try_join!(used, due)?;
    let mut left_out = 0;
    if used.len() >= MAX_READ as usize {
        let counts = Query::<documents::LimitedKey>::across_partitions().count();
        let counts = container.query(counts).all().await?;
        let all = counts.into_iter().sum::<u64>();
        left_out = all.saturating_sub(MAX_READ.into());
    }
    let rows = used.into_iter().filter_map(|used| {
        let rule = limits.cap(&used.key)?;
        let row = LimitedKey::new(used.key.clone(), rule);
        Some((row.key.clone(), row.with(&used, rule, now)))
    });
    let mut rows: BTreeMap<_, _> = rows.collect();
    let due = due.into_iter().map(|stored| stored.document);
    let unlimited = count_waiting(&mut rows, limits, due, now);
    let in_use = rows
        .into_values()
        .filter(|row| row.running > Some(0) || row.waiting > 0);
    let mut shown: Vec<_> = in_use.collect();
    shown.sort_by_key(|row| {
        (
            Reverse(row.oldest),
            Reverse(row.waiting),
            Reverse(row.running),
        )
    });
    left_out += shown.len().saturating_sub(MAX_SHOWN) as u64;
    shown.truncate(MAX_SHOWN);
    let has_starts = limits.rules.iter().any(Rule::keeps_from_beginning);
    let may_not_begin = if has_starts {
        may_wait(orchestrations).await?
    } else {
        0
    };
    Ok(Some(LimitedKeys {
        shown,
        left_out,
        may_not_begin,
        unlimited,
        changed: Some(limits.changed.clone()),
    }))
}

/// Counts the due activities that limits hold back. Returns the age of the oldest one that no limit
/// holds back.
fn count_waiting(
    rows: &mut BTreeMap<String, LimitedKey>,
    limits: &Limits,
    due: impl Iterator<Item = WorkerItem>,
    now: Timestamp,
) -> Option<Duration> {
    let mut unlimited = None;
    for item in due {
        let age = Some(now.since(item.visible_at));
        let mut is_held_back = false;
        for (rule, key) in limits.caps_of(&item) {
            let row = rows.entry(key.clone());
            let row = row.or_insert_with(|| LimitedKey::new(key, rule));
            if row.is_used_up {
                row.waiting += 1;
                row.oldest = row.oldest.max(age);
                is_held_back = true;
            }
        }
        if !is_held_back {
            unlimited = unlimited.max(age);
        }
    }
    unlimited
}

/// Returns the rules that select no activity, as far as is known: none that waits or runs, of the first 1,000, and none
/// that has used a limit within the last hour.
pub(crate) async fn without_activities(
    orchestrations: &Orchestrations,
    limits: &Limits,
) -> Result<Vec<Rule>, Failure> {
    if limits.rules.is_empty() {
        return Ok(Vec::new());
    }
    let container = &orchestrations.container;
    let used = async { Ok(orchestrations.provider.limited_keys(MAX_READ).await?) };
    let stored = async {
        let stored = Query::<WorkerItem>::across_partitions()
            .filter(WorkerItem::VISIBLE_AT.ge(FIRST_DUE))
            .order_by(WorkerItem::BY_DUE)
            .limit(SAMPLE);
        Ok::<_, Failure>(container.query(stored).all().await?)
    };
    let (used, stored) = try_join!(used, stored)?;
    let has_starts = limits.rules.iter().any(Rule::keeps_from_beginning);
    let has_starts = has_starts && may_wait(orchestrations).await? > 0;
    let is_idle = |rule: &&Rule| {
        let mut stored = stored.iter();
        // Labels of instances that have not begun are not known.
        let may_select_starts = has_starts && rule.keeps_from_beginning();
        !may_select_starts
            && !used.iter().any(|used| rule.is_of(&used.key))
            && !stored.any(|stored| rule.selects(&stored.document))
    };
    Ok(limits.rules.iter().filter(is_idle).cloned().collect())
}

/// Counts the instances that limits may keep from beginning, among those of the oldest messages.
async fn may_wait(orchestrations: &Orchestrations) -> Result<u64, Failure> {
    let starts = unstarted::read(orchestrations).await?;
    let limited = starts.iter().filter(|start| !start.limits.is_empty());
    Ok(limited.count() as u64)
}

/// Returns the used-up limits of each activity.
pub(crate) async fn used_up(
    container: &ContainerClient<Durable>,
    limits: &Limits,
    activities: &[WorkerItem],
) -> Result<Vec<Vec<LimitedKey>>, Failure> {
    let caps = activities.iter().map(|activity| limits.caps_of(activity));
    let caps: Vec<_> = caps.collect();
    let keys: BTreeSet<&str> = caps.iter().flatten().map(|(_, key)| &**key).collect();
    let addresses: Vec<_> = keys
        .iter()
        .map(|key| documents::LimitedKey::key_of(key))
        .collect();
    let used = container.read_many(&addresses).await?;
    let used = keys.into_iter().zip(used);
    let used: BTreeMap<_, _> = used
        .filter_map(|(key, used)| Some((key, used?.document)))
        .collect();
    let now = container.now();
    let row = |(rule, key): &(&Rule, String)| {
        let row = LimitedKey::new(key.clone(), rule);
        match used.get(&**key) {
            None => row,
            Some(used) => row.with(used, rule, now),
        }
    };
    let used_up = caps.iter().map(|caps| {
        let rows = caps.iter().map(row);
        rows.filter(|row| row.is_used_up).collect()
    });
    Ok(used_up.collect())
}

impl LimitedKey {
    fn new(key: String, rule: &Rule) -> Self {
        let is_paused = rule.running == Some(0);
        Self {
            key,
            running: rule.running.map(|_| 0),
            waiting: 0,
            limit: describe(rule, 0),
            oldest: None,
            is_paused,
            is_used_up: is_paused,
        }
    }

    /// Adds what the runtimes use.
    fn with(mut self, used: &documents::LimitedKey, rule: &Rule, now: Timestamp) -> Self {
        let running = u64::try_from(used.running()).unwrap_or_default();
        self.running = rule.running.map(|_| running);
        let micros = i64::try_from(now.as_millis()).unwrap_or(i64::MAX / 1_000) * 1_000;
        self.is_used_up |= rule.running.is_some() && used.free <= 0
            || rule.starts_per_second.is_some() && used.next_start > micros;
        self.limit = describe(rule, running);
        self
    }
}

/// Describes what a rule lets run or start of a key.
fn describe(rule: &Rule, running: u64) -> String {
    match (rule.running, rule.starts_per_second) {
        (Some(0), _) => "paused".to_owned(),
        (Some(most), Some(rate)) if running < u64::from(most) => {
            format!("{running} of {most} run, {rate} start in a second")
        }
        (Some(most), _) => format!("{running} of {most} run"),
        (None, rate) => format!("{} start in a second", rate.unwrap_or_default()),
    }
}

impl fmt::Display for LimitedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", short(&self.key, 80), self.limit)?;
        match self.waiting {
            0 => Ok(()),
            waiting => write!(f, ", {waiting} wait"),
        }
    }
}

impl LimitedKeys {
    /// Returns the activities that wait for the limits of the shown keys.
    pub(crate) fn waiting(&self) -> u64 {
        self.shown.iter().map(|row| row.waiting).sum()
    }
}

impl fmt::Display for LimitedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.may_not_begin > 0 {
            let instances = counted(self.may_not_begin, "instance");
            writeln!(
                f,
                "{instances} not begun, perhaps because of a limit with --running 0"
            )?;
        }
        if self.shown.is_empty() {
            return Ok(());
        }
        let rows = self.shown.iter().map(|row| {
            vec![
                short(&row.key, 80),
                row.running.map(|it| it.to_string()).unwrap_or_default(),
                row.waiting.to_string(),
                row.limit.clone(),
                row.oldest.map(span).unwrap_or_default(),
            ]
        });
        let head = ["KEY", "RUNNING", "WAITING", "LIMIT", "OLDEST"];
        writeln!(f)?;
        f.write_str(&table(&head, &rows.collect::<Vec<_>>()))?;
        match self.left_out {
            0 => Ok(()),
            more => writeln!(f, "and {}", counted(more, "more key")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_activity_waits_only_for_limits_that_are_used_up() {
        let now = Timestamp::from_millis(1_000_000);
        let rule = Rule::new("tenant=ada".parse().expect("valid")).running(5);
        let row = |rule: &Rule, free, next_start| {
            let used = documents::LimitedKey {
                free,
                next_start,
                held: [("a".to_owned(), 3), ("b".to_owned(), 5 - 3 - free)].into(),
                ..documents::LimitedKey::default()
            };
            LimitedKey::new("tenant=ada".to_owned(), rule).with(&used, rule, now)
        };
        let free = row(&rule, 1, 0);
        assert_eq!((free.running, &*free.limit), (Some(4), "4 of 5 run"));
        assert!(!free.is_used_up && row(&rule, 0, 0).is_used_up);
        let rate = Rule::new("tenant=ada".parse().expect("valid")).starts_per_second(1.0);
        assert_eq!(row(&rate, 0, 0).running, None);
        assert!(!row(&rate, 0, 1_000_000_000).is_used_up);
        assert!(row(&rate, 0, 1_000_000_001).is_used_up);
    }

    #[test]
    fn a_limit_says_what_holds_activities_back() {
        let rule = Rule::new("*".parse().expect("valid"));
        let says = |rule: &Rule, running| describe(rule, running);
        let both = rule.clone().running(5).starts_per_second(0.5);
        assert_eq!(says(&both, 5), "5 of 5 run");
        assert_eq!(says(&both, 3), "3 of 5 run, 0.5 start in a second");
        assert_eq!(says(&rule.clone().running(0), 2), "paused");
        assert_eq!(says(&rule.starts_per_second(9.0), 2), "9 start in a second");
    }
}
