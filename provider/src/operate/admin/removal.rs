//! Removes documents of an instance's partition: all of them, or those of some executions.
//!
//! Each batch deletes the versions that were read, and those were read of the instance that is to be
//! removed: see [`Condition`]. When a document has changed, or an answer
//! was lost, the partition is read again: it tells what is left.

use std::collections::BTreeSet;

use cdb_client::ContainerClient;
use cdb_model::limits::MAX_BATCH_OPERATIONS;
use cdb_model::query::Filter;
use cdb_model::{Batch, Document as _, Query, Timestamp};
use duroxide::providers::DeleteInstanceResult;

use super::condition::{Condition, State, Verdict};
use super::row::Row;
use super::{chunks, withdraw};
use crate::delivery;
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::documents::{Chunk, Durable, Execution, HistorySegment, Incarnation, NEVER};

/// The most reads of a partition that changes during the removal, or whose answers were lost.
const MAX_ROUNDS: u32 = 10;

/// A removal, with the documents removed so far.
pub(super) struct Removal<'a> {
    container: &'a ContainerClient<Durable>,
    instance_id: &'a str,
    scope: Scope<'a>,
    condition: Condition<'a>,
    gone: Vec<Row>,
    /// Sent to be deleted, with an unknown outcome.
    unconfirmed: Vec<Row>,
}

/// The documents that a removal deletes.
enum Scope<'a> {
    /// The partition of the instance, after its messages to others are delivered.
    Partition(&'a Services),
    /// Replaced executions. The instance stays.
    Executions(BTreeSet<u64>),
}

/// What a removal has done.
#[derive(Debug, Default)]
pub(super) struct Removed {
    pub(super) counts: DeleteInstanceResult,
    /// The instance exists, and is in another state. Otherwise it is gone, whoever removed it.
    pub(super) is_kept: bool,
}

impl<'a> Removal<'a> {
    /// Prepares the removal of an instance with its partition, after its messages to others are
    /// delivered.
    pub(super) fn of_instance(
        services: &'a Services,
        instance: &'a Incarnation,
        state: State,
    ) -> Self {
        let (scope, condition) = (Scope::Partition(services), Condition::Is(instance, state));
        let container = services.container();
        Self::new(container, &instance.instance_id, scope, condition)
    }

    /// Prepares the removal of an instance that has not begun, and that this parent starts, or that is
    /// started without a parent.
    pub(super) fn of_unbegun(
        services: &'a Services,
        instance_id: &'a str,
        parent: Option<&'a Incarnation>,
    ) -> Self {
        let condition = Condition::HasNotBegun { parent };
        let scope = Scope::Partition(services);
        Self::new(services.container(), instance_id, scope, condition)
    }

    /// Prepares the removal of replaced executions: their history first, so that the next call finds
    /// and finishes a partial removal.
    pub(super) fn of_executions(
        container: &'a ContainerClient<Durable>,
        instance: &'a Incarnation,
        execution_ids: impl IntoIterator<Item = u64>,
    ) -> Self {
        let executions: BTreeSet<u64> = execution_ids.into_iter().collect();
        let last = executions.last().copied().unwrap_or_default();
        let condition = Condition::Is(instance, State::Beyond(last));
        let scope = Scope::Executions(executions);
        Self::new(container, &instance.instance_id, scope, condition)
    }

    fn new(
        container: &'a ContainerClient<Durable>,
        instance_id: &'a str,
        scope: Scope<'a>,
        condition: Condition<'a>,
    ) -> Self {
        Self {
            container,
            instance_id,
            scope,
            condition,
            gone: Vec::new(),
            unconfirmed: Vec::new(),
        }
    }

    /// Sends its requests through this handle to the container. Messages are still delivered like
    /// any others, because their receivers wait for them.
    pub(super) fn through(self, container: &'a ContainerClient<Durable>) -> Self {
        Self { container, ..self }
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

    /// Removes the documents under the condition.
    ///
    /// # Errors
    /// Fails when a message is not delivered, the documents keep changing, or the service does not
    /// answer.
    pub(super) async fn run(&mut self) -> Result<Removed> {
        for round in 0..MAX_ROUNDS {
            let rows = self.read(round).await?;
            let open = std::mem::take(&mut self.unconfirmed);
            let is_gone = |row: &Row| rows.iter().all(|left| left.location.id != row.location.id);
            self.gone.extend(open.into_iter().filter(is_gone));
            let verdict = match self.scope {
                Scope::Partition(_) => self.condition.of_partition(self.container, &rows).await?,
                Scope::Executions(_) => self.condition.of_stored(self.container).await?,
            };
            if verdict != Verdict::Holds {
                return Ok(Removed {
                    counts: count_refused(&self.gone),
                    is_kept: verdict == Verdict::Fails,
                });
            }
            if let Scope::Partition(services) = self.scope {
                let intents = rows.iter().filter_map(Row::intent);
                delivery::deliver_before_deletion(services, intents).await?;
            }
            match self.delete(rows).await {
                Ok(()) => {
                    return Ok(Removed {
                        counts: count(&self.gone),
                        is_kept: false,
                    });
                }
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
        let wanted = match &self.scope {
            Scope::Partition(_) => !Filter::of_type::<Chunk>(),
            Scope::Executions(ids) => {
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
        match self.scope {
            Scope::Partition(_) => self.prepare_partition(&mut rows).await?,
            Scope::Executions(_) => {
                let documents = rows.iter().filter_map(|row| row.document.as_ref());
                chunks::delete_of(self.container, documents).await?;
            }
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
        let has_chunks = rows.iter().any(refers);
        if has_chunks || rows.len() > MAX_BATCH_OPERATIONS {
            self.fence(rows).await?;
        }
        if has_chunks {
            // Before the instance, so that an interrupted deletion can be found and repeated.
            withdraw::large_messages(self.container, rows).await?;
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
    DeleteInstanceResult {
        instances_deleted: u64::from(rows.iter().any(|row| row.instance().is_some())),
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
