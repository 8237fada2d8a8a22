//! The operations that a guard executes under its lease.

use cdb_model::{
    Address, Batch, Delete, Document, ETag, IdError, ItemId, Partition, PartitionKey, Patch,
    Replace,
};

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
pub trait KeepsLease {}

/// Cannot be named outside this crate, so that no other crate implements [`LeasedOperation`].
#[derive(Debug)]
pub struct Change<C, D> {
    /// `None` for an operation on any document.
    pub(super) named: Option<Named>,
    pub(super) kind: Kind<C, D>,
}

/// The document that an operation names.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) id: ItemId,
    pub(super) partition: Option<PartitionKey>,
    pub(super) version: Option<ETag>,
}

#[derive(Debug)]
pub(super) enum Kind<C, D> {
    Patch(Patch<D>),
    Replace(D),
    Delete,
    Batch(Patch<D>, Batch<C>),
}

impl Named {
    fn of<D, P: Partition>(address: &Address<D, P>) -> Result<Option<Self>, IdError> {
        Ok(Some(Self {
            id: address.id()?.clone(),
            partition: address.partition().known().cloned(),
            version: address.required_version().cloned(),
        }))
    }
}

impl<C, D> LeasedOperation<C, D> for Patch<D> {
    fn into_change(self) -> Result<Change<C, D>, LeaseError> {
        Ok(Change {
            named: None,
            kind: Kind::Patch(self),
        })
    }
}

impl<C, D: Document, P: Partition> LeasedOperation<C, D> for Patch<D, Address<D, P>> {
    fn into_change(self) -> Result<Change<C, D>, LeaseError> {
        let (address, patch) = self.into_parts();
        Ok(Change {
            named: Named::of(&address)?,
            kind: Kind::Patch(patch),
        })
    }
}

impl<C, D: Document> LeasedOperation<C, D> for Replace<D> {
    fn into_change(self) -> Result<Change<C, D>, LeaseError> {
        Ok(Change {
            named: Named::of(self.address())?,
            kind: Kind::Replace(self.document()?),
        })
    }
}

impl<C, D, P: Partition> LeasedOperation<C, D> for Delete<D, P> {
    fn into_change(self) -> Result<Change<C, D>, LeaseError> {
        Ok(Change {
            named: Named::of(self.address())?,
            kind: Kind::Delete,
        })
    }
}

impl<C, D> LeasedOperation<C, D> for (Patch<D>, Batch<C>) {
    fn into_change(self) -> Result<Change<C, D>, LeaseError> {
        Ok(Change {
            named: None,
            kind: Kind::Batch(self.0, self.1),
        })
    }
}

impl<D, T> KeepsLease for Patch<D, T> {}

impl<D> KeepsLease for Replace<D> {}

impl<C, D> KeepsLease for (Patch<D>, Batch<C>) {}
