//! Reading a disjunction arm by arm: `a = 1 OR b = 2` has no index of its own, but each of its arms has one.
//!
//! So a query of everything that is due, in any of several queues, is as cheap as on the service, where a lookup in
//! every index gives a set and the sets are joined. A document that several arms find is given by the first of them.

use std::collections::HashMap;

use serde_json::Value;

use super::pushdown::{Pushdown, pushdown};
use crate::index_use::conjuncts;
use crate::sql::ast::{Binary, Expr, Select};

/// More arms are not read one by one: each is a scan of its own.
const MOST: usize = 16;

/// Plans a query, in one piece or in several that are read in order; `within_a_key` as in [`pushdown`].
pub(crate) fn pieces(
    select: &Select,
    parameters: &HashMap<String, Value>,
    policy: &Value,
    within_a_key: bool,
) -> Vec<Pushdown> {
    let whole = pushdown(select, parameters, policy, within_a_key);
    if within_a_key || whole.order.has_index() {
        return vec![whole];
    }
    arms(select, parameters, policy).unwrap_or_else(|| vec![whole])
}

/// The arms that a query is read by, if indexes of the policy serve all of them: of the first disjunction that all
/// rows have to meet. A query that asks for an order has to be read in one piece; with a join, one document can be in
/// several arms with different rows.
fn arms(
    select: &Select,
    parameters: &HashMap<String, Value>,
    policy: &Value,
) -> Option<Vec<Pushdown>> {
    let filter = select.filter.as_ref()?;
    if !select.order_by.is_empty() || !select.joins.is_empty() {
        return None;
    }
    let mut found = None;
    conjuncts(filter, &mut |expr| {
        if found.is_none() {
            found = each(&disjuncts(expr), select, filter, parameters, policy);
        }
    });
    found
}

fn each(
    disjuncts: &[&Expr],
    select: &Select,
    filter: &Expr,
    parameters: &HashMap<String, Value>,
    policy: &Value,
) -> Option<Vec<Pushdown>> {
    if disjuncts.len() < 2 || disjuncts.len() > MOST {
        return None;
    }
    let arms = disjuncts.iter().enumerate().map(|(at, arm)| {
        let both = Expr::Binary(
            Box::new((*arm).clone()),
            Binary::And,
            Box::new(filter.clone()),
        );
        let narrowed = Select {
            filter: Some(both),
            ..select.clone()
        };
        let mut plan = pushdown(&narrowed, parameters, policy, false);
        plan.given = disjuncts[..at].iter().map(|arm| (*arm).clone()).collect();
        plan.order.has_index().then_some(plan)
    });
    arms.collect()
}

/// Conditions of which one has to hold.
fn disjuncts(expr: &Expr) -> Vec<&Expr> {
    let mut open = vec![expr];
    let mut found = Vec::new();
    while let Some(expr) = open.pop() {
        if let Expr::Binary(left, Binary::Or, right) = expr {
            open.extend([&**right, &**left]);
        } else {
            found.push(expr);
        }
    }
    found
}
