//! The runtimes that share a container, as a table.

use std::fmt;

use cdb_provider::observe::Group;
use serde::Serialize;

use crate::output::{short, span, table};

/// The members of a group.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Members(pub Group);

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = &self.0;
        if group.members.is_empty() {
            return writeln!(
                f,
                "group `{}` has no members; each runtime serves all slots",
                group.name
            );
        }
        let rows = group.members.iter().map(|row| {
            let seen = row.seen_at.map_or_else(
                || "never".to_owned(),
                |at| format!("{} ago", span(group.now.since(at))),
            );
            let state = if row.is_silent { "silent" } else { "alive" };
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
