//! The table of functions.

use super::aggregate::Aggregate;
use super::call::Function;
use super::{array, date, integer, math, string, text_json, types};

/// A function of the query language.
#[derive(Clone, Copy, Debug)]
pub(in crate::sql) enum NamedFunction {
    Scalar(&'static Function),
    Aggregate(Aggregate),
}

const FAMILIES: [&[Function]; 7] = [
    types::FUNCTIONS,
    string::FUNCTIONS,
    text_json::FUNCTIONS,
    array::FUNCTIONS,
    math::FUNCTIONS,
    integer::FUNCTIONS,
    date::FUNCTIONS,
];

/// Functions of the service that this emulator does not support.
const REFUSED: [&str; 8] = [
    "ST_",
    "VECTORDISTANCE",
    "FULLTEXTCONTAINS",
    "FULLTEXTCONTAINSALL",
    "FULLTEXTCONTAINSANY",
    "FULLTEXTSCORE",
    "RRF",
    "DATETIMEFORMAT",
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
    let refused = |known: &str| upper == known || (known == "ST_" && upper.starts_with(known));
    Err(if REFUSED.into_iter().any(refused) {
        format!(
            "'{name}' is not supported by this emulator: spatial, vector and full-text functions and date formats are missing."
        )
    } else {
        format!("'{name}' is not a recognized built-in function name.")
    })
}
