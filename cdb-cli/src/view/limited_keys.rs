//! The limited keys: what runs, what waits for the limit, and since when.
//!
//! Runtimes note in the permits of a key what they run and what waits. A pause needs no permits, so
//! what waits for one is counted among the oldest due activities.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use cdb_provider::documents::{
    Durable, FIRST_DUE, Limits, OperatorAction, Permits, Rule, WorkerItem,
};
use futures::try_join;
use serde::Serialize;

use super::members;
use crate::exit::Failure;
use crate::orchestrations::Orchestrations;
use crate::output::{counted, short, table};
use crate::time::{milliseconds, span};

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
    /// The activities with the key that run.
    pub running: u64,
    /// Those that wait for the limit. Of a pause, those among the oldest 1,000 due activities.
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
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference to the field"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Whether runtimes divide the due activities among them.
#[derive(Clone, Copy, Debug)]
enum Sharing {
    /// Each counts those of its slots.
    Slots,
    /// Each counts all.
    Nothing,
}

impl Sharing {
    async fn read(container: &ContainerClient<Durable>) -> Result<Self, Failure> {
        let group = members::read(container, None).await?;
        Ok(if group.members.is_empty() {
            Self::Nothing
        } else {
            Self::Slots
        })
    }
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
    let permits = async { Ok(orchestrations.provider.permits(MAX_READ).await?) };
    let (permits, sharing) = try_join!(permits, Sharing::read(container))?;
    let mut left_out = 0;
    if permits.len() >= MAX_READ as usize {
        let counts = Query::<Permits>::across_partitions().count();
        let counts = container.query(counts).all().await?;
        let all = counts.into_iter().sum::<u64>();
        left_out = all.saturating_sub(MAX_READ.into());
    }
    let now = container.now();
    let in_use = permits
        .into_iter()
        .filter(|permits| !permits.holders.is_empty());
    let rows = in_use.filter_map(|permits| {
        let rule = limits.cap(&permits.key)?;
        let row = LimitedKey::new(permits.key.clone(), rule);
        Some((row.key.clone(), row.with(&permits, rule, sharing, now)))
    });
    let mut rows: BTreeMap<_, _> = rows.collect();
    let has_pause = limits.rules.iter().any(|rule| rule.running == Some(0));
    let has_limited = has_pause || rows.values().any(|row| row.waiting > 0);
    let due = Query::<WorkerItem>::across_partitions()
        .filter(WorkerItem::VISIBLE_AT.between(FIRST_DUE, now))
        .order_by(WorkerItem::BY_DUE)
        .limit(if has_limited { SAMPLE } else { 1 });
    let due = container.query(due).all().await?.into_iter();
    let unlimited = count_paused(&mut rows, limits, due.map(|stored| stored.document), now);
    let mut shown: Vec<_> = rows.into_values().collect();
    shown.sort_by_key(|row| {
        (
            Reverse(row.oldest),
            Reverse(row.waiting),
            Reverse(row.running),
        )
    });
    left_out += shown.len().saturating_sub(MAX_SHOWN) as u64;
    shown.truncate(MAX_SHOWN);
    Ok(Some(LimitedKeys {
        shown,
        left_out,
        unlimited,
        changed: Some(limits.changed.clone()),
    }))
}

/// Counts the due activities that a pause holds back. Returns the age of the oldest one that no limit
/// holds back.
fn count_paused(
    rows: &mut BTreeMap<String, LimitedKey>,
    limits: &Limits,
    due: impl Iterator<Item = WorkerItem>,
    now: Timestamp,
) -> Option<Duration> {
    let mut unlimited = None;
    for item in due {
        let age = Some(now.since(item.visible_at));
        let caps = limits.caps_of(&item);
        let pause = caps.iter().find(|(rule, _)| rule.running == Some(0));
        let is_limited =
            |(_, key): &(&Rule, String)| rows.get(key).is_some_and(|row| row.waiting > 0);
        if let Some((rule, key)) = pause {
            let row = rows.entry(key.clone());
            let row = row.or_insert_with(|| LimitedKey::new(key.clone(), rule));
            row.waiting += 1;
            row.oldest = row.oldest.max(age);
        } else if !caps.iter().any(is_limited) {
            unlimited = unlimited.max(age);
        }
    }
    unlimited
}

/// Reads the keys whose limits an activity keeps to.
pub(super) async fn of_activity(
    container: &ContainerClient<Durable>,
    limits: &Limits,
    activity: &WorkerItem,
) -> Result<Vec<LimitedKey>, Failure> {
    let mut found = Vec::new();
    for (rule, key) in limits.caps_of(activity) {
        let permits = container.read(&Permits::key_of(&key)).await?;
        let row = LimitedKey::new(key, rule);
        found.push(match permits {
            None => row,
            Some(permits) => {
                let sharing = Sharing::read(container).await?;
                row.with(&permits.document, rule, sharing, container.now())
            }
        });
    }
    Ok(found)
}

impl LimitedKey {
    fn new(key: String, rule: &Rule) -> Self {
        Self {
            key,
            running: 0,
            waiting: 0,
            limit: describe(rule, 0),
            oldest: None,
            is_paused: rule.running == Some(0),
        }
    }

    /// Adds what the runtimes have noted in the permits.
    fn with(mut self, permits: &Permits, rule: &Rule, sharing: Sharing, now: Timestamp) -> Self {
        for holder in permits.holders.iter().filter(|holder| holder.until > now) {
            // A version that does not note what waits has started what its permits allow.
            let beyond = holder.wanted.saturating_sub(holder.running);
            let waiting = holder.waiting.unwrap_or(beyond).into();
            self.running += u64::from(holder.wanted).saturating_sub(waiting);
            self.waiting = match sharing {
                Sharing::Slots => self.waiting + waiting,
                Sharing::Nothing => self.waiting.max(waiting),
            };
            let oldest = holder.waiting_since.map(|since| now.since(since));
            self.oldest = self.oldest.max(oldest);
        }
        self.limit = describe(rule, self.running);
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
        if self.shown.is_empty() {
            return Ok(());
        }
        let rows = self.shown.iter().map(|row| {
            vec![
                short(&row.key, 80),
                row.running.to_string(),
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
    use cdb_provider::documents::Holder;

    use super::*;

    #[test]
    fn runtimes_that_share_slots_count_different_activities() {
        let now = Timestamp::from_millis(1_000_000);
        let holder = |waiting| Holder {
            wanted: 2 + waiting,
            waiting: Some(waiting),
            waiting_since: Some(now - Duration::from_secs(waiting.into())),
            until: now + Duration::from_secs(1),
            ..Holder::default()
        };
        let permits = Permits {
            holders: vec![holder(7), holder(30)],
            ..Permits::default()
        };
        let rule = Rule::new("tenant=ada".parse().expect("valid")).running(5);
        let row = |sharing| {
            let row = LimitedKey::new("tenant=ada".to_owned(), &rule);
            row.with(&permits, &rule, sharing, now)
        };
        assert_eq!(row(Sharing::Slots).waiting, 37);
        assert_eq!(row(Sharing::Nothing).waiting, 30);
        let both = row(Sharing::Slots);
        assert_eq!((both.running, &*both.limit), (4, "4 of 5 run"));
        assert_eq!(both.oldest, Some(Duration::from_secs(30)));
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
