//! What the store answers of a query: conditions on paths, each with the type that its value has.
//!
//! Conditions here may let too much through, never too little: every row is judged again. One that no index of the
//! policy answers is not passed on at all, so that what the store hands out is what the service would have to load.

use std::collections::HashMap;

use crate::store::SqlValue;
use serde_json::Value;

use super::candidate_indexes::CandidateIndex;
use super::condition::{Condition, Fixed, comparison};
use super::order::{Order, leaves_out_missing};
use crate::index_use::{conjuncts, is_served};
use crate::sql::ast::{Expr, Select};
use crate::store::json_rank;

/// The part of a query that the store answers: a condition that every result meets, and an order.
#[derive(Debug)]
pub(crate) struct Pushdown {
    pub(crate) condition: String,
    pub(crate) parameters: Vec<SqlValue>,
    /// Whether the condition is the whole filter, so that every row that meets it is a result.
    pub(crate) exact: bool,
    /// Conditions that an index answers on the service but the store does not: what fails them was never loaded.
    pub(crate) judged: Vec<Expr>,
    /// Conditions whose documents were given before.
    pub(crate) given: Vec<Expr>,
    pub(crate) order: Order,
    /// The indexes that the query could be read by, those first that [`order`](Self::order) would choose; none where
    /// there is no choice.
    pub(crate) candidates: Vec<CandidateIndex>,
}

/// Plans a query in one piece; `within_a_key` when all rows have the same partition key.
pub(crate) fn pushdown(
    select: &Select,
    parameters: &HashMap<String, Value>,
    policy: &Value,
    within_a_key: bool,
) -> Pushdown {
    let mut found = Pushdown {
        condition: "1".to_owned(),
        parameters: Vec::new(),
        exact: false,
        judged: Vec::new(),
        given: Vec::new(),
        order: Order::default(),
        candidates: Vec::new(),
    };
    // A name in FROM can hide the document's, and a row of a derived table is no document.
    let hidden = select.joins.iter().any(|join| join.alias == select.alias);
    if hidden || select.derived.is_some() || select.alias.is_empty() {
        return found;
    }
    found.exact = select.joins.is_empty();
    let conditions = found.conditions(select, parameters, policy);
    let fixed = conditions.iter().filter_map(|known| known.fixed.clone());
    let mut fixed: Vec<Fixed> = fixed.collect();
    // Of two conditions on a path the one that fixes more is found first.
    fixed.sort_by_key(|known| !known.equal);
    if let Some(path) = leaves_out_missing(select, policy) {
        found.condition = format!("{} AND {} > 0", found.condition, json_rank(&path));
    }
    let mut candidates = Order::narrowing(&fixed, policy);
    found.order = if select.order_by.is_empty() {
        let best = candidates.first();
        best.map_or_else(Order::default, |best| best.order.clone())
    } else {
        let order = Order::sorting(select, &fixed, policy);
        for candidate in &mut candidates {
            candidate.order = order.clone().by_a_sort(&candidate.order);
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

impl Pushdown {
    /// Takes over what the store can answer of the filter, and returns it condition by condition.
    fn conditions(
        &mut self,
        select: &Select,
        parameters: &HashMap<String, Value>,
        policy: &Value,
    ) -> Vec<Condition> {
        let mut conditions: Vec<Condition> = Vec::new();
        let Some(filter) = &select.filter else {
            return conditions;
        };
        conjuncts(filter, &mut |expr| {
            let served = is_served(expr, select, policy);
            let known = comparison(expr, &select.alias, parameters);
            let Some(condition) = known.filter(|_| served) else {
                self.exact = false;
                self.judged.extend(served.then(|| expr.clone()));
                return;
            };
            self.condition.push_str(" AND ");
            self.condition.push_str(&condition.text);
            self.exact &= condition.exact;
            self.parameters.extend_from_slice(&condition.parameters);
            conditions.push(condition);
        });
        conditions
    }
}
