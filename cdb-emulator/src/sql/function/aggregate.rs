//! Aggregate functions. Undefined values are ignored.

use serde_json::Value;

use crate::sql::value::{number, order};

/// An aggregate function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aggregate {
    Count,
    CountIf,
    Sum,
    Min,
    Max,
    Avg,
}

impl Aggregate {
    pub(super) fn named(upper: &str) -> Option<Self> {
        [
            Self::Count,
            Self::CountIf,
            Self::Sum,
            Self::Min,
            Self::Max,
            Self::Avg,
        ]
        .into_iter()
        .find(|known| known.name() == upper)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Count => "COUNT",
            Self::CountIf => "COUNTIF",
            Self::Sum => "SUM",
            Self::Min => "MIN",
            Self::Max => "MAX",
            Self::Avg => "AVG",
        }
    }

    /// Folds the defined values of all rows.
    pub(crate) fn fold(self, values: Vec<Value>) -> Option<Value> {
        match self {
            Self::Count => Some(values.len().into()),
            Self::CountIf => {
                let met = values.iter().filter(|value| **value == Value::Bool(true));
                Some(met.count().into())
            }
            Self::Min | Self::Max => extreme(self, values),
            Self::Sum | Self::Avg => {
                // A value that is not a number makes a sum undefined.
                let numbers: Option<Vec<f64>> = values.iter().map(Value::as_f64).collect();
                let numbers = numbers?;
                let sum: f64 = numbers.iter().sum();
                if !sum.is_finite() {
                    return None;
                }
                if self == Self::Sum {
                    return Some(number(sum));
                }
                #[expect(clippy::cast_precision_loss, reason = "a count of rows")]
                let count = numbers.len() as f64;
                (!numbers.is_empty()).then(|| number(sum / count))
            }
        }
    }
}

/// Returns the minimum or maximum of null, booleans, numbers and strings, in the order of types. An
/// array or object makes it undefined.
fn extreme(aggregate: Aggregate, values: Vec<Value>) -> Option<Value> {
    if values
        .iter()
        .any(|value| value.is_array() || value.is_object())
    {
        return None;
    }
    let values = values.into_iter();
    if aggregate == Aggregate::Min {
        values.min_by(|a, b| order(Some(a), Some(b)))
    } else {
        values.max_by(|a, b| order(Some(a), Some(b)))
    }
}
