//! Changes and conditions of single entries of a map.

use std::collections::{BTreeMap, HashMap};
use std::marker::PhantomData;

use derive_where::derive_where;

use super::changes::{Changeable, Counter, Patch, PatchOperation};
use crate::document::{Document, Path};
use crate::query::{Filter, Operand};
use crate::sql::{Comparison, Predicate, ValueError};
use crate::value::{Ordered, Scalar, numbers};

/// An entry of a map, such as `Shelf::STOCK.entry("lamp")`. For [patches](Patch) and their conditions.
///
/// The name may be any text without `/` and `~`: these have a meaning in the paths of the service. A
/// patch with another name fails with [`PatchError::Value`](crate::operation::PatchError::Value).
///
/// ```
/// use std::collections::BTreeMap;
///
/// use cdb_model::{Document, Patch};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "shelf", id = "shelf")]
/// struct Shelf {
///     #[document(partition_key)]
///     shop: String,
///     stock: BTreeMap<String, i64>,
/// }
///
/// fn sell(product: &str, count: i64) -> Patch<Shelf> {
///     let stock = Shelf::STOCK.entry(product);
///     Patch::new()
///         .incr_entry(&stock, -count)
///         .when_entry_ge(&stock, count)
/// }
/// ```
#[derive_where(Clone, Debug)]
pub struct EntryPath<D, V, M> {
    map: &'static str,
    name: String,
    marker: Marker<D, V, M>,
}

/// The types of a path. A path has no values of them.
type Marker<D, V, M> = PhantomData<fn() -> (D, V, M)>;

impl<D, V, I, M> Path<D, BTreeMap<String, V>, I, M> {
    /// Returns the path of an entry, which need not exist.
    pub fn entry(self, name: impl Into<String>) -> EntryPath<D, V, M> {
        EntryPath::new(self.pointer(), name.into())
    }
}

impl<D, V, S, I, M> Path<D, HashMap<String, V, S>, I, M> {
    /// Returns the path of an entry, which need not exist.
    pub fn entry(self, name: impl Into<String>) -> EntryPath<D, V, M> {
        EntryPath::new(self.pointer(), name.into())
    }
}

impl<D, V, M> EntryPath<D, V, M> {
    fn new(map: &'static str, name: String) -> Self {
        Self {
            map,
            name,
            marker: PhantomData,
        }
    }

    /// Returns the stored path.
    fn pointer(&self) -> Result<String, ValueError> {
        if self.name.is_empty() || self.name.contains(['/', '~']) {
            return Err(ValueError {
                path: self.map,
                reason: format!(
                    "`{}` is no name of an entry in a path; names are not empty, and have neither `/` nor `~`",
                    self.name
                ),
            });
        }
        Ok(format!("{}/{}", self.map, self.name))
    }

    fn filter(&self, predicate: impl FnOnce(String) -> Result<Predicate, ValueError>) -> Filter<D> {
        let predicate = self.pointer().and_then(predicate);
        Filter::from_predicate(predicate.unwrap_or_else(Predicate::Invalid))
    }

    fn compare(&self, comparison: Comparison, value: impl Operand<V>) -> Filter<D> {
        let value = value.into_json();
        self.filter(|path| {
            let value = value.map_err(|error| ValueError::new(self.map, &error))?;
            Ok(Predicate::Compare(path, comparison, value))
        })
    }
}

impl<D: Document, T> Patch<D, T> {
    /// Sets an entry of a map, and creates it if it is missing. The patch fails with 400 if the document
    /// lacks the map.
    pub fn set_entry<V, M>(self, entry: &EntryPath<D, V, M>, value: impl Operand<V>) -> Self
    where
        M: Changeable<D>,
    {
        let value = value.into_json();
        let value = value.map_err(|error| ValueError::new(entry.map, &error));
        self.change(entry.pointer().and_then(|path| {
            Ok(PatchOperation::Set {
                path: path.into(),
                value: value?,
            })
        }))
    }

    /// Adds `by` to an entry of a map; one that is missing gets this value ("Partial document update in
    /// Azure Cosmos DB", supported operations). As [`incr`](Self::incr), it
    /// must not be repeated, and it fails with 412 if the sum would not be a `V`.
    pub fn incr_entry<V: Counter, M>(self, entry: &EntryPath<D, V, M>, by: i64) -> Self
    where
        M: Changeable<D>,
    {
        let (bound, comparison) = if by < 0 {
            (V::LEAST, Comparison::GreaterOrEqual)
        } else {
            (V::GREATEST, Comparison::LessOrEqual)
        };
        let checked = match bound {
            None => self,
            Some(bound) => self.when(entry.filter(|path| {
                let is_missing = Predicate::Not(Box::new(Predicate::IsDefined(path.clone())));
                let room = (bound.saturating_sub(by)).into();
                Ok(Predicate::Or(vec![
                    Predicate::Compare(path, comparison, room),
                    is_missing,
                ]))
            })),
        };
        let storable = numbers::to_value(by).map_err(|error| ValueError::new(entry.map, &error));
        checked.change(storable.and_then(|_| {
            Ok(PatchOperation::Incr {
                path: entry.pointer()?.into(),
                value: by,
            })
        }))
    }

    /// Removes an entry of a map. The patch fails with 400 if it is missing.
    pub fn remove_entry<V, M>(self, entry: &EntryPath<D, V, M>) -> Self
    where
        M: Changeable<D>,
    {
        let path = entry.pointer();
        self.change(path.map(|path| PatchOperation::Remove { path: path.into() }))
    }

    /// Adds the condition that an entry of a map has this value.
    pub fn when_entry_eq<V: Scalar, M>(
        self,
        entry: &EntryPath<D, V, M>,
        value: impl Operand<V>,
    ) -> Self {
        self.when(entry.compare(Comparison::Equal, value))
    }

    /// Adds the condition that an entry of a map has at least this value.
    pub fn when_entry_ge<V: Ordered, M>(
        self,
        entry: &EntryPath<D, V, M>,
        value: impl Operand<V>,
    ) -> Self {
        self.when(entry.compare(Comparison::GreaterOrEqual, value))
    }

    /// Adds the condition that a map has no such entry.
    pub fn when_no_entry<V, M>(self, entry: &EntryPath<D, V, M>) -> Self {
        self.when(entry.filter(|path| {
            let is_defined = Predicate::IsDefined(path);
            Ok(Predicate::Not(Box::new(is_defined)))
        }))
    }
}
