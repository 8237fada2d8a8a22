//! The part of a query that the store evaluates: conditions on paths and their value types, and an
//! order.
//!
//! The condition may let too many rows through, but never too few: every row is evaluated again. A
//! condition that no index of the policy answers is not pushed down, so that the store returns the
//! documents that the service would load.

use std::collections::HashMap;

use crate::store::{Policy, SqlValue};
use serde_json::Value;

use super::condition::{Fixed, comparison};
use super::index_use::{conjuncts, is_served};
use super::order::Order;
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
    pub(crate) order: Order,
}

impl<'q> Pushdown<'q> {
    /// Plans a query; `within_a_key` when all rows have the same partition key.
    pub(crate) fn of(
        select: &'q Select,
        parameters: &HashMap<String, Value>,
        policy: &Policy,
        within_a_key: bool,
    ) -> Self {
        let mut found = Self {
            condition: "1".to_owned(),
            parameters: Vec::new(),
            exact: false,
            served: Vec::new(),
            order: Order::default(),
        };
        // A name in FROM can hide the document, and a row of a derived table is not a document.
        let hidden = select.joins.iter().any(|join| join.alias == select.alias);
        if hidden || select.derived.is_some() || select.alias.is_empty() {
            return found;
        }
        found.exact = select.joins.is_empty();
        let mut fixed = found.add_conditions(select, parameters, policy);
        // Of two conditions on a path, the equality comes first.
        fixed.sort_by_key(|known| !known.equal);
        // A sort returns documents without its path too, as the smallest: order-by, "Documents with missing
        // fields", since June 2022 (eclipse-edc/Connector#1512 against the service).
        found.order = if select.order_by.is_empty() {
            Order::narrowing(&fixed, policy)
        } else {
            Order::sorting(select, &fixed, policy)
        };
        if within_a_key {
            found.order = found.order.within_a_key(select);
        }
        found
    }

    /// Adds the conditions that the store evaluates. Returns the paths whose type or value they fix.
    fn add_conditions(
        &mut self,
        select: &'q Select,
        parameters: &HashMap<String, Value>,
        policy: &Policy,
    ) -> Vec<Fixed> {
        let mut fixed = Vec::new();
        let mut place = 0;
        let Some(filter) = &select.filter else {
            return fixed;
        };
        conjuncts(filter, &mut |expr| {
            let here = place;
            place += 1;
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
            self.parameters.extend(condition.parameters);
            fixed.extend(condition.fixed.map(|found| Fixed {
                place: here,
                ..found
            }));
        });
        fixed
    }
}
