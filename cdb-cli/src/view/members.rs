//! The runtimes that share a container, as their own documents tell.

use std::fmt;
use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Query, Timestamp};
use cdb_provider::coordination::{MemberRecord, MembershipConfig, SlotSet};
use cdb_provider::documents::{Durable, Member};
use serde::Serialize;

use crate::exit::Failure;
use crate::output::{short, table};
use crate::time::span;

/// How many heartbeats a member may miss: then the others remove it.
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
    /// How many of the 256 dispatch slots are its.
    pub slots: u32,
    /// Its last sign of life; none when its document is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Timestamp>,
    pub silent: bool,
}

/// The members of the group `group`, the default one unless named.
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
    let mut signs = Vec::new();
    for document in documents.into_iter().map(|stored| stored.document) {
        match document.record {
            MemberRecord::Roster { members } => roster = members,
            MemberRecord::Heartbeat { at, period_ms, .. } => {
                signs.push((document.name, at, period_ms));
            }
        }
    }
    let members = roster.iter().map(|name| {
        // A member's document is named after it, with a prefix that keeps it apart from the roster.
        let sign = signs.iter().find(|(of, ..)| of.ends_with(&**name));
        Row {
            slots: SlotSet::of_member(&roster, name).len(),
            seen_at: sign.map(|(_, at, _)| *at),
            silent: sign.is_none_or(|(_, at, period)| {
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
                "no runtime is a member of `{}`; each of them serves all slots",
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
