//! Conditions from outside the program: from a search form, a URL, another service.
//!
//! They have the limits of typed conditions: only indexed fields, and values as parameters.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::condition::completed;
use super::{Filter, Order};
use crate::document::Document;
use crate::shape::{Direction, FieldIndexing, FieldShape};
use crate::sql::{Comparison, OrderTerm, Predicate, SortTarget, TextMatch};

/// One condition on a field.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// use cdb_model::Query;
/// use cdb_model::query::{CriteriaError, Criterion, Filter};
/// use shop::Order;
///
/// /// `[{"field": "totalCents", "operator": "gt", "value": 500}]`
/// fn search(customer: &str, criteria: &[Criterion]) -> Result<Query<Order>, CriteriaError> {
///     let filter = Filter::from_criteria(criteria)?; // fails for `remark`, which is not indexed
///     Ok(Query::in_partition(customer).filter(filter))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Criterion {
    /// The Rust name or stored name of the field; `address.city` for a nested path. Any path inside
    /// a field with `index(*)`.
    pub field: String,
    /// The comparison.
    #[serde(default)]
    pub operator: Operator,
    /// The operand: a scalar, or a list of scalars for [`Operator::In`].
    #[serde(default)]
    pub value: Value,
}

/// The comparison of a field with a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Operator {
    /// Equal.
    #[default]
    Eq,
    /// Not equal.
    Ne,
    /// Less than.
    Lt,
    /// Less than or equal.
    Le,
    /// Greater than.
    Gt,
    /// Greater than or equal.
    Ge,
    /// Equal to one of the values.
    In,
    /// A string that starts with the value.
    StartsWith,
    /// A string that ends with the value.
    EndsWith,
    /// A string that contains the value.
    ContainsText,
    /// An array that contains the value.
    Contains,
    /// Null or missing; takes no value.
    IsAbsent,
}

impl Operator {
    /// Whether the operator needs the order of the values.
    fn compares(self) -> bool {
        matches!(self, Self::Lt | Self::Le | Self::Gt | Self::Ge)
    }
}

/// A sort by a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SortCriterion {
    /// The Rust name or stored name of the field.
    pub field: String,
    /// The direction.
    pub direction: Direction,
}

/// Why a criterion is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CriteriaError {
    /// The document type has no such field.
    #[error("`{document}` has no field `{field}`; its indexed fields are {indexed}")]
    UnknownField {
        /// The document type.
        document: &'static str,
        /// The unknown field.
        field: String,
        /// The indexed fields, as text.
        indexed: String,
    },
    /// No index serves the field.
    #[error("`{field}` of `{document}` is not indexed; searching by it would scan every document")]
    NotIndexed {
        /// The document type.
        document: &'static str,
        /// The field.
        field: String,
    },
    /// The stored form of the field sorts differently from its values.
    #[error("`{field}` of `{document}` has no order in the index; filter it by equality")]
    NotOrdered {
        /// The document type.
        document: &'static str,
        /// The field.
        field: String,
    },
    /// The value does not match the operator.
    #[error("`{field}` cannot be compared with {value}: {expected}")]
    Value {
        /// The field.
        field: String,
        /// The value.
        value: String,
        /// The form that the operator requires.
        expected: &'static str,
    },
}

impl<D: Document> Filter<D> {
    /// Builds a filter of all these conditions.
    ///
    /// # Errors
    /// When a field is unknown, not indexed, or has no order for `<`, or a value does not match its
    /// operator.
    pub fn from_criteria(criteria: &[Criterion]) -> Result<Self, CriteriaError> {
        criteria.iter().try_fold(Self::all(), |filter, criterion| {
            let path = indexed_path::<D>(&criterion.field, criterion.operator.compares())?;
            let predicate = predicate(criterion, path.clone())?;
            let predicate = completed(D::SHAPE, &path, predicate);
            Ok(filter.and(Self::from_predicate(predicate)))
        })
    }
}

impl<D: Document> Order<D> {
    /// Builds a sort by a field, or by a path inside a field with `index(*)`.
    ///
    /// # Errors
    /// When the field is unknown, not indexed, or has no order.
    pub fn from_criterion(criterion: &SortCriterion) -> Result<Self, CriteriaError> {
        Self::from_criteria(std::slice::from_ref(criterion))
    }

    /// Builds a sort by several fields. The service refuses it without a composite index of exactly
    /// these paths; [`Explain`](super::Explain) tells whether a policy has one.
    ///
    /// # Errors
    /// When a field is unknown or not indexed, or the last one has no order.
    pub fn from_criteria(criteria: &[SortCriterion]) -> Result<Self, CriteriaError> {
        let last = criteria.len().saturating_sub(1);
        let terms = criteria.iter().enumerate().map(|(at, criterion)| {
            // The fields before the last one form groups, as in a declared composite.
            let path = indexed_path::<D>(&criterion.field, at == last)?;
            Ok(OrderTerm {
                target: SortTarget::Path(path.into()),
                direction: criterion.direction,
            })
        });
        Ok(Self::from_terms(terms.collect::<Result<_, _>>()?))
    }
}

/// Returns the stored path of an indexed field, which is `ordered` if that is asked, or of a path
/// inside a field with `index(*)`.
fn indexed_path<D: Document>(name: &str, ordered: bool) -> Result<String, CriteriaError> {
    let stored = stored_path(name);
    let mut fields = D::SHAPE.fields.iter();
    let is_inside = fields.any(|field| {
        let subtree = field.path.strip_suffix('*');
        subtree.is_some_and(|subtree| stored.len() > subtree.len() && stored.starts_with(subtree))
    });
    // `labels.*` names the field itself, which has no single value.
    if is_inside && !stored.ends_with("/*") {
        return Ok(stored);
    }
    let field = indexed_field::<D>(name)?;
    if ordered && !field.ordered {
        return Err(CriteriaError::NotOrdered {
            document: D::SHAPE.name,
            field: name.to_owned(),
        });
    }
    Ok(field.path.trim_end_matches("/[]").to_owned())
}

fn stored_path(name: &str) -> String {
    format!("/{}", name.replace('.', "/"))
}

fn indexed_field<D: Document>(name: &str) -> Result<&'static FieldShape, CriteriaError> {
    let shape = D::SHAPE;
    let stored = stored_path(name);
    let named =
        |field: &&FieldShape| field.name == name || field.path.trim_end_matches("/[]") == stored;
    let Some(field) = shape.fields.iter().find(named) else {
        return Err(CriteriaError::UnknownField {
            document: shape.name,
            field: name.to_owned(),
            indexed: indexed_names(shape.fields),
        });
    };
    if field.indexing != FieldIndexing::Indexed || field.path.ends_with("/*") {
        return Err(CriteriaError::NotIndexed {
            document: shape.name,
            field: name.to_owned(),
        });
    }
    Ok(field)
}

fn predicate(criterion: &Criterion, path: String) -> Result<Predicate, CriteriaError> {
    let wrong = |expected| CriteriaError::Value {
        field: criterion.field.clone(),
        value: criterion.value.to_string(),
        expected,
    };
    let value = criterion.value.clone();
    let scalar = !value.is_array() && !value.is_object();
    let comparison = match criterion.operator {
        Operator::Eq => Comparison::Equal,
        Operator::Ne => Comparison::NotEqual,
        Operator::Lt => Comparison::Less,
        Operator::Le => Comparison::LessOrEqual,
        Operator::Gt => Comparison::Greater,
        Operator::Ge => Comparison::GreaterOrEqual,
        Operator::In => {
            let Value::Array(values) = value else {
                return Err(wrong("`in` requires a list"));
            };
            if values
                .iter()
                .any(|value| value.is_array() || value.is_object())
            {
                return Err(wrong("`in` requires a list of scalars"));
            }
            return Ok(if values.is_empty() {
                Predicate::Never
            } else {
                Predicate::In(path, values)
            });
        }
        Operator::StartsWith if value.is_string() => {
            return Ok(Predicate::Text(path, TextMatch::StartsWith, value, false));
        }
        Operator::StartsWith => return Err(wrong("`starts_with` requires a string")),
        Operator::EndsWith if value.is_string() => {
            return Ok(Predicate::Text(path, TextMatch::EndsWith, value, false));
        }
        Operator::EndsWith => return Err(wrong("`ends_with` requires a string")),
        Operator::ContainsText if value.is_string() => {
            return Ok(Predicate::Text(path, TextMatch::Contains, value, false));
        }
        Operator::ContainsText => return Err(wrong("`contains_text` requires a string")),
        Operator::Contains if scalar => return Ok(Predicate::ArrayContains(path, value)),
        Operator::Contains => return Err(wrong("`contains` requires a scalar")),
        Operator::IsAbsent => {
            return Ok(Predicate::Compare(path, Comparison::Equal, Value::Null));
        }
    };
    if scalar {
        Ok(Predicate::Compare(path, comparison, value))
    } else {
        Err(wrong("the operator requires a scalar"))
    }
}

fn indexed_names(fields: &[FieldShape]) -> String {
    let indexed = fields
        .iter()
        .filter(|field| field.indexing == FieldIndexing::Indexed);
    let names: Vec<_> = indexed.map(|field| format!("`{}`", field.name)).collect();
    names.join(", ")
}
