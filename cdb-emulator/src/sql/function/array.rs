//! Functions on arrays, sets and objects.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::aggregate::Aggregate;
use super::call::{Call, Function, finite};
use crate::sql::value::{equal, identity, order};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("ARRAY_CONCAT", 2, usize::MAX, concat),
    Function::new("ARRAY_CONTAINS", 2, 3, contains),
    Function::new("ARRAY_CONTAINS_ANY", 2, usize::MAX, |call| {
        contains_many(call, false)
    }),
    Function::new("ARRAY_CONTAINS_ALL", 2, usize::MAX, |call| {
        contains_many(call, true)
    }),
    Function::new("ARRAY_LENGTH", 1, 1, |call| {
        Some(call.value(0)?.as_array()?.len().into())
    }),
    Function::new("ARRAY_SLICE", 2, 3, slice),
    Function::new("ARRAY_MAX", 1, 1, |call| fold(call, Aggregate::Max)),
    Function::new("ARRAY_MIN", 1, 1, |call| fold(call, Aggregate::Min)),
    Function::new("ARRAY_SUM", 1, 1, |call| fold(call, Aggregate::Sum)),
    Function::new("ARRAY_AVG", 1, 1, |call| fold(call, Aggregate::Avg)),
    Function::new("ARRAY_MEDIAN", 1, 1, median),
    Function::new("SETINTERSECT", 2, 2, |call| {
        select(call, |in_second| in_second)
    }),
    Function::new("SETDIFFERENCE", 2, 2, |call| {
        select(call, |in_second| !in_second)
    }),
    Function::new("SETUNION", 2, 2, |call| {
        let mut seen = HashSet::new();
        let all = call.items(0)?.iter().chain(call.items(1)?);
        let mut out = Vec::new();
        for item in all.filter(|item| seen.insert(identity(Some(item)))) {
            out.push(call.copy(item)?);
        }
        Some(out.into())
    }),
    Function::new("SETEQUAL", 2, 2, |call| {
        Some((set(call.items(0)?) == set(call.items(1)?)).into())
    }),
    Function::new("OBJECTTOARRAY", 1, 3, object_to_array),
];

fn concat(call: &Call<'_>) -> Option<Value> {
    let mut out = Vec::new();
    for at in 0..call.len() {
        for item in call.items(at)? {
            out.push(call.copy(item)?);
        }
    }
    Some(out.into())
}

fn contains(call: &Call<'_>) -> Option<Value> {
    let (items, partial) = (call.items(0)?, call.flag(2)?);
    let Some(needle) = call.value(1) else {
        return Some(false.into());
    };
    let found = |item: &Value| equal(item, needle) || (partial && includes(item, needle));
    Some(items.iter().any(found).into())
}

/// Returns whether an object has at least the fields of another.
fn includes(item: &Value, part: &Value) -> bool {
    match (item, part) {
        (Value::Object(item), Value::Object(part)) => part.iter().all(|(name, value)| {
            item.get(name)
                .is_some_and(|found| equal(found, value) || includes(found, value))
        }),
        _ => false,
    }
}

/// Tests for any or all of the values; undefined values propagate as in OR and AND.
fn contains_many(call: &Call<'_>, all: bool) -> Option<Value> {
    let mut unknown = false;
    for at in 1..call.len() {
        let items = call.items(0)?;
        match call.value(at) {
            None => unknown = true,
            Some(needle) if items.iter().any(|item| equal(item, needle)) != all => {
                return Some((!all).into());
            }
            Some(_) => {}
        }
    }
    (!unknown).then(|| all.into())
}

fn slice(call: &Call<'_>) -> Option<Value> {
    let (items, start) = (call.items(0)?, call.integer(1)?);
    let length = call.optional(2, i64::MAX, Call::integer)?;
    let from_end = usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX);
    let start = usize::try_from(start).unwrap_or(items.len().saturating_sub(from_end));
    let mut out = Vec::new();
    for item in items
        .iter()
        .skip(start)
        .take(usize::try_from(length).unwrap_or(0))
    {
        out.push(call.copy(item)?);
    }
    Some(out.into())
}

fn fold(call: &Call<'_>, aggregate: Aggregate) -> Option<Value> {
    let items = call.items(0)?;
    call.copy(call.value(0)?)?;
    aggregate.fold(items.to_vec())
}

fn median(call: &Call<'_>) -> Option<Value> {
    let numbers: Option<Vec<f64>> = call.items(0)?.iter().map(Value::as_f64).collect();
    let mut numbers = numbers?;
    numbers.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    let middle = numbers.len() / 2;
    let upper = *numbers.get(middle)?;
    if numbers.len() % 2 == 1 {
        return finite(upper);
    }
    finite(f64::midpoint(*numbers.get(middle.checked_sub(1)?)?, upper))
}

fn set(items: &[Value]) -> HashSet<String> {
    items.iter().map(|item| identity(Some(item))).collect()
}

/// Returns the distinct elements of the first set, selected by whether the second contains them.
fn select(call: &Call<'_>, wanted: fn(bool) -> bool) -> Option<Value> {
    let second = set(call.items(1)?);
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    for item in call.items(0)? {
        let name = identity(Some(item));
        if wanted(second.contains(&name)) && seen.insert(name) {
            out.push(call.copy(item)?);
        }
    }
    Some(out.into())
}

fn object_to_array(call: &Call<'_>) -> Option<Value> {
    let object = call.value(0)?.as_object()?;
    let key = call.optional(1, "k", Call::text)?;
    let value = call.optional(2, "v", Call::text)?;
    let mut fields: Vec<(&String, &Value)> = object.iter().collect();
    fields.sort_by(|a, b| order(Some(&Value::from(&**a.0)), Some(&Value::from(&**b.0))));
    let mut out: Vec<Value> = Vec::new();
    for (name, item) in fields {
        call.charge((key.len() + value.len()) / 32 + 2)?;
        let mut pair = Map::new();
        pair.insert(key.to_owned(), name.as_str().into());
        pair.insert(value.to_owned(), call.copy(item)?);
        out.push(pair.into());
    }
    Some(out.into())
}
