//! Who works on a document and until when: the value of a field marked `#[document(lease)]`.
//!
//! This is the stored form and how it changes from hand to hand, nothing else: whoever writes it does so under an ETag or
//! under [`LeasePaths::fence`], and whoever compares times decides whose clock counts (`cdb-coordination` does both).
//! Every change of hands adds one to the token, so a token that was passed on to another system still tells who came later
//! (M. Kleppmann, "How to do distributed locking"). The mark is new with every write under the lease: after a lost
//! answer it says whether that very write took place, which a name and a number that repeat could not.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use crate::document::Document;
use crate::patch::Patch;
use crate::path::{Indexed, Patchable, Path, Unindexed};
use crate::query::Filter;
use crate::timestamp::Timestamp;

/// The lease of a document. Stored as an object:
///
/// ```json
/// {"holder": "connector-1", "token": 7, "mark": "6f1e…", "until": 1763721471000}
/// ```
///
/// `holder` is absent while nobody holds it, `mark` before it was ever held; `until` is in milliseconds of the service's
/// time, of a lease that was given back the moment it was. A document without the whole object is free as well, if its
/// field has `#[serde(default)]`: so an existing type can be given a lease.
///
/// ```
/// use cdb_model::{Lease, Timestamp};
///
/// let now = Timestamp::from_millis(1_000);
/// let later = Timestamp::from_millis(31_000);
/// let anns = Lease::free().taken("ann", "6f1e", later);
/// assert!(anns.is_held(now) && !anns.is_held(later)); // expired without a write
/// let bobs = anns.taken("bob", "a3c0", Timestamp::from_millis(60_000));
/// assert!(bobs.token() > anns.token()); // whoever was given Ann's token can tell that it is old
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
    /// The lease of a new document: nobody ever held it.
    pub fn free() -> Self {
        Self::default()
    }

    /// Who holds it, or held it until it expired; `None` when it was given back.
    pub fn holder(&self) -> Option<&str> {
        self.holder.as_deref()
    }

    /// The fencing token: larger whenever the document has changed hands.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The random text of the last write under the lease.
    pub fn mark(&self) -> Option<&str> {
        self.mark.as_deref()
    }

    /// When it expires or has expired.
    pub fn until(&self) -> Timestamp {
        self.until
    }

    /// Whether somebody holds it at this time.
    pub fn is_held(&self, now: Timestamp) -> bool {
        self.holder.is_some() && self.until > now
    }

    /// The lease in the hands of `holder`.
    pub fn taken(&self, holder: &str, mark: &str, until: Timestamp) -> Self {
        Self {
            holder: Some(holder.to_owned()),
            token: self.token + 1,
            mark: Some(mark.to_owned()),
            until,
        }
    }

    /// The lease in the same hands after a write. It never gets shorter.
    pub fn kept(&self, mark: &str, until: Timestamp) -> Self {
        Self {
            mark: Some(mark.to_owned()),
            until: self.until.max(until),
            ..self.clone()
        }
    }

    /// The lease in nobody's hands.
    pub fn given_back(&self, mark: &str, now: Timestamp) -> Self {
        Self {
            holder: None,
            token: self.token + 1,
            mark: Some(mark.to_owned()),
            until: now,
        }
    }
}

/// A document with a lease. Implemented by `#[derive(Document)]` for a type with a field `#[document(lease)]`.
///
/// ```
/// use cdb_model::{Document, Leasable, Lease};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "job", id = "job:{name}")]
/// struct Job {
///     #[document(partition_key)]
///     name: String,
///     #[document(lease)]
///     lease: Lease,
/// }
///
/// let job = Job { name: "nightly".into(), lease: Lease::free() };
/// assert_eq!(job.lease().holder(), None);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no lease",
    note = "add a field of type `cdb_model::Lease` marked `#[document(lease)]` to it"
)]
pub trait Leasable: Document {
    /// Where the lease is stored.
    const LEASE_PATHS: LeasePaths<Self>;

    /// The lease as it was read.
    fn lease(&self) -> &Lease;

    /// Puts a lease in the place of the one that was read.
    fn set_lease(&mut self, lease: Lease);
}

/// The stored paths of the lease of a `D`, and what is asked and written there.
///
/// ```
/// use cdb_model::{Document, Leasable, Lease, Patch, Query, Timestamp};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "job", id = "job:{name}")]
/// struct Job {
///     #[document(partition_key)]
///     name: String,
///     done: u32,
///     #[document(lease)]
///     lease: Lease,
/// }
///
/// let now = Timestamp::from_millis(1_000);
/// let free = Query::<Job>::across_partitions().filter(Job::LEASE_PATHS.free(now));
///
/// // A write of the holder's fails once somebody else has the job, or he himself has written again.
/// let held = Lease::free().taken("ann", "6f1e", Timestamp::from_millis(31_000));
/// let fenced = Patch::new().incr(Job::DONE, 1).when(Job::LEASE_PATHS.fence(&held));
/// assert!(fenced.body()?.condition.is_some_and(|condition| condition.contains("6f1e")));
/// # drop(free);
/// # Ok::<(), cdb_model::PatchError>(())
/// ```
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

    /// For generated code: there may be documents without a lease.
    #[doc(hidden)]
    pub const fn or_absent(self) -> Self {
        Self {
            or_absent: true,
            ..self
        }
    }
}

impl<D: Document> LeasePaths<D> {
    /// When the lease expires. Indexed.
    pub const fn until(self) -> Path<D, Timestamp, Indexed, Patchable> {
        Path::new(self.until)
    }

    /// Documents that nobody holds at this time: given back or expired; without a lease too, if the field has
    /// `#[serde(default)]`. No index finds what is not there, so leave that out once every document has its lease.
    pub fn free(self, now: Timestamp) -> Filter<D> {
        let free = self.until().le(now);
        if self.or_absent {
            free | !self.until().is_defined()
        } else {
            free
        }
    }

    /// The condition of every write of the holder: the lease is as it was at his last write. For patches; a query has no
    /// index for it.
    pub fn fence(self, lease: &Lease) -> Filter<D> {
        let token = Path::<D, u64, Indexed, Patchable>::new(self.token).eq(lease.token);
        let mark = Path::<D, Option<String>, Indexed, Patchable>::new(self.mark);
        token & mark.eq(lease.mark.clone())
    }

    /// Writes the lease.
    #[must_use]
    pub fn set(self, patch: Patch<D>, lease: &Lease) -> Patch<D> {
        let stored = Path::<D, Lease, Unindexed, Patchable>::new(self.lease);
        patch.set(stored, lease.clone())
    }
}

impl<D> Clone for LeasePaths<D> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D> Copy for LeasePaths<D> {}

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
    fn the_token_grows_with_every_change_of_hands_and_with_nothing_else() {
        let taken = Lease::free().taken("ann", "a", at(60));
        let kept = taken.kept("b", at(90));
        let back = kept.given_back("c", at(70));
        let tokens = [&taken, &kept, &back, &back.taken("bob", "d", at(130))].map(Lease::token);
        assert_eq!(tokens, [1, 1, 2, 3]);
        assert_eq!(kept.mark(), Some("b"));
        assert_eq!(taken.kept("b", at(50)).until(), at(60));
    }

    #[test]
    fn an_expired_lease_is_free_and_one_given_back_too() {
        let taken = Lease::free().taken("ann", "a", at(60));
        assert!(!Lease::free().is_held(at(0)));
        assert!(taken.is_held(at(59)) && !taken.is_held(at(60)));
        assert!(!taken.given_back("b", at(10)).is_held(at(9)));
    }

    #[test]
    fn the_stored_form_is_the_documented_one() {
        let json = |lease: &Lease| serde_json::to_string(lease).unwrap();
        assert_eq!(json(&Lease::free()), r#"{"token":0,"until":0}"#);
        let taken = Lease::free().taken("ann", "a", at(60));
        let stored = r#"{"holder":"ann","token":1,"mark":"a","until":60}"#;
        assert_eq!(json(&taken), stored);
        assert_eq!(serde_json::from_str::<Lease>(stored).unwrap(), taken);
    }
}
