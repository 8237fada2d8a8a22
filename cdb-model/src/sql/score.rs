//! The scores of a search.

use serde_json::Value;

use super::value_error::ValueError;
use crate::shape::Direction;

/// One score.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RankTerm {
    pub(crate) pointer: &'static str,
    pub(crate) score: Score,
    /// The weight in a fusion.
    pub(crate) weight: Option<f64>,
    pub(crate) direction: Direction,
    /// A vector that cannot be searched for.
    pub(crate) invalid: Option<ValueError>,
}

impl RankTerm {
    /// Returns why the score cannot be computed.
    pub(crate) fn error(&self) -> Option<ValueError> {
        let has_weight = self.weight.is_none_or(f64::is_finite);
        self.invalid.clone().or_else(|| {
            (!has_weight).then(|| ValueError {
                path: self.pointer,
                reason: "its weight is not finite".to_owned(),
            })
        })
    }
}

/// How a document is scored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Score {
    /// By the distance of its vector to this one.
    Distance(Value),
    /// By the frequency of these words and phrases (BM25).
    Words(Vec<String>),
}
