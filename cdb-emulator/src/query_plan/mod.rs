//! The plan that a client asks for before it runs a query over several physical partitions: what it has to merge, the
//! query that each partition is to run, and which partitions hold results.
//!
//! Forms are those of the service's plans in the .NET client's tests (`QueryPlanBaselineTests.*.xml`), except that the
//! rewritten query quotes the original text where the service prints it anew.

mod ranges;
mod rewrite;

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::error::ServiceError;
use crate::sql::ast::{Expr, Projection, Select};
use crate::sql::clauses::{Clauses, Item, clauses};
use crate::sql::{self, rows};
use ranges::Ranges;

/// An aggregate by the name that plans have for it.
const OPERATORS: [(&str, &str); 5] = [
    ("AVG", "Average"),
    ("COUNT", "Count"),
    ("MAX", "Max"),
    ("MIN", "Min"),
    ("SUM", "Sum"),
];

/// The query of a plan request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a> {
    pub(crate) text: &'a str,
    pub(crate) parameters: &'a HashMap<String, Value>,
    /// Paths of the container's partition key.
    pub(crate) key: &'a [String],
}

/// A plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryPlan {
    distinct: &'static str,
    top: Option<u64>,
    /// Offset and limit.
    window: Option<(u64, u64)>,
    order_by: Vec<&'static str>,
    order_by_expressions: Vec<String>,
    group_by_expressions: Vec<String>,
    /// Aliases of a query that groups, each with its aggregate.
    aliases: Vec<(String, Option<&'static str>)>,
    aggregates: Vec<&'static str>,
    has_select_value: bool,
    rewritten: String,
    ranges: Ranges,
}

impl QueryPlan {
    /// Plans a query.
    pub(crate) fn of(query: Query<'_>) -> Result<Self, ServiceError> {
        let select = sql::parse(query.text)?;
        let text = clauses(query.text)?;
        let ranges = ranges::of(&select, query);
        let mut plan = Self {
            distinct: distinct(&select, &text),
            top: number(select.top.as_ref(), query)?,
            window: number(select.offset.as_ref(), query)?
                .zip(number(select.limit.as_ref(), query)?),
            has_select_value: matches!(select.projection, Projection::Value(_)),
            ranges,
            ..Self::default()
        };
        plan.fold(&select, &text)?;
        // One partition key is in one partition, which does all of this by itself.
        let merges = plan.folds() || plan.distinct != "None";
        if merges || !plan.ranges.are_one_point() {
            plan.sort(&select, &text);
            plan.rewritten = rewrite::rewrite(&plan, &select, &text)?;
        } else {
            plan.window = None;
        }
        Ok(plan)
    }

    /// Whether rows are folded: grouped or aggregated.
    fn folds(&self) -> bool {
        !self.aggregates.is_empty()
            || !self.aliases.is_empty()
            || !self.group_by_expressions.is_empty()
    }

    fn fold(&mut self, select: &Select, text: &Clauses<'_>) -> Result<(), ServiceError> {
        let mut operators = Vec::with_capacity(text.projection.len());
        for item in &text.projection {
            operators.push(operator(item));
        }
        let pure = operators.iter().flatten().count();
        let folded = match &select.projection {
            Projection::Star => 0,
            Projection::Value(expr) => usize::from(expr.has_aggregate()),
            Projection::List(fields) => fields
                .iter()
                .filter(|(_, expr)| expr.has_aggregate())
                .count(),
        };
        if folded > pure {
            return Err(ServiceError::bad_request(
                "Compositions of aggregates and other expressions are not allowed.",
            ));
        }
        if folded == 0 && select.group_by.is_empty() {
            return Ok(());
        }
        self.group_by_expressions = text.group_by.iter().map(|&expr| expr.to_owned()).collect();
        match &select.projection {
            Projection::Star => {
                return Err(ServiceError::bad_request(
                    "'SELECT *' is not allowed with GROUP BY.",
                ));
            }
            Projection::Value(_) => self.aggregates = operators.into_iter().flatten().collect(),
            Projection::List(fields) => {
                let names = fields.iter().map(|(name, _)| name.clone());
                self.aliases = names.zip(operators).collect();
            }
        }
        Ok(())
    }

    fn sort(&mut self, select: &Select, text: &Clauses<'_>) {
        if self.folds() {
            return;
        }
        let directions = select.order_by.iter().map(|item| item.descending);
        self.order_by = directions
            .map(|descending| {
                if descending {
                    "Descending"
                } else {
                    "Ascending"
                }
            })
            .collect();
        if let Some((_, expressions)) = &text.order_by {
            self.order_by_expressions = expressions.iter().map(|&expr| expr.to_owned()).collect();
        }
    }

    /// What a client must be able to do to run this plan, by the names of `x-ms-cosmos-supported-query-features`.
    pub(crate) fn features(&self) -> Vec<&'static str> {
        let named = self
            .aliases
            .iter()
            .filter(|(_, operator)| operator.is_some());
        let folded = self.aggregates.len() + named.count();
        let needs = [
            (folded == 1 && self.has_select_value, "Aggregate"),
            (self.distinct != "None", "Distinct"),
            (!self.group_by_expressions.is_empty(), "GroupBy"),
            (folded > 1, "MultipleAggregates"),
            (self.order_by.len() > 1, "MultipleOrderBy"),
            (self.window.is_some(), "OffsetAndLimit"),
            (self.order_by.len() == 1, "OrderBy"),
            (self.top.is_some(), "Top"),
            (
                folded > 1 || folded == 1 && !self.has_select_value,
                "NonValueAggregate",
            ),
        ];
        let needed = needs.into_iter().filter(|(needed, _)| *needed);
        needed.map(|(_, feature)| feature).collect()
    }

    /// As it is answered.
    pub(crate) fn to_json(&self) -> Value {
        let aliases: Vec<&str> = self.aliases.iter().map(|(alias, _)| &**alias).collect();
        let types: Map<String, Value> = self
            .aliases
            .iter()
            .map(|(alias, operator)| (alias.clone(), json!(operator)))
            .collect();
        json!({
            "partitionedQueryExecutionInfoVersion": 2,
            "queryInfo": {
                "distinctType": self.distinct,
                "top": self.top,
                "offset": self.window.map(|(offset, _)| offset),
                "limit": self.window.map(|(_, limit)| limit),
                "orderBy": self.order_by,
                "orderByExpressions": self.order_by_expressions,
                "groupByExpressions": self.group_by_expressions,
                "groupByAliases": aliases,
                "aggregates": self.aggregates,
                "groupByAliasToAggregateType": types,
                "rewrittenQuery": self.rewritten,
                "hasSelectValue": self.has_select_value,
                "hasNonStreamingOrderBy": false,
                "dCountInfo": null,
            },
            "queryRanges": self.ranges.to_json(),
        })
    }
}

/// The aggregate that an expression is.
fn operator(item: &Item<'_>) -> Option<&'static str> {
    let (name, _) = item.call.as_ref()?;
    let known = OPERATORS.iter().find(|(function, _)| function == name);
    known.map(|(_, operator)| *operator)
}

/// Equal rows are neighbours only when the value that is returned is the one that is sorted by.
fn distinct(select: &Select, text: &Clauses<'_>) -> &'static str {
    let sorted = text
        .order_by
        .as_ref()
        .map(|(_, expressions)| &**expressions);
    match (&select.projection, &*text.projection) {
        _ if !select.distinct => "None",
        (Projection::Value(_), _) if text.from.is_none() => "None",
        (Projection::Value(_), [item]) if sorted == Some(&[item.text]) => "Ordered",
        _ => "Unordered",
    }
}

/// A number that a clause names, such as `TOP @n`.
fn number(expr: Option<&Expr>, query: Query<'_>) -> Result<Option<u64>, ServiceError> {
    let number = rows::number(expr, query.parameters)?;
    Ok(number.and_then(|number| u64::try_from(number).ok()))
}

#[cfg(test)]
mod tests;
