//! Removes documents of an instance's partition: all of them, or those of some executions.
//!
//! Each batch deletes the versions that were read. When a document has changed, or an answer was
//! lost, the partition is read again: it tells what is left.

use std::collections::BTreeSet;

use cdb_client::ContainerClient;
use cdb_model::limits::MAX_BATCH_OPERATIONS;
use cdb_model::{Batch, Document as _, Filter, Query, Timestamp};
use duroxide::providers::{DeleteInstanceResult, WorkItem};

use super::row::Row;
use super::{chunks, fence, withdraw};
use crate::delivery;
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::documents::{Chunk, Durable, Execution, HistorySegment, Instance, NEVER};

/// The most reads of a partition that changes during the removal, or whose answers were lost.
const MAX_ROUNDS: u32 = 10;

/// A removal, with the documents removed so far.
pub(super) struct Removal<'a> {
    container: &'a ContainerClient<Durable>,
    /// Delivers the messages of the instance; `None` if the instance stays.
    services: Option<&'a Services>,
    instance_id: &'a str,
    /// The executions to remove; `None` for the whole partition.
    executions: Option<BTreeSet<u64>>,
    /// Removes the partition only under this condition.
    condition: Option<Condition<'a>>,
    gone: Vec<Row>,
    /// Sent to be deleted, with an unknown outcome.
    unconfirmed: Vec<Row>,
}

/// The condition of a removal. The instance may have been rewound, or deleted and started again,
/// since a query found it.
#[derive(Clone, Copy)]
pub(super) enum Condition<'a> {
    /// The instance is not running.
    NotRunning,
    /// The instance has not begun, and this parent starts it; `None` for a start without a parent.
    NotBegun { parent: Option<&'a str> },
    /// The instance has ended, or a deletion holds its lock at this time.
    Fenced { now: Timestamp },
    Ended {
        /// The instance has ended before this time, if any.
        before: Option<Timestamp>,
        /// The messages that the instance has sent are delivered, such as its completion to a
        /// running parent.
        is_delivered: bool,
    },
}

impl Condition<'_> {
    /// Returns whether the documents of a partition fulfil the condition.
    fn holds(self, rows: &[Row]) -> bool {
        let mut instances = rows.iter().filter_map(|row| match &row.document {
            Some(Durable::Instance(instance)) => Some(instance),
            _ => None,
        });
        let (before, is_delivered) = match self {
            Self::NotBegun { parent } => {
                return !instances.any(Instance::is_created) && is_started_by(parent, rows);
            }
            Self::NotRunning => return instances.all(|found| !found.is_running()),
            Self::Fenced { now } => {
                return instances.all(|found| !found.has_more() || fence::holds(found, now));
            }
            Self::Ended {
                before,
                is_delivered,
            } => (before, is_delivered),
        };
        let has_ended = |instance: &Instance| {
            let is_before = |before| instance.completed_at.is_some_and(|at| at < before);
            !instance.has_more() && before.is_none_or(is_before)
        };
        // An unreadable document may be an undelivered message.
        let may_send = |row: &Row| matches!(row.document, None | Some(Durable::OutboxIntent(_)));
        instances.any(has_ended) && !(is_delivered && rows.iter().any(may_send))
    }
}

/// Returns whether messages of this parent alone, or without a parent, start an instance.
fn is_started_by(parent: Option<&str>, rows: &[Row]) -> bool {
    let items = rows.iter().filter_map(|row| match &row.document {
        Some(Durable::OrchestratorItem(item)) => serde_json::from_str(item.work_item.header()).ok(),
        _ => None,
    });
    let mut parents = items.filter_map(|item| match item {
        WorkItem::StartOrchestration {
            parent_instance, ..
        } => Some(parent_instance),
        _ => None,
    });
    let is_parent = |of: Option<String>| of.as_deref() == parent;
    parents.next().is_some_and(is_parent) && parents.all(is_parent)
}

impl<'a> Removal<'a> {
    /// Prepares the removal of an instance with its partition, after its messages to others are
    /// delivered.
    pub(super) fn of_instance(services: &'a Services, instance_id: &'a str) -> Self {
        Self {
            services: Some(services),
            executions: None,
            ..Self::of_executions(services.container(), instance_id, [])
        }
    }

    /// Prepares the removal of executions: their history first, so that the next call finds and
    /// finishes a partial removal.
    pub(super) fn of_executions(
        container: &'a ContainerClient<Durable>,
        instance_id: &'a str,
        execution_ids: impl IntoIterator<Item = u64>,
    ) -> Self {
        Self {
            container,
            services: None,
            instance_id,
            executions: Some(execution_ids.into_iter().collect()),
            condition: None,
            gone: Vec::new(),
            unconfirmed: Vec::new(),
        }
    }

    /// Sends its requests through this handle to the container. Messages are still delivered like
    /// any others, because their receivers wait for them.
    pub(super) fn through(self, container: &'a ContainerClient<Durable>) -> Self {
        Self { container, ..self }
    }

    /// Removes nothing unless the condition holds.
    pub(super) fn only_if(mut self, condition: Option<Condition<'a>>) -> Self {
        self.condition = condition;
        self
    }

    /// Removes the documents. Returns their counts.
    ///
    /// # Errors
    /// Fails when a message is not delivered, the documents keep changing, or the service does not
    /// answer.
    pub(super) async fn run(mut self) -> Result<DeleteInstanceResult> {
        self.remove().await
    }

    /// Returns whether a process may be about to begin removed work: it had locked an activity, or
    /// reserved a message, at this time before the removal.
    pub(super) fn may_begin(&self, before: Timestamp) -> bool {
        let mut documents = self.gone.iter().filter_map(|row| row.document.as_ref());
        documents.any(|document| match document {
            Durable::WorkerItem(item) => item.locked_until > Some(before),
            Durable::OrchestratorItem(item) => item.reserved_until() > Some(before),
            _ => false,
        })
    }

    /// Removes the documents, as [`run`](Self::run).
    pub(super) async fn remove(&mut self) -> Result<DeleteInstanceResult> {
        for round in 0..MAX_ROUNDS {
            let rows = self.read(round).await?;
            let open = std::mem::take(&mut self.unconfirmed);
            let is_gone = |row: &Row| rows.iter().all(|left| left.location.id != row.location.id);
            self.gone.extend(open.into_iter().filter(is_gone));
            if self
                .condition
                .is_some_and(|condition| !condition.holds(&rows))
            {
                return Ok(count_refused(&self.gone));
            }
            if let Some(services) = self.services {
                let intents = rows.iter().filter_map(Row::intent);
                delivery::deliver_before_deletion(services, intents).await?;
            }
            match self.delete(rows).await {
                Ok(()) => return Ok(count(&self.gone)),
                // A document has changed, or the outcome is unknown.
                Err(Error::Request(error))
                    if error.is_precondition_failed()
                        || error.is_not_found()
                        || error.is_ambiguous() => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Retryable(format!(
            "instance {} keeps changing, or the service does not answer",
            self.instance_id
        )))
    }

    /// Reads the documents in the order of their deletion, without chunks. The chunks may be many
    /// megabytes, so only their names are read, later. After the first round, the read decides
    /// whether deletions took place, so it reads the latest commit.
    async fn read(&self, round: u32) -> Result<Vec<Row>> {
        let container = match round {
            0 => self.container.clone(),
            _ => self.container.latest_committed(),
        };
        let wanted = match &self.executions {
            None => !Filter::of_type::<Chunk>(),
            Some(ids) => {
                let ids = || ids.iter().copied();
                HistorySegment::EXECUTION_ID.is_in(ids()).within()
                    | Execution::EXECUTION_ID.is_in(ids()).within()
            }
        };
        let query = Query::<Durable>::in_partition(self.instance_id).filter(wanted);
        let rows = container.query(query).row_by_row().all().await?;
        let rows = rows.into_iter();
        let mut rows: Vec<Row> = rows
            .filter_map(|row| Row::of(self.instance_id, row))
            .collect();
        rows.sort_by_key(Row::rank);
        Ok(rows)
    }

    async fn delete(&mut self, mut rows: Vec<Row>) -> Result<()> {
        if self.executions.is_none() {
            self.prepare_partition(&mut rows).await?;
        } else {
            let documents = rows.iter().filter_map(|row| row.document.as_ref());
            chunks::delete_of(self.container, documents).await?;
        }
        for chunk in rows.chunks(MAX_BATCH_OPERATIONS) {
            let mut batch = Batch::<Durable>::new(self.instance_id);
            for row in chunk {
                // A deletion is the same for all types.
                batch.add(row.location.address::<HistorySegment>().delete())?;
            }
            match self.container.execute(&batch).await {
                Ok(_) => self.gone.extend_from_slice(chunk),
                Err(error) => {
                    // A refusal may also be caused by an earlier attempt.
                    self.unconfirmed.extend_from_slice(chunk);
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Prevents commits of a partition that takes several requests, and deletes its chunks.
    async fn prepare_partition(&self, rows: &mut Vec<Row>) -> Result<()> {
        let refers = |row: &Row| row.document.as_ref().is_none_or(chunks::refers);
        let has_chunks = rows.is_empty() || rows.iter().any(refers);
        if has_chunks || rows.len() > MAX_BATCH_OPERATIONS {
            self.fence(rows).await?;
        }
        if has_chunks {
            // Before the instance, so that an interrupted deletion can be found and repeated.
            withdraw::from_targets(self.container, rows).await?;
            chunks::delete_all(self.container, self.instance_id).await?;
        }
        Ok(())
    }

    /// Writes the instance unchanged. Its version changes, so that the holder of its lock cannot
    /// commit any more.
    async fn fence(&self, rows: &mut [Row]) -> Result<()> {
        for row in rows {
            if let Some(Durable::Instance(instance)) = &row.document {
                let etag = &row.location.etag;
                let written = self
                    .container
                    .run(instance.replace().if_match(etag))
                    .await?;
                row.location.etag = written.etag;
            }
        }
        Ok(())
    }
}

/// Adds the counts of another deletion.
pub(super) fn add(sum: &mut DeleteInstanceResult, more: &DeleteInstanceResult) {
    sum.instances_deleted += more.instances_deleted;
    sum.executions_deleted += more.executions_deleted;
    sum.events_deleted += more.events_deleted;
    sum.queue_messages_deleted += more.queue_messages_deleted;
}

/// Counts what was removed before the condition was refused. Messages may be gone because a turn has
/// consumed them; an instance is gone only when it was deleted.
fn count_refused(rows: &[Row]) -> DeleteInstanceResult {
    let is_instance = |row: &Row| matches!(row.document, Some(Durable::Instance(_)));
    DeleteInstanceResult {
        instances_deleted: u64::from(rows.iter().any(is_instance)),
        ..count(rows)
    }
}

fn count(rows: &[Row]) -> DeleteInstanceResult {
    let mut counted = DeleteInstanceResult {
        instances_deleted: 1,
        ..DeleteInstanceResult::default()
    };
    let mut executions = BTreeSet::new();
    for document in rows.iter().filter_map(|row| row.document.as_ref()) {
        match document {
            Durable::OrchestratorItem(item) if item.visible_at == NEVER => {}
            Durable::OrchestratorItem(_) | Durable::WorkerItem(_) => {
                counted.queue_messages_deleted += 1;
            }
            Durable::History(segment) => {
                counted.events_deleted += segment.event_count;
                executions.insert(segment.execution_id);
            }
            Durable::Execution(execution) => {
                executions.insert(execution.execution_id);
            }
            Durable::Instance(instance) if instance.commit_token.is_some() => {
                executions.insert(instance.current_execution_id);
            }
            _ => {}
        }
    }
    counted.executions_deleted = executions.len() as u64;
    counted
}
