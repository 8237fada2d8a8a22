//! Patches: typed changes of single paths, with an optional condition.
//!
//! A path whose type is `Fixed` (part of the id or the partition key) cannot be changed. The
//! service allows at most ten changes per patch. Setting a value may be repeated; an increment may
//! not, so protect it with a condition or an ETag.

use std::borrow::Cow;

use derive_where::derive_where;
use serde::Serialize;
use serde_json::Value;

use crate::document::{Document, DocumentAddress, ETag, Partition, Patchable, Path, Stored};
use crate::limits::{MAX_PATCH_OPERATIONS, MAX_TTL_SECONDS};
use crate::operation::Target;
use crate::query::{Filter, Operand};
use crate::sql::{ValueError, patch_condition};
use crate::stored::is_ttl;
use crate::value::{Timestamp, numbers};

/// Changes to a document of type `D`.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_model::Patch;
/// use shop::Order;
///
/// fn discount(cents: u32) -> Patch<Order> {
///     Patch::new()
///         .incr(Order::TOTAL_CENTS, -i64::from(cents))
///         .set(Order::REMARK, "a voucher")
///         .when(Order::TOTAL_CENTS.ge(u64::from(cents)))
/// }
/// ```
#[derive_where(Clone, Debug; T)]
#[must_use = "an operation does nothing until it is sent"]
pub struct Patch<D, T = ()> {
    target: T,
    operations: Vec<PatchOperation>,
    condition: Option<Filter<D>>,
    /// The first value that cannot be serialized; `body` reports it.
    invalid: Option<ValueError>,
}

/// One change, in the service's form.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
#[non_exhaustive]
pub enum PatchOperation {
    /// Sets a value, and creates the path if it is missing.
    Set {
        /// The path.
        path: Cow<'static, str>,
        /// The value.
        value: Value,
    },
    /// Inserts an element into an array.
    Add {
        /// The path of the new element: `/tags/-` for the end.
        path: String,
        /// The element.
        value: Value,
    },
    /// Removes an existing path or element.
    Remove {
        /// The path.
        path: Cow<'static, str>,
    },
    /// Moves a value.
    Move {
        /// The existing path, which is removed.
        from: &'static str,
        /// The new path, whose value is replaced.
        path: &'static str,
    },
    /// Adds to a number.
    Incr {
        /// The path.
        path: Cow<'static, str>,
        /// The amount.
        value: i64,
    },
}

/// A patch in the service's form.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PatchBody {
    /// The changes, at most ten.
    pub operations: Vec<PatchOperation>,
    /// The condition; if it does not hold, the patch fails with 412.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

impl PatchBody {
    /// Whether a second execution succeeds and leaves the same document as the first: the patch only
    /// sets values. A condition may no longer hold after the first.
    pub fn is_repeatable(&self) -> bool {
        let sets = |operation: &PatchOperation| matches!(operation, PatchOperation::Set { .. });
        self.condition.is_none() && self.operations.iter().all(sets)
    }
}

/// Why a patch cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The patch has more changes than the service allows.
    #[error(
        "the patch of `{document}` has {count} changes, the service allows {MAX_PATCH_OPERATIONS}; replace the document instead"
    )]
    TooMany {
        /// The document type.
        document: &'static str,
        /// The number of changes.
        count: usize,
    },
    /// The service refuses the time to live.
    #[error(
        "the patch of `{document}` sets a time to live of {value}, the service allows 1 to {MAX_TTL_SECONDS} seconds, and -1 for never"
    )]
    TimeToLive {
        /// The document type.
        document: &'static str,
        /// The value, as JSON.
        value: String,
    },
    /// The patch has no changes.
    #[error("the patch of `{document}` changes nothing")]
    Empty {
        /// The document type.
        document: &'static str,
    },
    /// A value of a change or of the condition cannot be serialized.
    #[error(transparent)]
    Value(#[from] ValueError),
}

/// A number that [`Patch::incr`] can add to.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an integer",
    note = "only integers can be incremented"
)]
pub trait Counter {
    /// The least value that the type can read, unless it is that of an `i64`.
    #[doc(hidden)]
    const LEAST: Option<i64>;
    /// The greatest value that the type can read, unless the service could not store a greater one.
    #[doc(hidden)]
    const GREATEST: Option<i64>;
}

macro_rules! counters {
    ($($ty:ty: $least:expr, $greatest:expr;)*) => {$(
        impl Counter for $ty {
            const LEAST: Option<i64> = $least;
            const GREATEST: Option<i64> = $greatest;
        }
    )*};
}

counters! {
    u8: Some(0), Some(u8::MAX as i64);
    u16: Some(0), Some(u16::MAX as i64);
    u32: Some(0), Some(u32::MAX as i64);
    u64: Some(0), None;
    i8: Some(i8::MIN as i64), Some(i8::MAX as i64);
    i16: Some(i16::MIN as i64), Some(i16::MAX as i64);
    i32: Some(i32::MIN as i64), Some(i32::MAX as i64);
    i64: None, None;
}

impl<D: Document> Default for Patch<D> {
    fn default() -> Self {
        Self::new()
    }
}

/// The marker of a path that a patch can change.
#[diagnostic::on_unimplemented(
    message = "a patch cannot change this path of `{D}`",
    label = "this path is computed, set by every write, or part of the id or the partition key",
    note = "change the fields that a computed property derives from; for another key, delete the document and create another one"
)]
pub trait Changeable<D> {}

impl<D> Changeable<D> for Patchable {}

impl<D: Document> Patch<D> {
    /// Creates a patch without changes, for any document: [`at`](Self::at) addresses it.
    pub fn new() -> Self {
        Self {
            target: (),
            operations: Vec::new(),
            condition: None,
            invalid: None,
        }
    }

    /// Returns the operation that patches this document.
    pub fn at<T: Target<Document = D>>(
        &self,
        target: T,
    ) -> Patch<D, DocumentAddress<D, T::Partition>> {
        Patch {
            target: target.address(),
            operations: self.operations.clone(),
            condition: self.condition.clone(),
            invalid: self.invalid.clone(),
        }
    }
}

impl<D: Document, P: Partition> Patch<D, DocumentAddress<D, P>> {
    /// Requires the version `etag`. Another version fails with 412.
    pub fn if_match(mut self, etag: &ETag) -> Self {
        self.target = self.target.if_match(etag);
        self
    }

    /// Requires no version.
    pub fn unconditional(mut self) -> Self {
        self.target = self.target.unconditional();
        self
    }

    /// Returns the address with the required version, and the changes for any document.
    pub fn into_parts(self) -> (DocumentAddress<D, P>, Patch<D>) {
        let changes = Patch {
            target: (),
            operations: self.operations,
            condition: self.condition,
            invalid: self.invalid,
        };
        (self.target, changes)
    }
}

impl<D: Document, T> Patch<D, T> {
    /// Sets a value.
    pub fn set<V, I, M>(self, path: Path<D, V, I, M>, value: impl Operand<V>) -> Self
    where
        M: Changeable<D>,
    {
        let path = path.pointer();
        self.with_value(path, value.into_json(), |value| PatchOperation::Set {
            path: path.into(),
            value,
        })
    }

    /// Adds an operation with a serialized value.
    fn with_value(
        self,
        path: &'static str,
        value: serde_json::Result<Value>,
        operation: impl FnOnce(Value) -> PatchOperation,
    ) -> Self {
        let value = value.map_err(|error| ValueError::new(path, &error));
        self.change(value.map(operation))
    }

    /// Adds an operation, unless its value is invalid.
    pub(crate) fn change(mut self, operation: Result<PatchOperation, ValueError>) -> Self {
        match operation {
            Ok(operation) => self.operations.push(operation),
            Err(invalid) => {
                self.invalid.get_or_insert(invalid);
            }
        }
        self
    }

    /// Removes a path. The patch fails with 400 if the path is missing.
    pub fn remove<V, I, M>(mut self, path: Path<D, Option<V>, I, M>) -> Self
    where
        M: Changeable<D>,
    {
        self.operations.push(PatchOperation::Remove {
            path: path.pointer().into(),
        });
        self
    }

    /// Moves a value to another path of the same type and replaces the value there. The document
    /// lacks the first path afterwards. The patch fails with 400 if the first path is missing.
    pub fn move_to<V, I, J, M, N>(
        mut self,
        from: Path<D, Option<V>, I, M>,
        to: Path<D, Option<V>, J, N>,
    ) -> Self
    where
        M: Changeable<D>,
        N: Changeable<D>,
    {
        self.operations.push(PatchOperation::Move {
            from: from.pointer(),
            path: to.pointer(),
        });
        self
    }

    /// Adds an element to the end of an array. The patch fails with 400 if the array is missing.
    /// Must not be repeated: protect it with [`Patch::when`] or an ETag.
    pub fn append<V, I, M>(self, path: Path<D, Vec<V>, I, M>, element: impl Operand<V>) -> Self
    where
        M: Changeable<D>,
    {
        self.add(path.pointer(), "-", element.into_json())
    }

    /// Inserts an element into an array before the element at `index`. The patch fails with 400 if
    /// the array is shorter than `index`. Must not be repeated, as [`append`](Self::append).
    pub fn insert<V, I, M>(
        self,
        path: Path<D, Vec<V>, I, M>,
        index: usize,
        element: impl Operand<V>,
    ) -> Self
    where
        M: Changeable<D>,
    {
        self.add(path.pointer(), &index.to_string(), element.into_json())
    }

    fn add(self, array: &'static str, at: &str, element: serde_json::Result<Value>) -> Self {
        let path = format!("{array}/{at}");
        self.with_value(array, element, |value| PatchOperation::Add { path, value })
    }

    /// Replaces the element at `index` of an array.
    pub fn set_at<V, I, M>(
        self,
        path: Path<D, Vec<V>, I, M>,
        index: usize,
        element: impl Operand<V>,
    ) -> Self
    where
        M: Changeable<D>,
    {
        let array = path.pointer();
        self.with_value(array, element.into_json(), |value| PatchOperation::Set {
            path: format!("{array}/{index}").into(),
            value,
        })
    }

    /// Removes the element at `index` of an array. The patch fails with 400 if there is none. Must
    /// not be repeated, as [`append`](Self::append).
    pub fn remove_at<V, I, M>(mut self, path: Path<D, Vec<V>, I, M>, index: usize) -> Self
    where
        M: Changeable<D>,
    {
        self.operations.push(PatchOperation::Remove {
            path: format!("{}/{index}", path.pointer()).into(),
        });
        self
    }

    /// Adds `by` to a number. Must not be repeated: protect it with [`Patch::when`] or an ETag. Fails with
    /// 412 if the sum would not be a `V`, which could not be read.
    pub fn incr<V: Counter, I, M>(self, path: Path<D, V, I, M>, by: i64) -> Self
    where
        M: Changeable<D>,
    {
        let bound = if by < 0 { V::LEAST } else { V::GREATEST };
        let fits = bound.map(|bound| path.leaves_room(bound.saturating_sub(by), by));
        let path = path.pointer();
        let incremented = self.with_value(path, numbers::to_value(by), |_| PatchOperation::Incr {
            path: path.into(),
            value: by,
        });
        match fits {
            Some(fits) => incremented.when(fits),
            None => incremented,
        }
    }

    /// Adds a condition. If one does not hold, the patch fails with 412.
    pub fn when(mut self, condition: Filter<D>) -> Self {
        self.condition = Some(match self.condition {
            Some(known) => known.and(condition),
            None => condition,
        });
        self
    }

    /// Returns the patch in the service's form. `now` is the time of the write, for the field
    /// `#[document(updated_at)]`, which counts as a change.
    ///
    /// # Errors
    /// When it has no changes or too many, or a value cannot be serialized.
    pub fn body(&self, now: Timestamp) -> Result<PatchBody, PatchError> {
        if let Some(invalid) = &self.invalid {
            return Err(invalid.clone().into());
        }
        let condition = self.condition.as_ref();
        let condition = condition.map(|condition| patch_condition(&condition.predicate));
        let document = D::SHAPE.name;
        if self.operations.is_empty() {
            return Err(PatchError::Empty { document });
        }
        self.check_ttl()?;
        let mut body = PatchBody {
            operations: self.operations.clone(),
            condition: condition.transpose()?,
        };
        if let Some(path) = D::SHAPE.updated_at {
            body.operations.push(PatchOperation::Set {
                path: path.into(),
                value: now.as_millis().into(),
            });
        }
        match body.operations.len() {
            ..=MAX_PATCH_OPERATIONS => Ok(body),
            count => Err(PatchError::TooMany { document, count }),
        }
    }
}

impl<D: Document, T> Patch<D, T> {
    /// Fails when the patch sets a time to live that the service refuses.
    fn check_ttl(&self) -> Result<(), PatchError> {
        for operation in &self.operations {
            if let PatchOperation::Set { path, value } = operation
                && D::SHAPE.ttl == Some(&**path)
                && !value.as_i64().is_some_and(is_ttl)
            {
                return Err(PatchError::TimeToLive {
                    document: D::SHAPE.name,
                    value: value.to_string(),
                });
            }
        }
        Ok(())
    }
}

impl<D: Document, P: Partition> DocumentAddress<D, P> {
    /// Patches the document: add the changes to the operation.
    pub fn patch(self) -> Patch<D, Self> {
        Patch::new().at(self)
    }
}

impl<D: Document> Stored<D> {
    /// Patches exactly this version: add the changes to the operation.
    pub fn patch(&self) -> Patch<D, DocumentAddress<D>> {
        Patch::new().at(self)
    }
}
