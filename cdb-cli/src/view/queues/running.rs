//! The activities that workers run, by runtime.

use std::collections::BTreeMap;

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use cdb_provider::coordination::membership::{MemberRecord, MembershipConfig};
use cdb_provider::documents::{Durable, Member, WorkerItem};
use serde::Serialize;

use crate::output::{short, span};

/// The number of activities that are read.
const SAMPLE: u32 = 200;

/// The activities that a runtime runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Busy {
    /// The member's name. `None` without membership: then locks do not name their runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    pub activities: u64,
    /// The activity that was scheduled first.
    pub longest: Running,
}

/// An activity that a worker runs.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Running {
    pub activity: String,
    pub instance: String,
    pub scheduled_at: Timestamp,
}

/// Reads the locked activities.
pub(crate) async fn read(
    container: &ContainerClient<Durable>,
) -> Result<Vec<Busy>, cdb_client::Error> {
    let now = container.now();
    let locked = Query::<WorkerItem>::across_partitions()
        .filter(WorkerItem::VISIBLE_AT.gt(now))
        .order_by(WorkerItem::BY_DUE)
        .limit(SAMPLE);
    let found = container.query(locked).all().await?.into_iter();
    let mut by_incarnation: BTreeMap<Option<String>, Vec<Running>> = BTreeMap::new();
    for item in found.map(|stored| stored.document) {
        let Some(token) = item
            .lock_token
            .clone()
            .filter(|_| item.locked_until > Some(now))
        else {
            continue;
        };
        // A member's incarnation precedes the random part of its tokens.
        let incarnation = token.split_once('/').map(|(incarnation, _)| incarnation);
        let of_runtime = by_incarnation.entry(incarnation.map(str::to_owned));
        of_runtime.or_default().push(Running::of(item));
    }
    let names = if by_incarnation.keys().any(Option::is_some) {
        names(container).await?
    } else {
        BTreeMap::new()
    };
    let busy = by_incarnation
        .into_iter()
        .filter_map(|(incarnation, running)| {
            let activities = running.len() as u64;
            let longest = running.into_iter().min_by_key(|one| one.scheduled_at)?;
            let name =
                |incarnation: String| names.get(&incarnation).cloned().unwrap_or(incarnation);
            Some(Busy {
                runtime: incarnation.map(name),
                activities,
                longest,
            })
        });
    Ok(busy.collect())
}

/// Reads the names of the members by their incarnations.
async fn names(
    container: &ContainerClient<Durable>,
) -> Result<BTreeMap<String, String>, cdb_client::Error> {
    let group = MembershipConfig::default().group;
    let members = Query::<Member>::in_partition(group);
    let members = container.query(members).all().await?.into_iter();
    let named = members.filter_map(|stored| match stored.document.record {
        MemberRecord::Heartbeat { incarnation, .. } => {
            let name = stored.document.name;
            let name = name.strip_prefix("member.").unwrap_or(&name).to_owned();
            Some((incarnation, name))
        }
        MemberRecord::Roster { .. } => None,
    });
    Ok(named.collect())
}

impl Running {
    fn of(item: WorkerItem) -> Self {
        Self {
            activity: item.described(),
            instance: item.instance_id,
            scheduled_at: item.enqueued_at,
        }
    }
}

impl Busy {
    /// Describes the activities in a part of a sentence.
    pub(crate) fn described(&self, now: Timestamp) -> String {
        let on = self.runtime.as_ref().map(|name| format!(" on `{name}`"));
        let Running {
            activity,
            instance,
            scheduled_at,
        } = &self.longest;
        format!(
            "activities running{}: {}, the oldest {} of `{}`, scheduled {} ago",
            on.unwrap_or_default(),
            self.activities,
            short(activity, 80),
            short(instance, 120),
            span(now.since(*scheduled_at))
        )
    }
}
