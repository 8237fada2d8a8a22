//! What the running instances of a list wait for, in words.

use std::fmt;

use cdb_provider::observe::{WaitKind, WaitsFor};

use crate::output::short;

/// Returns whether the instance waits for work. If not, its state says what it waits for.
pub(super) fn is_of_work(of: &WaitsFor) -> bool {
    !matches!(of.kind, WaitKind::Paused | WaitKind::Held)
}

/// Shows what an instance waits for.
pub(super) struct Shown<'a>(pub(super) &'a WaitsFor);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = self.0;
        f.write_str(match of.kind {
            WaitKind::Paused => "paused",
            WaitKind::Held => "held",
            WaitKind::Busy => "busy",
            WaitKind::Runtime => "waits for a runtime",
            WaitKind::Event => "event",
            WaitKind::Queue => "queue",
            WaitKind::Timer => "timer",
            WaitKind::Activity => "activity",
            WaitKind::Worker => "waits for a worker:",
            WaitKind::Limit => "waits for the limit",
            WaitKind::SubOrchestration => "sub-orchestration",
            _ => "waits",
        })?;
        if let Some(limit) = &of.limit {
            write!(f, " {}:", short(limit, 40))?;
        }
        if let Some(name) = &of.name {
            write!(f, " {}", short(name, 30))?;
        }
        if let Some(due_at) = of.due_at {
            write!(f, " until {due_at}")?;
        }
        match of.others {
            0 => Ok(()),
            others => write!(f, " +{others}"),
        }
    }
}
