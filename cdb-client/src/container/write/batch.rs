//! Transactional batches. The result of a failed batch is that of the operation that failed.

use std::marker::PhantomData;

use cdb_model::container::MemberOf;
use cdb_model::operation::{BatchOperation, OperationIndex};
use cdb_model::{Batch, Container, ETag, Stored};

use crate::container::handle::ContainerClient;
use crate::error::{ConflictCause, Error, RequestKind, Result};
use crate::protocol::{JSON, OperationResult, Repeat, Request, header};

/// The results of a batch that was executed.
#[derive(Clone, Debug)]
pub struct BatchOutcome<C> {
    results: Vec<OperationResult>,
    marker: PhantomData<fn() -> C>,
}

impl<C: Container> ContainerClient<C> {
    /// Executes a batch atomically. Each operation sees the effects of the earlier ones.
    ///
    /// # Errors
    /// When an operation fails, with its kind and its [`operation_index`](Error::operation_index);
    /// the batch then had no effect. [`is_ambiguous`](Error::is_ambiguous) when the batch may have
    /// been executed: read a document that it writes and compare.
    pub async fn execute(&self, batch: &Batch<C>) -> Result<BatchOutcome<C>> {
        if batch.is_empty() {
            return Err(Error::configuration("batch has no operations"));
        }
        let sent = self.context.send(&self.batch_request(batch)?).await;
        let accepted = match sent {
            Ok(accepted) => accepted,
            Err(error) => return Err(self.refused(batch, error).await),
        };
        Ok(BatchOutcome {
            results: accepted.results(batch.len())?,
            marker: PhantomData,
        })
    }

    /// Names the document of the operation that failed, and what it conflicts with.
    async fn refused(&self, batch: &Batch<C>, error: Error) -> Error {
        let id = |index: usize| batch.id(OperationIndex::from(index));
        let error = error.with_operation_id(|index| Some(id(index)?.as_str()));
        let Some((failed, taken)) = error
            .operation_index()
            .and_then(|failed| Some((failed, id(failed)?)))
        else {
            return error;
        };
        let operations = batch.operations_at(self.now());
        let earlier = (0..failed).rev().find(|&before| id(before) == Some(taken));
        let is_create = match earlier.and_then(|before| operations.get(before)) {
            None => matches!(operations.get(failed), Some(BatchOperation::Create { .. })),
            // The batch has freed the id, so only a unique key can be taken.
            Some(BatchOperation::Delete { .. }) => false,
            Some(_) => return error.with_conflict_cause(ConflictCause::Id),
        };
        let partition = batch.partition_key();
        self.with_conflict(error, partition, taken, is_create).await
    }

    fn batch_request(&self, batch: &Batch<C>) -> Result<Request> {
        Self::check_key(batch.partition_key())?;
        let operations = batch.operations_at(self.now());
        let body = serde_json::to_vec(&*operations).map_err(Error::encode)?;
        let request = self
            .context
            .items_request(RequestKind::Batch, JSON, body.into())
            .header(header::IS_BATCH, "True")
            // The default of this header is not documented.
            .header(header::BATCH_ATOMIC, "True")
            .header(header::BATCH_CONTINUE_ON_ERROR, "False")
            .repeat(repeat_of(operations.iter()))
            .session(self.context.session_of(batch.partition_key()))
            .in_partition(batch.partition_key())?;
        Ok(if operations.iter().any(is_read) {
            request
        } else {
            request.header(header::PREFER, "return=minimal")
        })
    }
}

fn is_read(operation: &BatchOperation) -> bool {
    matches!(operation, BatchOperation::Read { .. })
}

/// Returns whether a batch may be repeated: every operation may, and none fails because it was
/// executed before.
pub(super) fn repeat_of<'a>(mut operations: impl Iterator<Item = &'a BatchOperation>) -> Repeat {
    if operations.all(BatchOperation::is_repeatable) {
        Repeat::Always
    } else {
        Repeat::IfNotExecuted
    }
}

impl<C: Container> BatchOutcome<C> {
    /// Returns one result per operation, in the order of the batch.
    pub fn results(&self) -> &[OperationResult] {
        &self.results
    }

    /// Returns the version after an operation; `None` for a deletion.
    pub fn etag(&self, index: OperationIndex) -> Option<&ETag> {
        self.results.get(index.get())?.etag()
    }

    /// Returns the document that an operation read; `None` for a write.
    ///
    /// # Errors
    /// When the document is not a `D`.
    pub fn document<D: MemberOf<C>>(&self, index: OperationIndex) -> Result<Option<Stored<D>>> {
        match self.results.get(index.get()) {
            Some(result) => result.document::<C, D>(),
            None => Ok(None),
        }
    }
}
