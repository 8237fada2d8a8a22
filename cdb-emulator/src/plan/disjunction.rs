//! Plans for disjunctions: no single index serves `a = 1 OR b = 2`, but each of its disjuncts can
//! have one.
//!
//! A query is then read in one piece per disjunct, each by its own index. The service looks into
//! all indexes and joins the results. A document that meets several disjuncts is returned by the
//! first piece.

use std::collections::HashMap;

use serde_json::Value;

use super::pushdown::{Pushdown, pushdown};
use crate::index_use::conjuncts;
use crate::sql::ast::{Binary, Expr, Select};
use crate::store::Policy;

/// Maximum number of disjuncts: each of them is a scan.
const MOST: usize = 16;

/// Plans a query, in one piece or in several that are read in order; `within_a_key` as in
/// [`pushdown`].
pub(crate) fn pieces<'q>(
    select: &'q Select,
    parameters: &HashMap<String, Value>,
    policy: &Policy,
    within_a_key: bool,
) -> Vec<Pushdown<'q>> {
    let filter: Vec<&Expr> = select.filter.iter().collect();
    let whole = pushdown((select, &filter), parameters, policy, within_a_key);
    if within_a_key || whole.order.has_index() {
        return vec![whole];
    }
    by_disjunct(select, parameters, policy).unwrap_or_else(|| vec![whole])
}

/// Returns one piece per disjunct of a conjunct of the filter, if an index serves each of them. A
/// query with a sort has to be read in one piece. With a join, a document can meet several
/// disjuncts with different rows.
fn by_disjunct<'q>(
    select: &'q Select,
    parameters: &HashMap<String, Value>,
    policy: &Policy,
) -> Option<Vec<Pushdown<'q>>> {
    let filter = select.filter.as_ref()?;
    if !select.order_by.is_empty() || !select.joins.is_empty() {
        return None;
    }
    let mut found = None;
    conjuncts(filter, &mut |expr| {
        if found.is_none() {
            found = pieces_of(&disjuncts(expr), (select, filter), parameters, policy);
        }
    });
    found
}

fn pieces_of<'q>(
    disjuncts: &[Vec<&'q Expr>],
    (select, filter): (&Select, &'q Expr),
    parameters: &HashMap<String, Value>,
    policy: &Policy,
) -> Option<Vec<Pushdown<'q>>> {
    if disjuncts.len() < 2 || disjuncts.len() > MOST {
        return None;
    }
    let pieces = disjuncts.iter().enumerate().map(|(at, disjunct)| {
        let filters: Vec<&Expr> = disjunct.iter().copied().chain([filter]).collect();
        let mut plan = pushdown((select, &filters), parameters, policy, false);
        plan.excluded = disjuncts[..at].to_vec();
        plan.order.has_index().then_some(plan)
    });
    pieces.collect()
}

/// Splits a condition into its disjuncts, each a conjunction. `a AND (b OR c)` has the disjuncts
/// `a AND b` and `a AND c`, unless there would be too many.
fn disjuncts(expr: &Expr) -> Vec<Vec<&Expr>> {
    let Expr::Binary(left, operator @ (Binary::Or | Binary::And), right) = expr else {
        return vec![vec![expr]];
    };
    let (mut left, right) = (disjuncts(left), disjuncts(right));
    if *operator == Binary::Or {
        left.extend(right);
        return left;
    }
    if left.len() * right.len() == 1 || left.len() * right.len() > MOST {
        return vec![vec![expr]];
    }
    let pairs = left.iter().flat_map(|left| {
        let both = |right: &Vec<_>| [&**left, right].concat();
        right.iter().map(both)
    });
    pairs.collect()
}
