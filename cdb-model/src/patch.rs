//! Partial updates: typed changes of single paths, with an optional condition.
//!
//! Only what is neither key nor partition key can be changed, which the path's type knows. The service takes at most
//! ten changes per patch. A change that sets a value may be repeated; an increment may not, so guard it with a
//! condition or an ETag.

use serde::Serialize;
use serde_json::Value;

use crate::document::Document;
use crate::limits::MAX_PATCH_OPERATIONS;
use crate::path::{Patchable, Path};
use crate::query::{Filter, patch_condition};

/// Changes to a document of type `D`.
///
/// ```
/// use cdb_model::Patch;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// let patch = Patch::new()
///     .incr(Order::TOTAL_CENTS, -500)
///     .set(Order::REMARK, Some("a voucher".to_owned()))
///     .when(Order::TOTAL_CENTS.ge(500_u64));
/// assert!(!patch.is_repeatable()); // `incr` twice is not `incr` once
/// assert_eq!(patch.body()?.operations.len(), 2);
/// # Ok::<(), cdb_model::PatchError>(())
/// ```
#[derive(Debug)]
pub struct Patch<D> {
    operations: Vec<PatchOperation>,
    condition: Option<Filter<D>>,
    /// A value that could not be written as JSON, reported when the patch is used.
    failure: Option<PatchError>,
}

impl<D> Clone for Patch<D> {
    fn clone(&self) -> Self {
        Self {
            operations: self.operations.clone(),
            condition: self.condition.clone(),
            failure: self.failure.clone(),
        }
    }
}

/// One change, in the service's form.
///
/// ```
/// use cdb_model::{Patch, PatchOperation};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// let body = Patch::new().incr(Order::TOTAL_CENTS, -500).body()?;
/// let discount = PatchOperation::Incr { path: "/totalCents", value: -500 };
/// assert_eq!(body.operations, [discount]);
/// # Ok::<(), cdb_model::PatchError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
#[non_exhaustive]
pub enum PatchOperation {
    /// Writes a value, whether the path was there or not.
    Set {
        /// The path.
        path: &'static str,
        /// The value.
        value: Value,
    },
    /// Removes a path, which must be there.
    Remove {
        /// The path.
        path: &'static str,
    },
    /// Adds to a number.
    Incr {
        /// The path.
        path: &'static str,
        /// What is added.
        value: i64,
    },
}

/// A patch in the service's form.
///
/// ```
/// use cdb_model::Patch;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// let patch = Patch::new().set(Order::TOTAL_CENTS, 500).when(Order::TOTAL_CENTS.gt(500_u64));
/// let sent = serde_json::to_value(patch.body()?)?;
/// assert_eq!(sent["operations"][0]["op"], "set");
/// assert_eq!(sent["condition"], r#"from c where c["totalCents"] > 500"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PatchBody {
    /// The changes, at most ten.
    pub operations: Vec<PatchOperation>,
    /// Must hold, or the patch fails with 412.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

/// Why a patch cannot be sent.
///
/// ```
/// use cdb_model::{Patch, PatchError};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// assert!(matches!(Patch::<Order>::new().body(), Err(PatchError::Empty { .. })));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// More changes than the service takes.
    #[error(
        "the patch of `{document}` has {count} changes, the service takes {MAX_PATCH_OPERATIONS}; replace the document instead"
    )]
    TooMany {
        /// The document type.
        document: &'static str,
        /// How many changes it has.
        count: usize,
    },
    /// Nothing to change.
    #[error("the patch of `{document}` changes nothing")]
    Empty {
        /// The document type.
        document: &'static str,
    },
    /// A value that is no JSON.
    #[error("the value for `{path}` cannot be written as JSON: {reason}")]
    Value {
        /// The path.
        path: &'static str,
        /// What serde says.
        reason: String,
    },
}

/// A number that [`Patch::incr`] can add to.
///
/// ```
/// use cdb_model::{Counter, Document, Patch, Patchable, Path};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// /// Counts one more.
/// fn counted<D: Document, V: Counter, I>(path: Path<D, V, I, Patchable>) -> Patch<D> {
///     Patch::new().incr(path, 1)
/// }
/// assert!(!counted(Order::TOTAL_CENTS).is_repeatable());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an integer",
    note = "only integers can be incremented"
)]
pub trait Counter {}

macro_rules! counters {
    ($($ty:ty),*) => {$(
        impl Counter for $ty {}
    )*};
}

counters!(u8, u16, u32, u64, i8, i16, i32, i64);

impl<D: Document> Default for Patch<D> {
    fn default() -> Self {
        Self::new()
    }
}

/// A patch may change a path that is marked like this.
///
/// ```compile_fail
/// use cdb_model::Patch;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// let patch = Patch::new().set(Order::CUSTOMER_ID, "grace".to_owned()); // the partition key never changes
/// ```
#[diagnostic::on_unimplemented(
    message = "a patch cannot change this path of `{D}`",
    label = "this path makes the id or the partition key, which never change",
    note = "delete the document and create another one"
)]
pub trait Changeable<D> {}

impl<D> Changeable<D> for Patchable {}

impl<D: Document> Patch<D> {
    /// No changes yet.
    pub fn new() -> Self {
        Self {
            operations: Vec::new(),
            condition: None,
            failure: None,
        }
    }

    /// Writes a value.
    #[must_use]
    pub fn set<V: Serialize, I, M>(mut self, path: Path<D, V, I, M>, value: V) -> Self
    where
        M: Changeable<D>,
    {
        let path = path.pointer();
        match serde_json::to_value(value) {
            Ok(value) => self.operations.push(PatchOperation::Set { path, value }),
            Err(error) => {
                self.failure.get_or_insert(PatchError::Value {
                    path,
                    reason: error.to_string(),
                });
            }
        }
        self
    }

    /// Removes a path. The patch fails with 400 when it is not there.
    #[must_use]
    pub fn remove<V, I, M>(mut self, path: Path<D, Option<V>, I, M>) -> Self
    where
        M: Changeable<D>,
    {
        self.operations.push(PatchOperation::Remove {
            path: path.pointer(),
        });
        self
    }

    /// Adds to a number. Not safe to repeat: guard it with [`Patch::when`] or an ETag.
    #[must_use]
    pub fn incr<V: Counter, I, M>(mut self, path: Path<D, V, I, M>, by: i64) -> Self
    where
        M: Changeable<D>,
    {
        self.operations.push(PatchOperation::Incr {
            path: path.pointer(),
            value: by,
        });
        self
    }

    /// Only when the document meets this condition; otherwise the patch fails with 412. The last call counts.
    #[must_use]
    pub fn when(mut self, condition: Filter<D>) -> Self {
        self.condition = Some(condition);
        self
    }

    /// Only when the document meets this condition too, beside the one it has.
    #[must_use]
    pub fn and_when(mut self, condition: Filter<D>) -> Self {
        self.condition = Some(match self.condition {
            Some(known) => known.and(condition),
            None => condition,
        });
        self
    }

    /// Whether sending it twice gives the same document as sending it once.
    pub fn is_repeatable(&self) -> bool {
        self.operations
            .iter()
            .all(|operation| matches!(operation, PatchOperation::Set { .. }))
    }

    /// The patch in the service's form.
    ///
    /// # Errors
    /// When it changes nothing or too much, or a value is no JSON.
    pub fn body(&self) -> Result<PatchBody, PatchError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let document = D::SHAPE.name;
        match self.operations.len() {
            0 => Err(PatchError::Empty { document }),
            1..=MAX_PATCH_OPERATIONS => Ok(PatchBody {
                operations: self.operations.clone(),
                condition: self
                    .condition
                    .as_ref()
                    .map(|condition| patch_condition(&condition.predicate)),
            }),
            count => Err(PatchError::TooMany { document, count }),
        }
    }
}
