//! Indexes each of which could serve a query that asks for no order. Which one narrows it most only the data can tell.

use rusqlite::types::Value as Sql;

use super::order::{Candidate, Order};
use super::pushdown::Condition;

/// One of several indexes that a query can be read by.
#[derive(Debug)]
pub(crate) struct Rival {
    /// The order that it gives.
    pub(crate) order: Order,
    /// What it answers of the filter by itself.
    pub(crate) condition: String,
    pub(crate) parameters: Vec<Sql>,
}

impl Rival {
    /// The rivals among some candidates, in their order; none where there is no choice.
    pub(super) fn among(candidates: &[Candidate], conditions: &[Condition]) -> Vec<Self> {
        if candidates.len() < 2 {
            return Vec::new();
        }
        let rivals = candidates
            .iter()
            .map(|candidate| Self::of(candidate, conditions));
        rivals.collect()
    }

    /// The index, by its name.
    pub(crate) fn index(&self) -> &str {
        self.order.index().map_or("", String::as_str)
    }

    fn of(candidate: &Candidate, conditions: &[Condition]) -> Self {
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
