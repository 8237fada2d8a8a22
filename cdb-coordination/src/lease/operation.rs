//! The operations that a guard executes under its lease.

use cdb_model::document::{Delete, DocumentAddress, KnownPartition, Replace};
use cdb_model::{Batch, Document, Patch};

use super::error::LeaseError;

/// An operation on a leased document: a patch, a replacement or a deletion. A batch of other
/// operations on the partition is executed together with a patch, which may be empty:
/// `(patch, batch)`.
///
/// A replacement or deletion applies to the version that the guard has read. An operation with an
/// ETag requires that this is the version.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an operation on a leased document",
    note = "patch, replace or delete the document; add other operations to a batch, and execute `(patch, batch)`"
)]
pub trait LeasedOperation<C, D> {
    #[doc(hidden)]
    fn into_change(self) -> Result<Change<C, D>, LeaseError>;
}

/// An operation after which the lease can be held.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not keep the lease",
    note = "a deletion ends the lease: execute it with `guard.release_with(…)`"
)]
pub trait RenewableLease {}

/// Cannot be named outside this crate, so that no other crate implements [`LeasedOperation`].
#[derive(Debug)]
pub struct Change<C, D> {
    /// `None` for an operation on any document.
    pub(super) address: Option<DocumentAddress<D>>,
    pub(super) kind: Kind<C, D>,
}

#[derive(Debug)]
pub(super) enum Kind<C, D> {
    Patch(Patch<D>),
    Replace(D),
    Delete,
    Batch(Patch<D>, Batch<C>),
}

impl<C, D> Change<C, D> {
    fn of(address: impl Into<Option<DocumentAddress<D>>>, kind: Kind<C, D>) -> Self {
        let address = address.into();
        Self { address, kind }
    }
}

impl<C, D> LeasedOperation<C, D> for Patch<D> {
    fn into_change(self) -> Result<Change<C, D>, LeaseError> {
        Ok(Change::of(None, Kind::Patch(self)))
    }
}

impl<C, D: Document, P: KnownPartition> LeasedOperation<C, D> for Patch<D, DocumentAddress<D, P>> {
    fn into_change(self) -> Result<Change<C, D>, LeaseError> {
        let (address, patch) = self.into_parts();
        Ok(Change::of(address.into_known(), Kind::Patch(patch)))
    }
}

impl<C, D: Document> LeasedOperation<C, D> for Replace<D> {
    fn into_change(self) -> Result<Change<C, D>, LeaseError> {
        Ok(Change::of(
            self.address().clone(),
            Kind::Replace(self.document()?),
        ))
    }
}

impl<C, D, P: KnownPartition> LeasedOperation<C, D> for Delete<D, P> {
    fn into_change(self) -> Result<Change<C, D>, LeaseError> {
        Ok(Change::of(
            self.address().clone().into_known(),
            Kind::Delete,
        ))
    }
}

impl<C, D> LeasedOperation<C, D> for (Patch<D>, Batch<C>) {
    fn into_change(self) -> Result<Change<C, D>, LeaseError> {
        Ok(Change::of(None, Kind::Batch(self.0, self.1)))
    }
}

impl<D, T> RenewableLease for Patch<D, T> {}

impl<D> RenewableLease for Replace<D> {}

impl<C, D> RenewableLease for (Patch<D>, Batch<C>) {}
