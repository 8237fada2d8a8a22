//! The runtimes that share a container, from their membership documents.

use std::fmt;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use cdb_provider::coordination::membership::{MemberRecord, MembershipConfig, SlotSet};
use cdb_provider::documents::{Durable, Member};
use serde::Serialize;

use crate::exit::Failure;
use crate::output::{short, span, table};

/// The number of missed heartbeats after which the other members remove a member.
const MISSED: u32 = 3;

/// The members of a group.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Group {
    #[serde(rename = "group")]
    pub name: String,
    pub members: Vec<Row>,
    pub now: Timestamp,
}

/// One runtime.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub name: String,
    /// The number of its dispatch slots, of 256.
    pub slots: u32,
    /// The time of its last heartbeat. `None` when its document is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Timestamp>,
    pub silent: bool,
}

/// Reads the members of a group, by default of the default group.
pub(crate) async fn read(
    container: &ContainerClient<Durable>,
    group: Option<&str>,
) -> Result<Group, Failure> {
    let group = group.map_or_else(|| MembershipConfig::default().group, ToOwned::to_owned);
    let documents = container
        .query(Query::<Member>::in_partition(&*group))
        .all()
        .await?;
    let now = container.now();
    let mut roster = Vec::new();
    let mut heartbeats = Vec::new();
    for document in documents.into_iter().map(|stored| stored.document) {
        match document.record {
            MemberRecord::Roster { members, .. } => roster = members,
            MemberRecord::Heartbeat { at, period_ms, .. } => {
                heartbeats.push((document.name, at, period_ms));
            }
        }
    }
    let members = roster.iter().map(|name| {
        // The document of a heartbeat is named `member.` and the name of the member.
        let heartbeat = heartbeats.iter().find(|(of, ..)| of.ends_with(&**name));
        Row {
            slots: SlotSet::of_member(&roster, name).len(),
            seen_at: heartbeat.map(|(_, at, _)| *at),
            silent: heartbeat.is_none_or(|(_, at, period)| {
                now.since(*at) > Duration::from_millis(*period) * MISSED
            }),
            name: name.clone(),
        }
    });
    Ok(Group {
        members: members.collect(),
        name: group,
        now,
    })
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.members.is_empty() {
            return writeln!(
                f,
                "group `{}` has no members; each runtime serves all slots",
                self.name
            );
        }
        let rows = self.members.iter().map(|row| {
            let seen = row.seen_at.map_or_else(
                || "never".to_owned(),
                |at| format!("{} ago", span(self.now.since(at))),
            );
            let state = if row.silent { "silent" } else { "alive" };
            vec![
                short(&row.name, 80),
                state.to_owned(),
                row.slots.to_string(),
                seen,
            ]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        f.write_str(&table(&["MEMBER", "STATE", "SLOTS", "SEEN"], &rows))
    }
}
