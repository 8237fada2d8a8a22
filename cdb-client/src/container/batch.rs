//! Transactional batches: sent whole, judged by the operation that failed, never taken for done without looking.

use std::marker::PhantomData;

use cdb_model::{Batch, BatchOperation, Container, ETag, MemberOf, OperationIndex, Stored};

use crate::container::handle::ContainerClient;
use crate::container::point::JSON;
use crate::error::{Error, Result};
use crate::header;
use crate::operation::OperationKind;
use crate::operation_result::OperationResult;
use crate::request::Request;
use crate::retry::Repeat;

/// What a batch did. All of it took place.
///
/// ```
/// use cdb_model::Batch;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Shop, order};
/// # shop::with_shop(async |shop| {
///
/// let mut batch = Batch::<Shop>::new("ann");
/// let first = batch.create(&order(1))?;
/// batch.create(&order(2))?;
/// let outcome = shop.execute(&batch).await?;
/// assert_eq!(outcome.results().len(), 2);
/// assert!(outcome.etag(first).is_some());
///
/// let refused = shop.execute(&batch).await.unwrap_err(); // both are there
/// assert!(refused.is_conflict() && refused.operation_index() == Some(0));
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct BatchOutcome<C> {
    results: Vec<OperationResult>,
    charge: f64,
    marker: PhantomData<fn() -> C>,
}

impl<C: Container> ContainerClient<C> {
    /// Carries out a batch: all of it or nothing. Sees what its own earlier operations did.
    ///
    /// # Errors
    /// The kind is that of the operation that failed, [`operation_index`](Error::operation_index) says which;
    /// nothing took place then. [`is_ambiguous`](Error::is_ambiguous) when the batch may have been carried out: read
    /// a document that it writes and compare.
    pub async fn execute(&self, batch: &Batch<C>) -> Result<BatchOutcome<C>> {
        if batch.is_empty() {
            return Err(Error::configuration("batch has no operations"));
        }
        let accepted = self.context.send(&self.batch_request(batch)?).await?;
        let results: Vec<OperationResult> = accepted.json()?;
        if results.len() != batch.len() {
            let message = format!("{} results for {} operations", results.len(), batch.len());
            return Err(accepted.unusable(Error::protocol(message)));
        }
        Ok(BatchOutcome {
            results,
            charge: accepted.call.charge,
            marker: PhantomData,
        })
    }

    fn batch_request(&self, batch: &Batch<C>) -> Result<Request> {
        let operations = batch.operations();
        let body = serde_json::to_vec(operations).map_err(Error::encode)?;
        let request = self
            .context
            .items_request(OperationKind::Batch, JSON, body.into())
            .header(header::IS_BATCH, "True")
            // Without it, whether the batch is atomic is not documented.
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

/// A batch may be repeated when each of its operations may, and none fails because it took place before.
pub(super) fn repeat_of<'a>(mut operations: impl Iterator<Item = &'a BatchOperation>) -> Repeat {
    let harmless = operations.all(|operation| match operation {
        BatchOperation::Read { .. } => true,
        BatchOperation::Upsert { if_match, .. } | BatchOperation::Replace { if_match, .. } => {
            if_match.is_none()
        }
        _ => false,
    });
    if harmless {
        Repeat::Always
    } else {
        Repeat::UnlessPossiblyDone
    }
}

impl<C: Container> BatchOutcome<C> {
    /// One result per operation, in the order of the batch.
    pub fn results(&self) -> &[OperationResult] {
        &self.results
    }

    /// The version that an operation left; `None` for a deletion.
    pub fn etag(&self, index: OperationIndex) -> Option<&ETag> {
        self.results.get(index.get())?.etag()
    }

    /// The document that an operation read.
    ///
    /// # Errors
    /// When it is not a `D`.
    pub fn document<D: MemberOf<C>>(&self, index: OperationIndex) -> Result<Option<Stored<D>>> {
        match self.results.get(index.get()) {
            Some(result) => result.document::<C, D>(),
            None => Ok(None),
        }
    }

    /// Request units of the whole batch.
    pub fn charge(&self) -> f64 {
        self.charge
    }
}
