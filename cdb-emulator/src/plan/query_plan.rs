//! A plan and its JSON.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::allowed::check_gateway;
use super::bind::set_directions;
use super::hybrid::Hybrid;
use super::key_ranges::KeyRanges;
use super::rewrite::{Bounds, cut, folded, sorted};
use crate::protocol::ServiceError;
use crate::sql::ast::{Expr, Projection, Select};
use crate::sql::{self, Aggregate, rows};
use crate::store::partitions::epk::Version;

/// What a plan for a client depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlanInput<'a> {
    pub(crate) text: &'a str,
    pub(crate) parameters: &'a HashMap<String, Value>,
    /// Paths of the container's partition key.
    pub(crate) key: &'a [String],
    /// Version of the partition key.
    pub(crate) version: Version,
    /// The definition of the container.
    pub(crate) definition: &'a Value,
}

/// A plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueryPlan {
    pub(super) distinct: &'static str,
    bounds: Bounds,
    order_by: Vec<&'static str>,
    order_by_expressions: Vec<String>,
    group_by_expressions: Vec<String>,
    /// Aliases of a query that groups, each with its aggregate.
    aliases: Vec<(String, Option<&'static str>)>,
    aggregates: Vec<&'static str>,
    has_select_value: bool,
    /// The name of a count of distinct rows; empty with `VALUE`.
    distinct_count: Option<String>,
    /// Whether clients sort the rows of all partitions in memory: a sort by vectors.
    has_unindexed_sort: bool,
    /// The plan of `ORDER BY RANK`.
    hybrid: Option<Hybrid>,
    pub(super) rewritten: String,
    ranges: KeyRanges,
}

impl QueryPlan {
    /// Plans a query.
    pub(crate) fn of(query: PlanInput<'_>) -> Result<Self, ServiceError> {
        let mut select = sql::parse(query.text)?;
        set_directions(&mut select, query.definition);
        if let Some(derived) = &select.derived
            && check_gateway(derived).is_err()
        {
            return Self::of_distinct_count(&select, derived);
        }
        let number = |expr: &Option<Expr>| -> Result<Option<u64>, ServiceError> {
            let number = rows::number(expr.as_ref(), query.parameters)?;
            Ok(number.and_then(|number| u64::try_from(number).ok()))
        };
        let mut plan = Self {
            distinct: distinct(&select),
            bounds: Bounds {
                top: number(&select.top)?,
                window: number(&select.offset)?.zip(number(&select.limit)?),
            },
            has_select_value: matches!(select.projection, Projection::Value(_)),
            ranges: KeyRanges::of(&select, query.parameters, query.key, query.version),
            ..Self::default()
        };
        if select.rank {
            plan.hybrid = Some(Hybrid::of(&select, query.definition, &plan.bounds)?);
            return Ok(plan);
        }
        plan.fold(&select)?;
        // A query of one partition key runs in one partition, which needs no merge for a sort or a
        // window.
        if plan.folds() || plan.distinct != "None" || !plan.ranges.are_one_point() {
            plan.sort(&select);
            plan.rewritten = plan
                .rewrite(&select)?
                .map_or_else(String::new, |select| select.to_string());
        } else {
            plan.bounds.window = None;
        }
        Ok(plan)
    }

    /// Plans `SELECT COUNT(1) FROM (SELECT DISTINCT …)`: the client counts the distinct rows of all
    /// partitions. Other queries over folded rows cannot be merged.
    fn of_distinct_count(select: &Select, derived: &Select) -> Result<Self, ServiceError> {
        let plain = Select {
            distinct: false,
            ..derived.clone()
        };
        let refused = || {
            ServiceError::bad_request(
                "A query over a sub-query with DISTINCT, GROUP BY, TOP, OFFSET, ORDER BY or an aggregate cannot be \
                 merged across partitions, except for a COUNT of DISTINCT rows.",
            )
        };
        let alias = count_alias(select).filter(|_| check_gateway(&plain).is_ok());
        Ok(Self {
            distinct: "Unordered",
            distinct_count: Some(alias.ok_or_else(refused)?),
            has_select_value: matches!(select.projection, Projection::Value(_)),
            rewritten: derived.to_string(),
            ..Self::default()
        })
    }

    /// Returns whether rows are grouped or aggregated.
    fn folds(&self) -> bool {
        !self.aggregates.is_empty()
            || !self.aliases.is_empty()
            || !self.group_by_expressions.is_empty()
    }

    fn fold(&mut self, select: &Select) -> Result<(), ServiceError> {
        let composed = |expr: &Expr| expr.has_aggregate() && operator(expr).is_none();
        let is_composed = match &select.projection {
            Projection::Star => false,
            Projection::Value(expr) => composed(expr),
            Projection::List(fields) => fields.iter().any(|(_, expr)| composed(expr)),
        };
        if is_composed {
            return Err(ServiceError::bad_request(
                "Compositions of aggregates and other expressions are not allowed.",
            ));
        }
        if !select.aggregates() && select.group_by.is_empty() {
            return Ok(());
        }
        self.group_by_expressions = select.group_by.iter().map(Expr::to_string).collect();
        match &select.projection {
            Projection::Star => {
                return Err(ServiceError::bad_request(
                    "'SELECT *' is not allowed with GROUP BY.",
                ));
            }
            Projection::Value(expr) => self.aggregates = operator(expr).into_iter().collect(),
            Projection::List(fields) => {
                let fields = fields.iter();
                self.aliases = fields
                    .map(|(name, expr)| (name.clone(), operator(expr)))
                    .collect();
            }
        }
        Ok(())
    }

    fn sort(&mut self, select: &Select) {
        if self.folds() {
            return;
        }
        for item in &select.order_by {
            self.order_by.push(if item.descending {
                "Descending"
            } else {
                "Ascending"
            });
            self.order_by_expressions.push(item.expr.to_string());
        }
        self.has_unindexed_sort = select.unindexed_sort;
    }

    /// Returns the query that each partition runs; `None` when it runs the original one.
    fn rewrite(&self, select: &Select) -> Result<Option<Select>, ServiceError> {
        if self.folds() {
            return Ok(Some(folded(select)));
        }
        // Duplicates from several partitions count once, so no partition may cut off rows before
        // the merge.
        let bounds = if self.distinct == "None" {
            self.bounds
        } else {
            Bounds::default()
        };
        if !self.order_by.is_empty() {
            return sorted(select, bounds).map(Some);
        }
        let changed = self.bounds.window.is_some() || self.bounds.top != bounds.top;
        Ok(changed.then(|| cut(select, bounds)))
    }

    /// Returns the features that a client needs for this plan, by the names of
    /// `x-ms-cosmos-supported-query-features`.
    pub(crate) fn features(&self) -> Vec<&'static str> {
        let named = self
            .aliases
            .iter()
            .filter(|(_, operator)| operator.is_some());
        let folded = self.aggregates.len() + named.count();
        let needs = [
            (folded == 1 && self.has_select_value, "Aggregate"),
            (self.counts_conditions(), "CountIf"),
            (self.distinct_count.is_some(), "DCount"),
            (self.distinct != "None", "Distinct"),
            (!self.group_by_expressions.is_empty(), "GroupBy"),
            (folded > 1, "MultipleAggregates"),
            (self.order_by.len() > 1, "MultipleOrderBy"),
            (self.bounds.window.is_some(), "OffsetAndLimit"),
            (self.has_unindexed_sort, "NonStreamingOrderBy"),
            (self.hybrid.is_some(), "HybridSearch"),
            (
                self.hybrid
                    .as_ref()
                    .is_some_and(|plan| !plan.weights.is_empty()),
                "WeightedRankFusion",
            ),
            (self.order_by.len() == 1, "OrderBy"),
            (self.bounds.top.is_some(), "Top"),
            (
                folded > 1 || folded == 1 && !self.has_select_value,
                "NonValueAggregate",
            ),
        ];
        let needed = needs.into_iter().filter(|(needed, _)| *needed);
        needed.map(|(_, feature)| feature).collect()
    }

    fn counts_conditions(&self) -> bool {
        let named = self.aliases.iter().filter_map(|(_, operator)| *operator);
        let mut all = self.aggregates.iter().copied().chain(named);
        all.any(|operator| operator == "CountIf")
    }

    /// Returns the body of the response.
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
                "top": self.bounds.top,
                "offset": self.bounds.window.map(|(offset, _)| offset),
                "limit": self.bounds.window.map(|(_, limit)| limit),
                "orderBy": self.order_by,
                "orderByExpressions": self.order_by_expressions,
                "groupByExpressions": self.group_by_expressions,
                "groupByAliases": aliases,
                "aggregates": self.aggregates,
                "groupByAliasToAggregateType": types,
                "rewrittenQuery": self.rewritten,
                "hasSelectValue": self.has_select_value,
                "hasNonStreamingOrderBy": self.has_unindexed_sort,
                "dCountInfo": self.distinct_count.as_ref().map(|alias| json!({ "dCountAlias": alias })),
            },
            "hybridSearchQueryInfo": self.hybrid.as_ref().map(Hybrid::to_json),
            "queryRanges": self.ranges.to_json(),
        })
    }
}

/// Returns the name of the count if a query only counts its rows; empty with `VALUE`.
fn count_alias(select: &Select) -> Option<String> {
    let counts = |expr: &Expr| matches!(expr, Expr::Aggregate(Aggregate::Count, of) if matches!(**of, Expr::Literal(_)));
    let edges = [&select.top, &select.offset, &select.limit, &select.filter];
    let is_plain = select.joins.is_empty()
        && select.group_by.is_empty()
        && edges.into_iter().all(Option::is_none);
    match &select.projection {
        Projection::Value(expr) if is_plain && counts(expr) => Some(String::new()),
        Projection::List(fields) if is_plain => match &**fields {
            [(name, expr)] if counts(expr) => Some(name.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// The name of the aggregate that an expression is, in the words of plans.
fn operator(expr: &Expr) -> Option<&'static str> {
    let Expr::Aggregate(aggregate, _) = expr else {
        return None;
    };
    Some(match aggregate {
        Aggregate::Avg => "Average",
        Aggregate::Count => "Count",
        Aggregate::CountIf => "CountIf",
        Aggregate::Max => "Max",
        Aggregate::Min => "Min",
        Aggregate::Sum => "Sum",
    })
}

/// Returns the kind of `DISTINCT`. Equal rows are adjacent only if the query returns the value that
/// it sorts by.
fn distinct(select: &Select) -> &'static str {
    let is_constant =
        select.alias.is_empty() && select.derived.is_none() && select.joins.is_empty();
    match (&select.projection, &*select.order_by) {
        _ if !select.distinct => "None",
        (Projection::Value(_), _) if is_constant => "None",
        (Projection::Value(value), [item]) if item.expr == *value => "Ordered",
        _ => "Unordered",
    }
}
