//! The indexes that could serve a query. Which of them is the most selective depends on the data.

use crate::store::SqlValue;

use super::condition::Condition;
use super::order::{Candidate, Order};

/// An index that could serve a query.
#[derive(Debug)]
pub(crate) struct CandidateIndex {
    /// The order of its rows.
    pub(crate) order: Order,
    /// The part of the filter that the index answers.
    pub(crate) condition: String,
    pub(crate) parameters: Vec<SqlValue>,
}

impl CandidateIndex {
    /// Returns the candidates for an order; none if there is no choice, or if SQLite chooses the
    /// index.
    pub(super) fn of(
        order: &Order,
        candidates: &[Candidate],
        conditions: &[Condition],
    ) -> Vec<Self> {
        let mut others = candidates.iter();
        let choice = others.any(|candidate| candidate.order.index() != order.index());
        if !choice || !order.has_index() {
            return Vec::new();
        }
        let indexes = candidates
            .iter()
            .map(|candidate| Self::new(candidate, conditions));
        indexes.collect()
    }

    /// Returns the name of the index.
    pub(crate) fn index(&self) -> &str {
        self.order.index().map_or("", String::as_str)
    }

    fn new(candidate: &Candidate, conditions: &[Condition]) -> Self {
        let narrows = |condition: &&Condition| {
            let mut paths = candidate.restricted_by.iter();
            paths.any(|path| path == condition.path())
        };
        let mut texts = Vec::new();
        let mut parameters = Vec::new();
        for condition in conditions.iter().filter(narrows) {
            texts.push(&*condition.text);
            parameters.extend_from_slice(&condition.parameters);
        }
        Self {
            order: candidate.order.clone(),
            condition: texts.join(" AND "),
            parameters,
        }
    }
}
