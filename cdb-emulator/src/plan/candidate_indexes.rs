//! Indexes by each of which a query could be read. Which one narrows it most only the data can tell.

use crate::store::SqlValue;

use super::condition::Condition;
use super::order::{Candidate, Order};

/// One of several indexes that a query can be read by.
#[derive(Debug)]
pub(crate) struct CandidateIndex {
    /// The order that it gives.
    pub(crate) order: Order,
    /// What it answers of the filter by itself.
    pub(crate) condition: String,
    pub(crate) parameters: Vec<SqlValue>,
}

impl CandidateIndex {
    /// The rivals of an order among some candidates; none where there is no choice. An order without an index is SQLite's.
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
        let rivals = candidates
            .iter()
            .map(|candidate| Self::new(candidate, conditions));
        rivals.collect()
    }

    /// The index, by its name.
    pub(crate) fn index(&self) -> &str {
        self.order.index().map_or("", String::as_str)
    }

    fn new(candidate: &Candidate, conditions: &[Condition]) -> Self {
        let narrows = |condition: &&Condition| {
            let mut paths = candidate.narrowed.iter();
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
