//! Rewritten queries for physical partitions. They return the requested rows and the values that
//! the merge needs.

use crate::protocol::ServiceError;
use crate::sql::Aggregate;
use crate::sql::ast::{Binary, Expr, OrderItem, Projection, Select};

/// The placeholder that a client replaces by its condition on the remaining rows, or by `true`.
const FILTER: &str = "({documentdb-formattableorderbyquery-filter})";

/// The rows that a query returns at most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    pub(super) top: Option<u64>,
    /// Offset and limit.
    pub(super) window: Option<(u64, u64)>,
}

/// Rewrites a query with aggregates or groups: each partition returns partial results.
pub(super) fn folded(select: &Select) -> Select {
    let payload = match &select.projection {
        Projection::Value(Expr::Aggregate(aggregate, of)) => {
            Expr::Array(vec![partial(*aggregate, of)])
        }
        _ => payload(select),
    };
    let projection = if !select.group_by.is_empty() {
        let groups = select.group_by.iter();
        Projection::List(vec![
            ("groupByItems".to_owned(), items(groups)),
            ("payload".to_owned(), payload),
        ])
    } else if matches!(select.projection, Projection::Value(_)) {
        Projection::Value(payload)
    } else {
        Projection::List(vec![("payload".to_owned(), payload)])
    };
    Select {
        distinct: false,
        projection,
        order_by: Vec::new(),
        ..cut(select, Bounds::default())
    }
}

/// Rewrites a query with `ORDER BY`: each row comes with the values that it is sorted by.
pub(super) fn sorted(select: &Select, bounds: Bounds) -> Result<Select, ServiceError> {
    if select.alias.is_empty() {
        return Err(ServiceError::bad_request(
            "A sort over an array of each document cannot be merged across partitions.",
        ));
    }
    let filter = fresh_or_resumed(select);
    let defined = match &select.projection {
        Projection::Value(value) => Some(verbatim(format!("IS_DEFINED({value})"))),
        _ => None,
    };
    let filter = filter.into_iter().chain(defined).reduce(and);
    let document = Expr::Name(select.alias.clone());
    let rid = Expr::Member(document.into(), Expr::Literal("_rid".into()).into());
    let keys = items(select.order_by.iter().map(|OrderItem { expr, .. }| expr));
    Ok(Select {
        distinct: false,
        projection: Projection::List(vec![
            ("_rid".to_owned(), rid),
            ("orderByItems".to_owned(), keys),
            ("payload".to_owned(), payload(select)),
        ]),
        filter,
        ..cut(select, bounds)
    })
}

/// Returns the filter of a query with the placeholder. A sort by vectors has it too (.NET client,
/// `QueryPlanBaselineTests.VectorSearch.xml`).
pub(super) fn fresh_or_resumed(select: &Select) -> Option<Expr> {
    let filter = select.filter.clone();
    filter.into_iter().chain([verbatim(FILTER)]).reduce(and)
}

/// Rewrites a query with `OFFSET`, or with `TOP` and `DISTINCT`: each partition returns all rows
/// that the merge can need.
pub(super) fn cut(select: &Select, bounds: Bounds) -> Select {
    let number = |number: u64| Expr::Literal(number.into());
    let Bounds { top, window } = bounds;
    Select {
        top: top.map(number),
        offset: window.map(|_| number(0)),
        limit: window.map(|(offset, limit)| number(offset.saturating_add(limit))),
        ..select.clone()
    }
}

/// An expression that is only printed, as this text.
pub(super) fn verbatim(text: impl Into<String>) -> Expr {
    Expr::Name(text.into())
}

fn and(left: Expr, right: Expr) -> Expr {
    Expr::Binary(left.into(), Binary::And, right.into())
}

pub(super) fn object<const N: usize>(fields: [(&str, Expr); N]) -> Expr {
    let fields = fields.map(|(name, value)| (name.to_owned(), value));
    Expr::Object(fields.into())
}

/// Puts each value into an object of its own: an undefined value leaves its object empty and the
/// array as long as before.
pub(super) fn items<'a>(expressions: impl Iterator<Item = &'a Expr>) -> Expr {
    Expr::Array(
        expressions
            .map(|expr| object([("item", expr.clone())]))
            .collect(),
    )
}

/// The row of the original query as one value.
pub(super) fn payload(select: &Select) -> Expr {
    match &select.projection {
        Projection::Star => {
            let bound = select
                .joins
                .last()
                .map_or(&select.alias, |join| &join.alias);
            Expr::Name(bound.clone())
        }
        Projection::Value(value) => value.clone(),
        Projection::List(fields) => {
            let fields = fields.iter().map(|(name, expr)| {
                let value = match expr {
                    Expr::Aggregate(aggregate, of) => partial(*aggregate, of),
                    other => other.clone(),
                };
                (name.clone(), value)
            });
            Expr::Object(fields.collect())
        }
    }
}

/// An aggregate over one partition, in a form that can be merged: an average needs its count, and a
/// smallest or largest value counts only if the partition has one.
fn partial(aggregate: Aggregate, of: &Expr) -> Expr {
    let fold = |aggregate| Expr::Aggregate(aggregate, of.clone().into());
    match aggregate {
        Aggregate::Avg => {
            let average = [
                ("sum", fold(Aggregate::Sum)),
                ("count", fold(Aggregate::Count)),
            ];
            object([("item", object(average))])
        }
        Aggregate::Min | Aggregate::Max => {
            let name = aggregate.name().to_ascii_lowercase();
            let counted = [(&*name, fold(aggregate)), ("count", fold(Aggregate::Count))];
            object([("item", fold(aggregate)), ("item2", object(counted))])
        }
        Aggregate::Count | Aggregate::CountIf | Aggregate::Sum => {
            object([("item", fold(aggregate))])
        }
    }
}
