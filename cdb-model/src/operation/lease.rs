//! The lease of a document: the value of a field marked `#[document(lease)]`.
//!
//! This module defines the stored form and its transitions. Its callers write a lease under an ETag
//! or under [`LeasePaths::fence`], and choose the clock (`cdb-coordination` does both). Each
//! transfer increments the fencing token, so that another system can reject the token of a former
//! holder (M. Kleppmann, "How to do distributed locking"). Each write under the lease sets a new
//! random mark, which shows after a lost answer whether that write was executed.

use std::marker::PhantomData;

use derive_where::derive_where;
use serde::{Deserialize, Serialize};

use super::patch::Patch;
use crate::document::{Document, Indexed, Patchable, Path, Unindexed};
use crate::query::Filter;
use crate::value::Timestamp;

/// The lease of a document. Stored as an object:
///
/// ```json
/// {"holder": "connector-1", "token": 7, "mark": "6f1e…", "until": 1763721471000}
/// ```
///
/// `holder` is absent while the lease is free, `mark` until the first acquisition. `until` is the
/// service's time in milliseconds; after a release, it is the time of the release. A document
/// without the object is free too, if its field has `#[serde(default)]`, so an existing type can
/// get a lease.
///
/// ```
/// use cdb_model::Timestamp;
/// use cdb_model::operation::Lease;
///
/// let now = Timestamp::from_millis(1_000);
/// let later = Timestamp::from_millis(31_000);
/// let first = Lease::free().taken("ann", "6f1e", later);
/// assert!(first.is_held(now) && !first.is_held(later)); // expires without a write
/// let second = first.taken("bob", "a3c0", Timestamp::from_millis(60_000));
/// assert!(second.token() > first.token());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    token: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<String>,
    until: Timestamp,
}

impl Lease {
    /// Returns the lease of a new document.
    pub fn free() -> Self {
        Self::default()
    }

    /// Returns the current holder, or the last one if the lease has expired; `None` after a
    /// release.
    pub fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }

    /// Returns the fencing token, which grows with every transfer.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns the random mark of the last write under the lease.
    pub fn mark(&self) -> Option<&str> {
        self.mark.as_deref()
    }

    /// Returns the time of expiry or release.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// Whether the lease is held at this time.
    pub fn is_held(&self, now: Timestamp) -> bool {
        self.holder.is_some() && self.until > now
    }

    /// Returns the lease after `holder` acquires it.
    pub fn taken(&self, holder: &str, mark: &str, until: Timestamp) -> Self {
        Self {
            holder: Some(holder.to_owned()),
            token: self.token + 1,
            mark: Some(mark.to_owned()),
            until,
        }
    }

    /// Returns the lease after a write of its holder. Its expiry never moves back.
    pub fn kept(&self, mark: &str, until: Timestamp) -> Self {
        Self {
            mark: Some(mark.to_owned()),
            until: self.until.max(until),
            ..self.clone()
        }
    }

    /// Returns the lease after its holder releases it.
    pub fn given_back(&self, mark: &str, now: Timestamp) -> Self {
        Self {
            holder: None,
            token: self.token + 1,
            mark: Some(mark.to_owned()),
            until: now,
        }
    }
}

/// A document with a lease. Implemented by `#[derive(Document)]` for a type with a field
/// `#[document(lease)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no lease",
    note = "add a field of type `cdb_model::operation::Lease` marked `#[document(lease)]` to it"
)]
pub trait Leasable: Document {
    /// The stored paths of the lease.
    const LEASE_PATHS: LeasePaths<Self>;

    /// Returns the lease.
    fn lease(&self) -> &Lease;

    /// Replaces the lease.
    fn set_lease(&mut self, lease: Lease);
}

/// The stored paths of the lease of a `D`, with their filters and changes.
#[derive_where(Clone, Copy)]
pub struct LeasePaths<D> {
    lease: &'static str,
    until: &'static str,
    token: &'static str,
    mark: &'static str,
    or_absent: bool,
    marker: PhantomData<fn() -> D>,
}

impl<D> LeasePaths<D> {
    /// For generated code: the stored paths of the lease, its expiry, its token and its mark.
    #[doc(hidden)]
    pub const fn new([lease, until, token, mark]: [&'static str; 4]) -> Self {
        Self {
            lease,
            until,
            token,
            mark,
            or_absent: false,
            marker: PhantomData,
        }
    }

    /// For generated code: documents may lack the lease.
    #[doc(hidden)]
    pub const fn or_absent(self) -> Self {
        Self {
            or_absent: true,
            ..self
        }
    }
}

impl<D: Document> LeasePaths<D> {
    /// Returns the path of the expiry, which is indexed.
    pub const fn until(self) -> Path<D, Timestamp, Indexed, Patchable> {
        Path::new(self.until)
    }

    /// Accepts documents whose lease is free at this time: released or expired, or missing if the
    /// field has `#[serde(default)]`. No index finds a missing property, so remove the default once
    /// all documents have a lease.
    pub fn free(self, now: Timestamp) -> Filter<D> {
        let free = self.until().le(now);
        if self.or_absent {
            free | !self.until().is_defined()
        } else {
            free
        }
    }

    /// Returns the condition of every write of the holder: the lease is unchanged since the
    /// holder's last write. For patches only, because token and mark have no index.
    pub fn fence(self, lease: &Lease) -> Filter<D> {
        let token = Path::<D, u64, Indexed, Patchable>::new(self.token).eq(lease.token);
        let mark = Path::<D, Option<String>, Indexed, Patchable>::new(self.mark);
        token & mark.eq(lease.mark.clone())
    }

    /// Adds a change of the lease to a patch.
    pub fn set<T>(self, patch: Patch<D, T>, lease: &Lease) -> Patch<D, T> {
        let stored = Path::<D, Lease, Unindexed, Patchable>::new(self.lease);
        patch.set(stored, lease.clone())
    }
}

impl<D> std::fmt::Debug for LeasePaths<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn only_a_transfer_increments_the_token() {
        let taken = Lease::free().taken("ann", "a", at(60));
        let kept = taken.kept("b", at(90));
        let back = kept.given_back("c", at(70));
        let tokens = [&taken, &kept, &back, &back.taken("bob", "d", at(130))].map(Lease::token);
        assert_eq!(tokens, [1, 1, 2, 3]);
        assert_eq!(kept.mark(), Some("b"));
        assert_eq!(taken.kept("b", at(50)).until(), at(60));
    }

    #[test]
    fn an_expired_or_released_lease_is_free() {
        let taken = Lease::free().taken("ann", "a", at(60));
        assert!(!Lease::free().is_held(at(0)));
        assert!(taken.is_held(at(59)) && !taken.is_held(at(60)));
        assert!(!taken.given_back("b", at(10)).is_held(at(9)));
    }

    #[test]
    fn the_stored_form_is_as_documented() {
        let json = |lease: &Lease| serde_json::to_string(lease).unwrap();
        assert_eq!(json(&Lease::free()), r#"{"token":0,"until":0}"#);
        let taken = Lease::free().taken("ann", "a", at(60));
        let stored = r#"{"holder":"ann","token":1,"mark":"a","until":60}"#;
        assert_eq!(json(&taken), stored);
        assert_eq!(serde_json::from_str::<Lease>(stored).unwrap(), taken);
    }

    #[test]
    fn a_lease_with_a_member_of_a_newer_version_keeps_its_fence() {
        let newer = r#"{"holder":"ann","token":1,"mark":"a","until":60,"reason":"packing"}"#;
        let read: Lease = serde_json::from_str(newer).unwrap();
        assert_eq!(read, Lease::free().taken("ann", "a", at(60)));
        assert_eq!(read.taken("bob", "b", at(90)).token(), 2);
    }
}
