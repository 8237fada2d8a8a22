//! The clauses after FROM and WHERE, for queries and sub-queries: sort, group, project, DISTINCT,
//! OFFSET, TOP, LIMIT.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::ast::{Expr, Projection, Select, Source};
use super::context::Context;
use super::eval::Scope;
use super::function::Aggregate;
use super::value::{identity, order};
use crate::protocol::ServiceError;

type Rows<'a> = Result<Vec<Scope<'a>>, ServiceError>;

impl<'a> Scope<'a> {
    /// Returns the bindings that the joins of a query create from this one, and that meet its
    /// filter.
    pub(crate) fn matching(self, select: &'a Select) -> Rows<'a> {
        let mut found = Vec::new();
        for scope in self.joined(select)? {
            if scope.holds(select.filter.as_ref())? {
                found.push(scope);
            }
        }
        Ok(found)
    }

    /// Returns the bindings that the joins of a query create from this one.
    fn joined(self, select: &'a Select) -> Rows<'a> {
        let mut scopes = vec![self];
        for join in &select.joins {
            let mut next = Vec::new();
            for scope in scopes {
                for value in scope.sources(&join.source)? {
                    scope.context().spend(4)?;
                    next.push(scope.with(&join.alias, value));
                }
            }
            scopes = next;
        }
        Ok(scopes)
    }

    /// Returns the values of a source in FROM.
    fn sources(&self, source: &'a Source) -> Result<Vec<Value>, ServiceError> {
        let elements = |value: Option<Value>| match value {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        Ok(match source {
            Source::Value(expr) => self.owned(expr)?.into_iter().collect(),
            Source::Elements(expr) => elements(self.owned(expr)?),
            Source::Rows(select) => self.rows(select)?,
            Source::ElementsOfRows(select) => {
                let rows = self.rows(select)?.into_iter();
                rows.flat_map(|row| elements(Some(row))).collect()
            }
        })
    }

    /// Returns the rows of a sub-query.
    pub(super) fn rows(&self, select: &Select) -> Result<Vec<Value>, ServiceError> {
        let inner: Scope<'_> = self.clone();
        self.context().nested(|| {
            let scopes = inner.matching(select)?;
            finish(select, sort(select, scopes)?, self.context())
        })
    }

    /// Returns whether a sub-query has rows.
    pub(super) fn has_rows(&self, select: &Select) -> Result<bool, ServiceError> {
        Ok(!self.rows(select)?.is_empty())
    }
}

/// Sorts rows by the keys of a query. The sort is stable.
pub(crate) fn sort<'a>(select: &Select, scopes: Vec<Scope<'a>>) -> Rows<'a> {
    if select.order_by.is_empty() {
        return Ok(scopes);
    }
    let mut keyed = Vec::with_capacity(scopes.len());
    for scope in scopes {
        let mut keys = Vec::with_capacity(select.order_by.len());
        for item in &select.order_by {
            keys.push(scope.owned(&item.expr)?);
        }
        keyed.push((keys, scope));
    }
    keyed.sort_by(|(a, _), (b, _)| by_keys(select, a, b));
    Ok(keyed.into_iter().map(|(_, scope)| scope).collect())
}

/// Sorts rows by the keys of a query and leaves out the rows that lack a key.
pub(crate) fn sort_defined<'a>(select: &Select, scopes: Vec<Scope<'a>>) -> Rows<'a> {
    let mut defined = Vec::with_capacity(scopes.len());
    for scope in scopes {
        let mut has_keys = true;
        for item in &select.order_by {
            has_keys &= scope.eval(&item.expr)?.is_some();
        }
        if has_keys {
            defined.push(scope);
        }
    }
    sort(select, defined)
}

fn by_keys(select: &Select, a: &[Option<Value>], b: &[Option<Value>]) -> Ordering {
    let keys = a.iter().zip(b).zip(&select.order_by);
    keys.map(|((a, b), item)| {
        let order = order(a.as_ref(), b.as_ref());
        if item.descending {
            order.reverse()
        } else {
            order
        }
    })
    .find(|order| order.is_ne())
    .unwrap_or(Ordering::Equal)
}

/// Groups, projects, deduplicates and limits sorted rows.
pub(crate) fn finish<'a>(
    select: &Select,
    scopes: Vec<Scope<'a>>,
    context: &'a Context,
) -> Result<Vec<Value>, ServiceError> {
    let mut rows = Vec::new();
    for scope in grouped(select, scopes, context)? {
        rows.extend(scope.project(select)?);
    }
    if select.distinct {
        let mut seen = HashSet::new();
        rows.retain(|row| seen.insert(identity(Some(row))));
    }
    let offset = number(select.offset.as_ref(), context.parameters())?.unwrap_or(0);
    let most = most(select, context.parameters())?;
    Ok(rows.into_iter().skip(offset).take(most).collect())
}

/// Returns the aggregate and its argument if the query returns nothing else.
pub(crate) fn only_aggregate(select: &Select) -> Option<(Aggregate, &Expr)> {
    let edges = [&select.top, &select.offset, &select.limit];
    match &select.projection {
        Projection::Value(Expr::Aggregate(aggregate, of))
            if select.group_by.is_empty() && edges.into_iter().all(Option::is_none) =>
        {
            Some((*aggregate, of))
        }
        _ => None,
    }
}

/// Returns the maximum number of rows by TOP and LIMIT.
pub(crate) fn most(
    select: &Select,
    parameters: &HashMap<String, Value>,
) -> Result<usize, ServiceError> {
    let top = number(select.top.as_ref(), parameters)?;
    let limit = number(select.limit.as_ref(), parameters)?;
    Ok(top.into_iter().chain(limit).min().unwrap_or(usize::MAX))
}

/// Returns the number in a clause such as `TOP @n`.
pub(crate) fn number(
    expr: Option<&Expr>,
    parameters: &HashMap<String, Value>,
) -> Result<Option<usize>, ServiceError> {
    let value = match expr {
        None => return Ok(None),
        Some(Expr::Literal(value)) => Some(value),
        Some(Expr::Parameter(name)) => parameters.get(name),
        Some(_) => None,
    };
    let number = value.and_then(|value| usize::try_from(value.as_u64()?).ok());
    number.map(Some).ok_or_else(|| {
        ServiceError::bad_request("TOP, OFFSET and LIMIT require non-negative integers.")
    })
}

/// Returns the rows unchanged, or one row per group.
fn grouped<'a>(select: &Select, scopes: Vec<Scope<'a>>, context: &'a Context) -> Rows<'a> {
    if select.group_by.is_empty() {
        if select.aggregates() {
            return Ok(vec![Scope::grouped(scopes, context)]);
        }
        return Ok(scopes);
    }
    let mut groups: Vec<Vec<Scope<'a>>> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    for scope in scopes {
        context.begin_row();
        let mut key = String::new();
        for expr in &select.group_by {
            key.push_str(&identity(scope.eval(expr)?.as_deref()));
            key.push(' ');
        }
        let at = *known.entry(key).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[at].push(scope);
    }
    let groups = groups.into_iter();
    Ok(groups.map(|rows| Scope::grouped(rows, context)).collect())
}
