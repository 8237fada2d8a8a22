//! The condition of a removal.
//!
//! A removal deletes the versions of documents that it has read. Read alone, they prove nothing: the
//! instance may have been rewound since a query found it, or deleted and started again. So the
//! instance is checked with them, or after them: if it is still the one that was found, so are they.

use cdb_client::ContainerClient;
use cdb_model::Timestamp;
use duroxide::providers::WorkItem;

use super::fence;
use super::row::Row;
use crate::error::Result;
use crate::stored::documents::{Durable, Incarnation, Instance, NEVER};
use crate::stored::found;

/// What must be true of an instance, or nothing is removed.
#[derive(Clone, Copy)]
pub(super) enum Condition<'a> {
    /// It is the one that was found, and in this state.
    Is(&'a Incarnation, State),
    /// It has not begun, and this parent starts it; `None` for a start without a parent, or one that
    /// cannot be read.
    HasNotBegun { parent: Option<&'a Incarnation> },
}

/// The state of an instance that is removed, with all its documents or some.
#[derive(Clone, Copy)]
pub(super) enum State {
    /// It is not running.
    NotRunning,
    /// It has ended, or a deletion holds its lock at this time.
    Fenced { now: Timestamp },
    Ended {
        /// It has ended before this time, if any.
        before: Option<Timestamp>,
        /// The messages that it has sent are delivered, such as its completion to a running parent.
        is_delivered: bool,
    },
    /// It has ended before this time, if any, or has not begun: it belongs to an ended tree.
    Settled { before: Option<Timestamp> },
    /// It has come to an execution after this one.
    Beyond(u64),
}

/// Whether a condition holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    /// The instance is in another state.
    Fails,
    /// The instance does not exist. There may be a later one with its id.
    Gone,
}

impl Verdict {
    fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Fails }
    }
}

impl Condition<'_> {
    /// Judges the documents of a partition. The batch that deletes them depends on the version of the
    /// instance, or a write before the first of several batches does.
    pub(super) async fn of_partition(
        self,
        container: &ContainerClient<Durable>,
        rows: &[Row],
    ) -> Result<Verdict> {
        let mut instances = rows.iter().filter_map(Row::instance);
        match self {
            Self::Is(wanted, state) => {
                let found = instances.find(|(_, found)| found.is(wanted));
                Ok(found.map_or(Verdict::Gone, |(instance, _)| {
                    // An unreadable document may be an undelivered message.
                    let may_send =
                        |row: &Row| matches!(row.document, None | Some(Durable::OutboxIntent(_)));
                    Verdict::of(
                        state.is_of(instance) && !(state.sends() && rows.iter().any(may_send)),
                    )
                }))
            }
            Self::HasNotBegun { parent } => {
                let id = parent.map(|parent| &*parent.instance_id);
                if instances.any(|(found, _)| found.is_created()) || !is_started_by(id, rows) {
                    return Ok(Verdict::Fails);
                }
                // A later parent with this id may start a child with the same id.
                let is_there = match parent {
                    Some(parent) => found::is_there(container, parent).await?,
                    None => true,
                };
                Ok(Verdict::of(is_there))
            }
        }
    }

    /// Judges the stored instance, after some of its documents were read.
    pub(super) async fn of_stored(self, container: &ContainerClient<Durable>) -> Result<Verdict> {
        let Self::Is(wanted, state) = self else {
            return Ok(Verdict::Fails);
        };
        let found = found::find(container, &wanted.instance_id).await?;
        let found = found.filter(|found| found.incarnation.is(wanted));
        Ok(found.map_or(Verdict::Gone, |found| {
            Verdict::of(state.is_of(&found.stored.document))
        }))
    }
}

impl State {
    fn is_of(self, instance: &Instance) -> bool {
        match self {
            Self::NotRunning => !instance.is_running(),
            Self::Fenced { now } => !instance.has_more() || fence::holds(instance, now),
            Self::Ended { before, .. } => has_ended(instance, before),
            Self::Settled { before } => {
                // `duroxide-cdb` stores no time.
                let before = before.filter(|_| instance.completed_at.is_some());
                !instance.is_created() || has_ended(instance, before)
            }
            Self::Beyond(execution) => instance.current_execution_id > execution,
        }
    }

    /// Returns whether undelivered messages of the instance keep it.
    fn sends(self) -> bool {
        matches!(
            self,
            Self::Ended {
                is_delivered: true,
                ..
            }
        )
    }
}

fn has_ended(instance: &Instance, before: Option<Timestamp>) -> bool {
    let is_before = |before| instance.completed_at.is_some_and(|at| at < before);
    !instance.has_more() && before.is_none_or(is_before)
}

/// Returns whether messages of this parent alone, or without a parent, start an instance. The
/// parent of a start that cannot be read is unknown, and no turn takes it.
fn is_started_by(parent: Option<&str>, rows: &[Row]) -> bool {
    let starts = rows.iter().filter_map(Start::of);
    let (mut parents, mut is_unreadable) = (Vec::new(), false);
    for start in starts {
        match start {
            Start::By(parent) => parents.push(parent),
            Start::Unreadable => is_unreadable = true,
        }
    }
    if parents.is_empty() {
        return parent.is_none() && is_unreadable;
    }
    parents.iter().all(|of| of.as_deref() == parent)
}

/// A document that may start an instance.
enum Start {
    By(Option<String>),
    Unreadable,
}

impl Start {
    fn of(row: &Row) -> Option<Self> {
        let item = match &row.document {
            None => return Some(Self::Unreadable),
            Some(Durable::OrchestratorItem(item)) => item,
            Some(_) => return None,
        };
        let is_trace = item.visible_at == NEVER;
        match serde_json::from_str(item.work_item.header()) {
            Ok(WorkItem::StartOrchestration {
                parent_instance, ..
            }) => Some(Self::By(parent_instance)),
            Ok(_) => None,
            Err(_) => (!is_trace).then_some(Self::Unreadable),
        }
    }
}
