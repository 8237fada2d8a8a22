//! Merges the partial aggregates of pages and physical partitions.
//!
//! Each answer has one row per group with a partial value per aggregate, in the form of the
//! service's own plans (`sql::Projection::Aggregates`). The merged rows are JSON that the typed row
//! of the query reads.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Number, Value};

use crate::query::compare_values;
use crate::sql::AggregateKind;

/// The groups of a query, merged from partial rows.
#[derive(Clone, Debug)]
pub struct Groups {
    kinds: Vec<AggregateKind>,
    /// The groups in the order of their first rows.
    found: Vec<Group>,
    /// The positions in `found`, by the JSON of the keys.
    positions: HashMap<String, usize>,
    grouped: bool,
}

#[derive(Clone, Debug)]
struct Group {
    keys: Vec<Value>,
    partials: Vec<Partial>,
}

/// The merged part of one aggregate.
#[derive(Clone, Debug)]
struct Partial {
    /// The sum; `None` after a value that is not a number.
    sum: Option<Sum>,
    /// The number of summed values.
    count: u64,
    /// The smallest or largest value.
    extreme: Option<Value>,
}

#[derive(Clone, Copy, Debug)]
enum Sum {
    Exact(i128),
    Double(f64),
}

/// One row of an answer.
#[derive(Deserialize)]
struct PartialRow {
    #[serde(default)]
    keys: Vec<Item>,
    #[serde(default)]
    items: Vec<Item>,
}

/// `{"item": …}`, or `{}` for an undefined value.
#[derive(Deserialize)]
struct Item {
    item: Option<Value>,
}

/// The partial value of an average.
#[derive(Deserialize)]
struct PartialAverage {
    sum: Option<Number>,
    count: u64,
}

impl Groups {
    /// Starts a merge. Without groups, there is always one row.
    pub fn new(kinds: Vec<AggregateKind>, grouped: bool) -> Self {
        let mut groups = Self {
            kinds,
            found: Vec::new(),
            positions: HashMap::new(),
            grouped,
        };
        if !grouped {
            groups.group(Vec::new());
        }
        groups
    }

    /// Adds one row of an answer.
    ///
    /// # Errors
    /// When the row does not have the form of the query.
    pub fn add(&mut self, json: &str) -> serde_json::Result<()> {
        let row: PartialRow = serde_json::from_str(json)?;
        // A missing key counts as null: both are `None` of an `Option`.
        let keys = row.keys.into_iter().map(|key| key.item.map(whole));
        let keys = keys.map(Option::unwrap_or_default).collect();
        let kinds = self.kinds.clone();
        let group = self.group(keys);
        if row.items.len() != kinds.len() {
            return Err(serde::de::Error::invalid_length(
                row.items.len(),
                &"an item per aggregate",
            ));
        }
        let partials = group.partials.iter_mut().zip(kinds);
        for ((partial, kind), item) in partials.zip(row.items) {
            partial.add(kind, item.item)?;
        }
        Ok(())
    }

    fn group(&mut self, keys: Vec<Value>) -> &mut Group {
        let name = Value::from(keys.clone()).to_string();
        let next = self.found.len();
        let at = *self.positions.entry(name).or_insert(next);
        if at == next {
            let partials = vec![Partial::NOTHING; self.kinds.len()];
            self.found.push(Group { keys, partials });
        }
        &mut self.found[at]
    }

    /// Returns the merged rows in the order of their keys: the aggregates, the keys, or an array of
    /// the keys and the aggregates. A single key or aggregate is not in an array.
    pub fn into_rows(mut self) -> Vec<Value> {
        self.found.sort_by(|a, b| {
            let keys = a.keys.iter().zip(&b.keys);
            keys.map(|(a, b)| compare_values(Some(a), Some(b)))
                .find(|ordering| ordering.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        let (kinds, grouped) = (self.kinds, self.grouped);
        let rows = self.found.into_iter().map(|group| {
            let values = group.partials.into_iter().zip(&kinds);
            let values = single(values.map(|(partial, kind)| partial.value(*kind)).collect());
            match (grouped, kinds.is_empty()) {
                (false, _) => values,
                (true, true) => single(group.keys),
                (true, false) => Value::from(vec![single(group.keys), values]),
            }
        });
        rows.collect()
    }
}

impl Partial {
    const NOTHING: Self = Self {
        sum: Some(Sum::Exact(0)),
        count: 0,
        extreme: None,
    };

    fn add(&mut self, kind: AggregateKind, item: Option<Value>) -> serde_json::Result<()> {
        match (kind, item) {
            (AggregateKind::Count | AggregateKind::Sum, Some(item)) => {
                self.add_sum(Some(&serde_json::from_value(item)?));
            }
            (AggregateKind::Average, Some(item)) => {
                let partial: PartialAverage = serde_json::from_value(item)?;
                self.count = self.count.saturating_add(partial.count);
                if partial.count > 0 {
                    self.add_sum(partial.sum.as_ref());
                }
            }
            (AggregateKind::Count | AggregateKind::Sum | AggregateKind::Average, None) => {
                self.sum = None;
            }
            (AggregateKind::Min | AggregateKind::Max, Some(item)) => self.compare(kind, item),
            (AggregateKind::Min | AggregateKind::Max, None) => {}
        }
        Ok(())
    }

    fn add_sum(&mut self, number: Option<&Number>) {
        let sum = self.sum.zip(number.and_then(Sum::of));
        self.sum = sum.map(|(a, b)| a.plus(b));
    }

    fn compare(&mut self, kind: AggregateKind, item: Value) {
        let ordering = compare_values(Some(&item), self.extreme.as_ref());
        let first = self.extreme.is_none();
        let better = match kind {
            AggregateKind::Min => ordering.is_lt(),
            _ => ordering.is_gt(),
        };
        if first || better {
            self.extreme = Some(whole(item));
        }
    }

    fn value(self, kind: AggregateKind) -> Value {
        match kind {
            AggregateKind::Count | AggregateKind::Sum => self.sum.map_or(Value::Null, Sum::value),
            AggregateKind::Min | AggregateKind::Max => self.extreme.unwrap_or_default(),
            #[expect(clippy::cast_precision_loss, reason = "an average is a double")]
            AggregateKind::Average => match self.sum.filter(|_| self.count > 0) {
                Some(sum) => Value::from(sum.double() / self.count as f64),
                None => Value::Null,
            },
        }
    }
}

impl Sum {
    fn of(number: &Number) -> Option<Self> {
        match number.as_i128() {
            Some(exact) => Some(Self::Exact(exact)),
            None => exact(number.as_f64()?)
                .map(Self::Exact)
                .or(number.as_f64().map(Self::Double)),
        }
    }

    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => Self::Exact(a.saturating_add(b)),
            (a, b) => Self::Double(a.double() + b.double()),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "the service computes in doubles"
    )]
    fn double(self) -> f64 {
        match self {
            Self::Exact(exact) => exact as f64,
            Self::Double(double) => double,
        }
    }

    /// Returns the sum as JSON: an integer, or a double if it is not exact or beyond 64 bits.
    fn value(self) -> Value {
        match self {
            Self::Exact(exact) => match (i64::try_from(exact), u64::try_from(exact)) {
                (Ok(signed), _) => signed.into(),
                (_, Ok(unsigned)) => unsigned.into(),
                _ => self.double().into(),
            },
            Self::Double(double) => double.into(),
        }
    }
}

/// Returns a whole double as an integer: the service writes `3.0` or `3`.
fn exact(double: f64) -> Option<i128> {
    const LIMIT: f64 = 9_007_199_254_740_992.0; // 2^53
    #[expect(clippy::cast_possible_truncation, reason = "below 2^53")]
    (double.fract() == 0.0 && double.abs() < LIMIT).then_some(double as i128)
}

fn whole(value: Value) -> Value {
    let double = value.as_f64().filter(|_| value.is_f64());
    match double.and_then(exact) {
        Some(exact) => Sum::Exact(exact).value(),
        None => value,
    }
}

fn single(mut values: Vec<Value>) -> Value {
    match values.len() {
        1 => values.remove(0),
        _ => values.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(kinds: &[AggregateKind], grouped: bool, rows: &[Value]) -> Vec<Value> {
        let mut groups = Groups::new(kinds.to_vec(), grouped);
        for row in rows {
            groups.add(&row.to_string()).unwrap();
        }
        groups.into_rows()
    }

    #[test]
    fn without_a_row_a_count_is_zero_and_an_extreme_is_null() {
        use AggregateKind::{Average, Count, Max, Sum};
        assert_eq!(
            merged(&[Count, Sum, Max, Average], false, &[]),
            [json!([0, 0, null, null])]
        );
        assert!(merged(&[Count], true, &[]).is_empty());
    }

    #[test]
    fn partial_values_of_equal_keys_are_merged_and_sorted_by_key() {
        use AggregateKind::{Average, Min, Sum};
        let row = |key: Value, sum: Value, min: Value, average: Value| json!({"keys": [key], "items": [{"item": sum}, min, {"item": average}]});
        let rows = [
            row(
                json!({"item": "b"}),
                json!(2.0),
                json!({"item": 5}),
                json!({"sum": 9, "count": 2}),
            ),
            row(
                json!({}),
                json!(1),
                json!({}),
                json!({"sum": 0, "count": 0}),
            ),
            row(
                json!({"item": "b"}),
                json!(0.5),
                json!({"item": 4.0}),
                json!({"sum": 1, "count": 2}),
            ),
            row(
                json!({"item": null}),
                json!(1),
                json!({}),
                json!({"count": 0}),
            ),
        ];
        assert_eq!(
            merged(&[Sum, Min, Average], true, &rows),
            [json!([null, [2, null, null]]), json!(["b", [2.5, 4, 2.5]])]
        );
    }

    #[test]
    fn an_undefined_sum_makes_the_whole_sum_null() {
        let rows = [json!({"items": [{"item": 1}]}), json!({"items": [{}]})];
        assert_eq!(merged(&[AggregateKind::Sum], false, &rows), [Value::Null]);
    }

    #[test]
    fn a_sum_beyond_64_bits_is_a_double() {
        for (summand, sum) in [
            (json!(u64::MAX), json!(2.0 * 2_f64.powi(64))),
            (json!(i64::MIN), json!(-2_f64.powi(64))),
        ] {
            let row = json!({"items": [{"item": summand}]});
            let rows = [row.clone(), row];
            assert_eq!(merged(&[AggregateKind::Sum], false, &rows), [sum]);
        }
    }

    #[test]
    fn a_row_of_another_form_is_an_error() {
        let mut groups = Groups::new(vec![AggregateKind::Count], false);
        for row in [
            "3",
            "{}",
            r#"{"items": []}"#,
            r#"{"items": [{"item": "x"}]}"#,
        ] {
            assert!(groups.add(row).is_err(), "{row}");
        }
    }
}
