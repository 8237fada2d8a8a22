//! The part of a query that the store evaluates: conditions on paths and their value types, and an
//! order.
//!
//! The condition may let too many rows through, but never too few: every row is evaluated again. A
//! condition that no index of the policy answers is not pushed down, so that the store returns the
//! documents that the service would load.

use std::collections::HashMap;

use crate::store::{Policy, SqlValue};
use serde_json::Value;

use super::candidate_indexes::CandidateIndex;
use super::condition::{Condition, Fixed, comparison};
use super::order::{Order, excludes_missing};
use crate::index_use::{conjuncts, is_served};
use crate::sql::ast::{Expr, Select};

/// The part of a query that the store evaluates.
#[derive(Debug)]
pub(crate) struct Pushdown<'q> {
    /// A condition that every result meets.
    pub(crate) condition: String,
    pub(crate) parameters: Vec<SqlValue>,
    /// Whether the condition is equivalent to the whole filter.
    pub(crate) exact: bool,
    /// Conditions that an index answers on the service but not here. Documents that do not meet
    /// them do not count as loaded.
    pub(crate) served: Vec<&'q Expr>,
    /// The conditions of each earlier piece, which has returned the documents that meet all of them.
    pub(crate) excluded: Vec<Vec<&'q Expr>>,
    pub(crate) order: Order,
    /// The indexes that could serve the query, the index of [`order`](Self::order) first; empty if
    /// there is no choice.
    pub(crate) candidates: Vec<CandidateIndex>,
}

/// Plans a query in one piece whose filter is the conjunction of `filters`; `within_a_key` when all
/// rows have the same partition key.
pub(crate) fn pushdown<'q>(
    (select, filters): (&Select, &[&'q Expr]),
    parameters: &HashMap<String, Value>,
    policy: &Policy,
    within_a_key: bool,
) -> Pushdown<'q> {
    let mut found = Pushdown {
        condition: "1".to_owned(),
        parameters: Vec::new(),
        exact: false,
        served: Vec::new(),
        excluded: Vec::new(),
        order: Order::default(),
        candidates: Vec::new(),
    };
    // A name in FROM can hide the document, and a row of a derived table is not a document.
    let hidden = select.joins.iter().any(|join| join.alias == select.alias);
    if hidden || select.derived.is_some() || select.alias.is_empty() {
        return found;
    }
    found.exact = select.joins.is_empty();
    let conditions = found.conditions((select, filters), parameters, policy);
    let fixed = conditions.iter().filter_map(|known| known.fixed.clone());
    let mut fixed: Vec<Fixed> = fixed.collect();
    // Of two conditions on a path, the equality comes first.
    fixed.sort_by_key(|known| !known.equal);
    if let Some(path) = excludes_missing(select, policy) {
        found.condition = format!(
            "{} AND {} > 0",
            found.condition,
            policy.path_keys(path).rank
        );
    }
    let mut candidates = Order::narrowing(&fixed, policy);
    found.order = if select.order_by.is_empty() {
        let best = candidates.first();
        best.map_or_else(Order::default, |best| best.order.clone())
    } else {
        let order = Order::sorting(select, &fixed, policy);
        for candidate in &mut candidates {
            candidate.order = order.clone().sorted_from(&candidate.order);
        }
        order
    };
    found.candidates = CandidateIndex::of(&found.order, &candidates, &conditions);
    if within_a_key {
        found.candidates.clear();
        found.order = found.order.within_a_key(select);
    }
    found
}

impl<'q> Pushdown<'q> {
    /// Adds the conditions that the store evaluates, and returns them.
    fn conditions(
        &mut self,
        (select, filters): (&Select, &[&'q Expr]),
        parameters: &HashMap<String, Value>,
        policy: &Policy,
    ) -> Vec<Condition> {
        let mut conditions: Vec<Condition> = Vec::new();
        let mut add = |expr: &'q Expr| {
            let is_served = is_served(expr, select, policy);
            let known = comparison(expr, &select.alias, parameters, policy);
            let Some(condition) = known.filter(|_| is_served) else {
                self.exact = false;
                self.served.extend(is_served.then_some(expr));
                return;
            };
            self.condition.push_str(" AND ");
            self.condition.push_str(&condition.text);
            self.exact &= condition.exact;
            self.parameters.extend_from_slice(&condition.parameters);
            conditions.push(condition);
        };
        for filter in filters {
            conjuncts(filter, &mut add);
        }
        conditions
    }
}
