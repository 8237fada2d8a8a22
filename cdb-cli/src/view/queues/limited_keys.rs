//! The limited keys as text: what runs, what waits for the limit, and since when.

use std::fmt;

use cdb_provider::observe::{KeyUse, KeysInUse};

use crate::output::{counted, short, span, table};

/// Shows a limited key in a line.
pub(crate) struct Key<'a>(pub &'a KeyUse);

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", short(&self.0.key, 80), self.0.limit)?;
        match self.0.waiting {
            0 => Ok(()),
            waiting => write!(f, ", {waiting} wait"),
        }
    }
}

/// Shows limited keys as a table.
pub(crate) struct Keys<'a>(pub &'a KeysInUse);

impl fmt::Display for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.0;
        if of.may_not_begin > 0 {
            let instances = counted(of.may_not_begin, "instance");
            writeln!(
                f,
                "{instances} not begun, perhaps because of a limit with --running 0"
            )?;
        }
        if of.keys.is_empty() {
            return Ok(());
        }
        let rows = of.keys.iter().map(|row| {
            vec![
                short(&row.key, 80),
                row.running.map(|it| it.to_string()).unwrap_or_default(),
                row.waiting.to_string(),
                row.limit.to_string(),
                row.oldest.map(span).unwrap_or_default(),
            ]
        });
        let head = ["KEY", "RUNNING", "WAITING", "LIMIT", "OLDEST"];
        writeln!(f)?;
        f.write_str(&table(&head, &rows.collect::<Vec<_>>()))?;
        match of.left_out {
            0 => Ok(()),
            more => writeln!(f, "and {}", counted(more, "more key")),
        }
    }
}
