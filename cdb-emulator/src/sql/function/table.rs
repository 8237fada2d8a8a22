//! The table of functions.

use super::aggregate::Aggregate;
use super::call::Function;
#[cfg(feature = "spatial")]
use super::spatial::FUNCTIONS as SPATIAL;
use super::{array, date, integer, math, search, string, text_json, types};

#[cfg(not(feature = "spatial"))]
const SPATIAL: &[Function] = &[];

/// A function of the query language.
#[derive(Clone, Copy, Debug)]
pub(in crate::sql) enum NamedFunction {
    Scalar(&'static Function),
    Aggregate(Aggregate),
}

const FAMILIES: [&[Function]; 9] = [
    types::FUNCTIONS,
    string::FUNCTIONS,
    text_json::FUNCTIONS,
    array::FUNCTIONS,
    math::FUNCTIONS,
    integer::FUNCTIONS,
    date::FUNCTIONS,
    SPATIAL,
    search::FUNCTIONS,
];

/// Finds a function by its name in any case. Fails with the cause of the error.
pub(in crate::sql) fn find(name: &str) -> Result<NamedFunction, String> {
    let upper = name.to_ascii_uppercase();
    if let Some(aggregate) = Aggregate::named(&upper) {
        return Ok(NamedFunction::Aggregate(aggregate));
    }
    if let Some(function) = FAMILIES
        .into_iter()
        .flatten()
        .find(|known| known.name == upper)
    {
        return Ok(NamedFunction::Scalar(function));
    }
    Err(if upper.starts_with("ST_") && SPATIAL.is_empty() {
        format!("'{name}' needs the feature `spatial` of cdb-emulator.")
    } else {
        format!("'{name}' is not a recognized built-in function name.")
    })
}
