//! The functions by name.

use super::aggregate::Aggregate;
use super::call::Function;
use super::{array, date, integer, math, string, text_json, types};

/// A function that a query can name.
#[derive(Clone, Copy, Debug)]
pub(in crate::sql) enum Known {
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

/// What the service has and this emulator has not.
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

/// Finds a function by its name, whatever its case; or says why there is none.
pub(in crate::sql) fn find(name: &str) -> Result<Known, String> {
    let upper = name.to_ascii_uppercase();
    if let Some(aggregate) = Aggregate::named(&upper) {
        return Ok(Known::Aggregate(aggregate));
    }
    if let Some(function) = FAMILIES
        .into_iter()
        .flatten()
        .find(|known| known.name == upper)
    {
        return Ok(Known::Scalar(function));
    }
    let refused = |known: &str| upper == known || (known == "ST_" && upper.starts_with(known));
    Err(if REFUSED.into_iter().any(refused) {
        format!(
            "'{name}' is not supported by this emulator: it has no spatial, vector and full-text functions and no date formats."
        )
    } else {
        format!("'{name}' is not a recognized built-in function name.")
    })
}
