//! The runtimes that share a container, from their membership documents.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_client::Result;
use cdb_coordination::membership::{MemberRecord, MembershipConfig, SlotSet};
use cdb_model::{Query, Timestamp};
use serde::Serialize;

use super::sample::Container;
use crate::stored::documents::Member;

/// The missed heartbeats after which the other members remove a member.
const MISSED: u32 = 3;

/// What precedes the name of a member in the name of the document of its heartbeat.
const PREFIX: &str = "member.";

/// The runtimes of a membership group.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// The name of the group.
    #[serde(rename = "group")]
    pub name: String,
    /// The members. None means that no runtime has a membership: then each serves all slots.
    pub members: Vec<GroupMember>,
    /// The service's time of the answer.
    pub now: Timestamp,
    /// The names of the members by their incarnations.
    #[serde(skip)]
    pub(super) names: BTreeMap<String, String>,
}

/// A runtime of a membership group.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GroupMember {
    /// The name of the member.
    pub name: String,
    /// The number of its dispatch slots, of 256.
    pub slots: u32,
    /// The time of its last heartbeat; `None` when the document of the heartbeat is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Timestamp>,
    /// Whether so many heartbeats are missing that the others remove it.
    #[serde(rename = "silent")]
    pub is_silent: bool,
}

/// Reads the members of a group, by default of the default group.
pub(super) async fn read(container: &Container, group: Option<&str>) -> Result<Group> {
    let name = group.map_or_else(|| MembershipConfig::default().group, ToOwned::to_owned);
    let documents = container
        .query(Query::<Member>::in_partition(&*name))
        .all()
        .await?;
    let now = container.now();
    let mut roster = Vec::new();
    let mut names = BTreeMap::new();
    let mut heartbeats = BTreeMap::new();
    for document in documents.into_iter().map(|stored| stored.document) {
        match document.record {
            MemberRecord::Roster { members, .. } => roster = members,
            MemberRecord::Heartbeat {
                incarnation,
                period_ms,
                at,
            } => {
                let name = document.name.strip_prefix(PREFIX);
                let name = name.unwrap_or(&document.name).to_owned();
                heartbeats.insert(name.clone(), (at, Duration::from_millis(period_ms)));
                names.insert(incarnation, name);
            }
        }
    }
    let members = roster.iter().map(|name| {
        let heartbeat = heartbeats.get(name);
        GroupMember {
            name: name.clone(),
            slots: SlotSet::of_member(&roster, name).len(),
            seen_at: heartbeat.map(|(at, _)| *at),
            is_silent: heartbeat.is_none_or(|(at, period)| now.since(*at) > *period * MISSED),
        }
    });
    Ok(Group {
        members: members.collect(),
        name,
        now,
        names,
    })
}
