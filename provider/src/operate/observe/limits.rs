//! The limits of a container, and what they hold back at present.

use cdb_client::Result;
use cdb_model::Timestamp;
use serde::Serialize;

use super::keys::{self, KeysInUse, Permits};
use super::sample::{self, Container};
use super::unstarted::{self, Unstarted};
use crate::operate::limits::rules;
use crate::stored::documents::{Limits, OperatorAction, Rule, Selector, WorkerItem};

/// The number of activities, due first, that are compared with the limits.
pub(super) const SAMPLE: u32 = 1_000;

/// The limits of a container, and what they hold back at present.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LimitsInUse {
    /// The rules. An activity keeps to all that select it.
    #[serde(rename = "limits")]
    pub rules: Vec<Rule>,
    /// The last change; `None` for a container that never had limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<OperatorAction>,
    /// The selectors of rules that select no activity, as far as is known: none that waits or runs, of the first
    /// 1,000, and none that has used a limit within the last hour. They may be misspelt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_activities: Vec<Selector>,
    /// The keys; none if no rule concerns what runs or starts.
    #[serde(flatten)]
    pub keys: KeysInUse,
    /// The service's time of the answer.
    pub now: Timestamp,
}

/// Reads the limits and what they hold back.
pub(super) async fn read(container: &Container) -> Result<LimitsInUse> {
    let limits = rules::read(container).await?.map(|stored| stored.document);
    let now = container.now();
    let Some(limits) = limits else {
        return Ok(LimitsInUse {
            now,
            ..LimitsInUse::default()
        });
    };
    let (keys, without_activities) = if limits.rules.is_empty() {
        (KeysInUse::default(), Vec::new())
    } else {
        Box::pin(in_use(container, &limits, now)).await?
    };
    Ok(LimitsInUse {
        changed: Some(limits.changed),
        rules: limits.rules,
        without_activities,
        keys,
        now,
    })
}

async fn in_use(
    container: &Container,
    limits: &Limits,
    now: Timestamp,
) -> Result<(KeysInUse, Vec<Selector>)> {
    let starts = async {
        if unstarted::may_wait(Some(limits)) {
            unstarted::read_with(container, Some(limits)).await
        } else {
            Ok(Vec::new())
        }
    };
    let (permits, activities, starts) = futures::try_join!(
        Permits::read(container),
        sample::activities(container, sample::all_activities(), SAMPLE),
        starts,
    )?;
    let idle = without_activities(limits, &permits, &activities.items, &starts);
    if !limits.rules.iter().any(Rule::is_cap) {
        return Ok((KeysInUse::default(), idle));
    }
    let due = activities.items.iter();
    let due = due.take_while(|item| item.visible_at <= now);
    Ok((KeysInUse::of(limits, &permits, due, &starts, now), idle))
}

/// Returns the selectors of rules that select no activity, as far as is known.
pub(super) fn without_activities(
    limits: &Limits,
    permits: &Permits,
    activities: &[WorkerItem],
    starts: &[Unstarted],
) -> Vec<Selector> {
    let has_limited = keys::may_not_begin(starts) > 0;
    let is_idle = |rule: &&Rule| {
        // Labels of instances that have not begun are not known.
        let may_select_starts = has_limited && rule.keeps_from_beginning();
        !may_select_starts
            && !permits.has_key_of(rule)
            && !activities.iter().any(|activity| rule.selects(activity))
    };
    let idle = limits.rules.iter().filter(is_idle);
    idle.map(|rule| rule.select.clone()).collect()
}
