//! The limited keys: what runs, what waits for the limit, and since when.
//!
//! What runs is what the runtimes hold permits for. What waits is counted among the oldest due activities.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use cdb_client::Result;
use cdb_model::query::Filter;
use cdb_model::{Query, Timestamp};
use serde::{Serialize, Serializer};

use super::json;
use super::sample::Container;
use super::unstarted::Unstarted;
use crate::operate::metrics::count;
use crate::stored::documents::{LimitedKey, Limits, OperatorAction, Rule, WorkerItem};

/// The most keys of an answer.
const MAX_SHOWN: usize = 50;

/// The most keys whose permits are read.
const MAX_READ: u32 = 1_000;

/// The limited keys with activities that run or wait.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KeysInUse {
    /// At most 50 keys. Those whose activities wait longest come first.
    #[serde(rename = "limitedKeys")]
    pub keys: Vec<KeyUse>,
    /// The number of other keys.
    #[serde(rename = "limitedKeysLeftOut", skip_serializing_if = "json::is_zero")]
    pub left_out: u64,
    /// The instances that limits may keep from beginning: only programs know the labels of instances.
    #[serde(skip_serializing_if = "json::is_zero")]
    pub may_not_begin: u64,
    /// The time since the oldest activity became due that no limit holds back.
    #[serde(skip)]
    pub unlimited: Option<Duration>,
    /// The last change of the limits.
    #[serde(skip)]
    pub changed: Option<OperatorAction>,
}

/// What runs and waits of a limited key.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct KeyUse {
    /// The key, `tenant=ada`.
    pub key: String,
    /// The permits that runtimes hold, most of them for activities that run; `None` if only a rate limits the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// Those among the oldest 1,000 due activities that wait for the limit.
    pub waiting: u64,
    /// What the limit lets run or start.
    pub limit: Allowance,
    /// The time since the oldest waiting activity became due.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "json::some_milliseconds",
        rename = "oldestMs"
    )]
    pub oldest: Option<Duration>,
    /// Whether no activity may start now.
    #[serde(skip)]
    pub is_used_up: bool,
}

/// What a limit lets run or start of a key. Displayed with what runs: `4 of 5 run`, `paused`. So is its JSON.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Allowance {
    /// The most activities that run at a time. Zero pauses the key.
    pub most: Option<u32>,
    /// The most activities that start in a second.
    pub starts_per_second: Option<f64>,
    /// The permits that runtimes hold.
    running: u64,
}

/// The permits of limited keys.
pub(super) struct Permits {
    used: Vec<LimitedKey>,
    left_out: u64,
}

impl Permits {
    pub(super) async fn read(container: &Container) -> Result<Self> {
        let query = Query::<LimitedKey>::across_partitions().limit(MAX_READ);
        let used = container.query(query).all().await?;
        let mut left_out = 0;
        if used.len() >= MAX_READ as usize {
            let all = count(container, Filter::<LimitedKey>::all()).await?;
            left_out = all.saturating_sub(MAX_READ.into());
        }
        let used = used.into_iter().map(|stored| stored.document);
        Ok(Self {
            used: used.collect(),
            left_out,
        })
    }

    /// Returns whether a rule limits one of the keys.
    pub(super) fn has_key_of(&self, rule: &Rule) -> bool {
        self.used.iter().any(|used| rule.is_of(&used.key))
    }
}

/// Counts the instances that limits may keep from beginning.
pub(super) fn may_not_begin(starts: &[Unstarted]) -> u64 {
    let limited = starts.iter().filter(|start| !start.limits.is_empty());
    limited.count() as u64
}

impl KeysInUse {
    /// Compares the oldest due activities with the limits.
    pub(super) fn of<'a>(
        limits: &Limits,
        permits: &Permits,
        due: impl Iterator<Item = &'a WorkerItem>,
        starts: &[Unstarted],
        now: Timestamp,
    ) -> Self {
        let known = permits.used.iter().filter_map(|used| {
            let rule = limits.cap(&used.key)?;
            let row = KeyUse::new(used.key.clone(), rule);
            Some((used.key.clone(), row.with(used, rule, now)))
        });
        let mut rows: BTreeMap<_, _> = known.collect();
        let unlimited = count_waiting(&mut rows, limits, due, now);
        let in_use = rows
            .into_values()
            .filter(|row| row.running > Some(0) || row.waiting > 0);
        let mut keys: Vec<_> = in_use.collect();
        keys.sort_by_key(|row| {
            (
                Reverse(row.oldest),
                Reverse(row.waiting),
                Reverse(row.running),
            )
        });
        let left_out = permits.left_out + keys.len().saturating_sub(MAX_SHOWN) as u64;
        keys.truncate(MAX_SHOWN);
        Self {
            keys,
            left_out,
            may_not_begin: may_not_begin(starts),
            unlimited,
            changed: Some(limits.changed.clone()),
        }
    }

    /// Returns the activities that wait for the limits of the keys.
    pub fn waiting(&self) -> u64 {
        self.keys.iter().map(|row| row.waiting).sum()
    }
}

/// Counts the due activities that limits hold back. Returns the age of the oldest one that no limit holds back.
fn count_waiting<'a>(
    rows: &mut BTreeMap<String, KeyUse>,
    limits: &Limits,
    due: impl Iterator<Item = &'a WorkerItem>,
    now: Timestamp,
) -> Option<Duration> {
    let mut unlimited = None;
    for item in due {
        let age = Some(now.since(item.visible_at));
        let mut is_held_back = false;
        for (rule, key) in limits.caps_of(item) {
            let row = rows.entry(key.clone());
            let row = row.or_insert_with(|| KeyUse::new(key, rule));
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

/// Returns the used-up limits of each activity.
pub(super) async fn used_up(
    container: &Container,
    limits: &Limits,
    activities: &[WorkerItem],
) -> Result<Vec<Vec<KeyUse>>> {
    let caps = activities.iter().map(|activity| limits.caps_of(activity));
    let caps: Vec<_> = caps.collect();
    let keys: BTreeSet<&str> = caps.iter().flatten().map(|(_, key)| &**key).collect();
    let addresses: Vec<_> = keys.iter().map(|key| LimitedKey::key_of(key)).collect();
    let used = container.read_many(&addresses).await?;
    let used = keys.into_iter().zip(used);
    let used: BTreeMap<_, _> = used
        .filter_map(|(key, used)| Some((key, used?.document)))
        .collect();
    let now = container.now();
    let row = |(rule, key): &(&Rule, String)| {
        let row = KeyUse::new(key.clone(), rule);
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

impl KeyUse {
    fn new(key: String, rule: &Rule) -> Self {
        Self {
            key,
            running: rule.running.map(|_| 0),
            waiting: 0,
            limit: Allowance {
                most: rule.running,
                starts_per_second: rule.starts_per_second,
                running: 0,
            },
            oldest: None,
            is_used_up: rule.running == Some(0),
        }
    }

    /// Adds what the runtimes use.
    fn with(mut self, used: &LimitedKey, rule: &Rule, now: Timestamp) -> Self {
        let running = u64::try_from(used.running()).unwrap_or_default();
        self.running = rule.running.map(|_| running);
        let micros = i64::try_from(now.as_millis()).unwrap_or(i64::MAX / 1_000) * 1_000;
        self.is_used_up |= rule.running.is_some() && used.free <= 0
            || rule.starts_per_second.is_some() && used.next_start > micros;
        self.limit.running = running;
        self
    }
}

impl Allowance {
    /// Returns whether the limit lets none run.
    pub fn is_pause(&self) -> bool {
        self.most == Some(0)
    }
}

impl fmt::Display for Allowance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.running;
        match (self.most, self.starts_per_second) {
            (Some(0), _) => f.write_str("paused"),
            (Some(most), Some(rate)) if running < u64::from(most) => {
                write!(f, "{running} of {most} run, {rate} start in a second")
            }
            (Some(most), _) => write!(f, "{running} of {most} run"),
            (None, rate) => write!(f, "{} start in a second", rate.unwrap_or_default()),
        }
    }
}

impl Serialize for Allowance {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
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
            let used = LimitedKey {
                free,
                next_start,
                held: [("a".to_owned(), 3), ("b".to_owned(), 5 - 3 - free)].into(),
                ..LimitedKey::default()
            };
            KeyUse::new("tenant=ada".to_owned(), rule).with(&used, rule, now)
        };
        let free = row(&rule, 1, 0);
        assert_eq!(free.running, Some(4));
        assert_eq!(free.limit.to_string(), "4 of 5 run");
        assert!(!free.is_used_up && row(&rule, 0, 0).is_used_up);
        let rate = Rule::new("tenant=ada".parse().expect("valid")).starts_per_second(1.0);
        assert_eq!(row(&rate, 0, 0).running, None);
        assert!(!row(&rate, 0, 1_000_000_000).is_used_up);
        assert!(row(&rate, 0, 1_000_000_001).is_used_up);
    }

    #[test]
    fn a_limit_says_what_holds_activities_back() {
        let rule = Rule::new("*".parse().expect("valid"));
        let says = |rule: &Rule, running| {
            let limit = KeyUse::new("*".to_owned(), rule).limit;
            Allowance { running, ..limit }.to_string()
        };
        let both = rule.clone().running(5).starts_per_second(0.5);
        assert_eq!(says(&both, 5), "5 of 5 run");
        assert_eq!(says(&both, 3), "3 of 5 run, 0.5 start in a second");
        assert_eq!(says(&rule.clone().running(0), 2), "paused");
        assert_eq!(says(&rule.starts_per_second(9.0), 2), "9 start in a second");
    }
}
