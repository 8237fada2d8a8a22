//! Conditions that are known only at run time: from a search form, a URL, another service.
//!
//! They go through the same door as typed ones: only indexed fields, only values, never text of a query.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::filter::{Comparison, Predicate};
use super::order::OrderTerm;
use super::{Filter, Order};
use crate::document::Document;
use crate::shape::{CompositeTarget, Direction, FieldIndexing, FieldShape};

/// One condition on a field.
///
/// ```
/// use cdb_model::{CriteriaError, Criterion, Filter};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// let asked: Vec<Criterion> =
///     serde_json::from_str(r#"[{"field": "totalCents", "operator": "gt", "value": 500}]"#)?;
/// let filter = Filter::<Order>::from_criteria(&asked)?;
///
/// let scan = Criterion { field: "remark".into(), ..asked[0].clone() };
/// let refused = Filter::<Order>::from_criteria(&[scan]);
/// assert!(matches!(refused, Err(CriteriaError::NotIndexed { .. })));
/// # drop(filter);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Criterion {
    /// The field, by its Rust name or its stored one; `address.city` for a nested path.
    pub field: String,
    /// How it is compared.
    #[serde(default)]
    pub operator: Operator,
    /// With what: a scalar, or a list of scalars for [`Operator::In`].
    #[serde(default)]
    pub value: Value,
}

/// How a field is compared.
///
/// ```
/// use cdb_model::{Criterion, Operator};
///
/// let asked: Criterion =
///     serde_json::from_str(r#"{"field": "name", "operator": "starts_with", "value": "Ad"}"#)?;
/// assert_eq!(asked.operator, Operator::StartsWith);
/// let asked: Criterion = serde_json::from_str(r#"{"field": "name", "value": "Ada"}"#)?;
/// assert_eq!(asked.operator, Operator::Eq);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Operator {
    /// Holds the value.
    #[default]
    Eq,
    /// Holds another value.
    Ne,
    /// Holds less.
    Lt,
    /// Holds the value or less.
    Le,
    /// Holds more.
    Gt,
    /// Holds the value or more.
    Ge,
    /// Holds one of the values.
    In,
    /// Holds a text that starts so.
    StartsWith,
    /// Holds an array with this element.
    Contains,
    /// Holds null or is not there; takes no value.
    IsAbsent,
}

/// A sort by a field.
///
/// ```
/// use cdb_model::{Direction, Order as Sort, SortCriterion};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// let asked = SortCriterion { field: "total_cents".into(), direction: Direction::Descending };
/// let sort = Sort::<Order>::from_criterion(&asked)?;
/// # drop(sort);
/// # Ok::<(), cdb_model::CriteriaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SortCriterion {
    /// The field, by its Rust name or its stored one.
    pub field: String,
    /// Its direction.
    pub direction: Direction,
}

/// Why a criterion cannot be asked.
///
/// ```
/// use cdb_model::{Criterion, CriteriaError, Filter, Operator};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Order;
///
/// let asked = Criterion { field: "totalCent".into(), operator: Operator::Gt, value: 500.into() };
/// let refused = Filter::<Order>::from_criteria(&[asked]).unwrap_err(); // the asker's fault: 400, not 500
/// assert!(matches!(refused, CriteriaError::UnknownField { .. }));
/// assert!(refused.to_string().ends_with("did you mean `total_cents`?"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CriteriaError {
    /// The document type has no such field.
    #[error("`{document}` has no field `{field}`{hint}")]
    UnknownField {
        /// The document type.
        document: &'static str,
        /// What was asked for.
        field: String,
        /// The nearest field that can be asked for, as text.
        hint: String,
    },
    /// No index serves the field.
    #[error("`{field}` of `{document}` is not indexed; searching by it would scan every document")]
    NotIndexed {
        /// The document type.
        document: &'static str,
        /// The field.
        field: String,
    },
    /// The value does not fit the operator.
    #[error("`{field}` cannot be compared with {value}: {expected}")]
    Value {
        /// The field.
        field: String,
        /// What was given.
        value: String,
        /// What is wanted.
        expected: &'static str,
    },
}

impl<D: Document> Filter<D> {
    /// All of these conditions.
    ///
    /// # Errors
    /// When a field is unknown or not indexed, or a value does not fit its operator.
    pub fn from_criteria(criteria: &[Criterion]) -> Result<Self, CriteriaError> {
        criteria.iter().try_fold(Self::all(), |filter, criterion| {
            let predicate = predicate(criterion, indexed_field::<D>(&criterion.field)?)?;
            Ok(filter.and(Self::from_predicate(predicate)))
        })
    }
}

impl<D: Document> Order<D> {
    /// A sort by a field.
    ///
    /// # Errors
    /// When the field is unknown or not indexed.
    pub fn from_criterion(criterion: &SortCriterion) -> Result<Self, CriteriaError> {
        let field = indexed_field::<D>(&criterion.field)?;
        Ok(Self::from_terms(vec![OrderTerm {
            target: CompositeTarget::Path(field.path),
            direction: criterion.direction,
        }]))
    }
}

fn indexed_field<D: Document>(name: &str) -> Result<&'static FieldShape, CriteriaError> {
    let shape = D::SHAPE;
    let stored = format!("/{}", name.replace('.', "/"));
    let named =
        |field: &&FieldShape| field.name == name || field.path.trim_end_matches("/[]") == stored;
    let Some(field) = shape.fields.iter().find(named) else {
        return Err(CriteriaError::UnknownField {
            document: shape.name,
            field: name.to_owned(),
            hint: nearest(name, shape.fields),
        });
    };
    if field.indexing != FieldIndexing::Indexed {
        return Err(CriteriaError::NotIndexed {
            document: shape.name,
            field: name.to_owned(),
        });
    }
    Ok(field)
}

fn predicate(criterion: &Criterion, field: &FieldShape) -> Result<Predicate, CriteriaError> {
    let wrong = |expected| CriteriaError::Value {
        field: criterion.field.clone(),
        value: criterion.value.to_string(),
        expected,
    };
    let path = field.path.trim_end_matches("/[]").to_owned();
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
                return Err(wrong("`in` takes a list"));
            };
            if values
                .iter()
                .any(|value| value.is_array() || value.is_object())
            {
                return Err(wrong("`in` takes a list of scalars"));
            }
            return Ok(if values.is_empty() {
                Predicate::Never
            } else {
                Predicate::In(path, values)
            });
        }
        Operator::StartsWith if value.is_string() => {
            return Ok(Predicate::StartsWith(path, value));
        }
        Operator::StartsWith => return Err(wrong("`starts_with` takes a text")),
        Operator::Contains if scalar => return Ok(Predicate::ArrayContains(path, value)),
        Operator::Contains => return Err(wrong("`contains` takes a scalar")),
        Operator::IsAbsent => {
            let absent = Predicate::Not(Box::new(Predicate::IsDefined(path.clone())));
            return Ok(Predicate::Or(vec![Predicate::IsNull(path), absent]));
        }
    };
    if scalar {
        Ok(Predicate::Compare(path, comparison, value))
    } else {
        Err(wrong("a scalar is wanted"))
    }
}

/// `; did you mean …?` with the indexed field whose name shares the longest beginning, if any does.
fn nearest(name: &str, fields: &[FieldShape]) -> String {
    let shared = |field: &&FieldShape| {
        let pairs = field.name.chars().zip(name.chars());
        pairs.take_while(|(a, b)| a == b).count()
    };
    fields
        .iter()
        .filter(|field| field.indexing == FieldIndexing::Indexed)
        .max_by_key(shared)
        .filter(|field| shared(field) >= 3)
        .map_or_else(String::new, |field| {
            format!("; did you mean `{}`?", field.name)
        })
}
