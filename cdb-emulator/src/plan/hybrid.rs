//! Plans of full-text and hybrid search: `ORDER BY RANK FullTextScore(…)` and `ORDER BY RANK
//! RRF(…)`.
//!
//! A client first adds up the statistics of all partitions, then runs one query per component and
//! partition, and ranks the rows by reciprocal rank fusion. Form: `HybridSearchQueryInfo` of the
//! .NET client, with the texts and limits of the service in its `QueryPlanBaselineTests.Top.xml` and
//! `QueryPlanBaselineTests.OffsetLimit.xml`.

use serde_json::{Value, json};

use super::bind::set_directions;
use super::rewrite::{Bounds, cut, fresh_or_resumed, items, object, payload, verbatim};
use crate::protocol::ServiceError;
use crate::sql::ast::{Binary, Expr, OrderItem, Projection, Select};
use crate::sql::{self, Aggregate};

/// The fewest rows of a component per partition. A component returns twice the rows of the query,
/// because the fusion needs more.
const COMPONENT_ROWS: u64 = 120;

/// The score of a row without a text.
const NO_TEXT: i64 = -1;

/// The score of a row without a vector. No source shows the service's.
const NO_VECTOR: i64 = -999_999;

/// The plan of a hybrid search.
#[derive(Clone, Debug)]
pub(super) struct Hybrid {
    statistics: Option<String>,
    components: Vec<Component>,
    pub(super) weights: Vec<Value>,
    skip: Option<u64>,
    take: Option<u64>,
}

/// A score of a row that the ranks are made of.
#[derive(Clone, Debug)]
struct Component {
    score: String,
    descending: bool,
    bounds: Bounds,
    rewritten: String,
}

impl Hybrid {
    /// Plans a query with `ORDER BY RANK`.
    pub(super) fn of(
        select: &Select,
        definition: &Value,
        bounds: &Bounds,
    ) -> Result<Self, ServiceError> {
        let (ranked, weights) = ranked(select)?;
        let mut ordered = Vec::new();
        for (at, expr) in ranked.iter().enumerate() {
            ordered.push(OrderItem {
                expr: score(expr, at)?,
                descending: true,
            });
        }
        let mut by_scores = Select {
            order_by: ordered,
            ..select.clone()
        };
        set_directions(&mut by_scores, definition);
        let (skip, take) = match bounds.window {
            Some((offset, limit)) => (Some(offset), Some(limit)),
            None => (None, bounds.top),
        };
        let wanted = take.unwrap_or(0).saturating_add(skip.unwrap_or(0));
        let rows = wanted.saturating_mul(2).max(COMPONENT_ROWS);
        let bounds = match bounds.window {
            Some(_) => Bounds {
                top: None,
                window: Some((0, rows)),
            },
            None => Bounds {
                top: Some(rows),
                window: None,
            },
        };
        let components = by_scores.order_by.iter();
        Ok(Self {
            statistics: statistics(select, &ranked)?,
            components: components
                .map(|item| component(&by_scores, item, bounds))
                .collect(),
            weights,
            skip,
            take,
        })
    }

    pub(super) fn to_json(&self) -> Value {
        let components = self.components.iter().map(|component| {
            json!({
                "distinctType": "None", "top": component.bounds.top,
                "offset": component.bounds.window.map(|(offset, _)| offset),
                "limit": component.bounds.window.map(|(_, limit)| limit),
                "orderBy": [if component.descending { "Descending" } else { "Ascending" }],
                "orderByExpressions": [component.score],
                "groupByExpressions": [], "groupByAliases": [], "aggregates": [],
                "groupByAliasToAggregateType": {}, "rewrittenQuery": component.rewritten,
                "hasSelectValue": false, "dCountInfo": null, "hasNonStreamingOrderBy": true,
            })
        });
        json!({
            "globalStatisticsQuery": self.statistics,
            "componentQueryInfos": components.collect::<Vec<Value>>(),
            "componentWithoutPayloadQueryInfos": [], "projectionQueryInfo": null,
            "componentWeights": self.weights, "skip": self.skip, "take": self.take,
            "requiresGlobalStatistics": self.statistics.is_some(),
        })
    }
}

/// Returns the ranked expressions and their weights.
fn ranked(select: &Select) -> Result<(Vec<Expr>, Vec<Value>), ServiceError> {
    let [item] = &*select.order_by else {
        return Err(ServiceError::bad_request(
            "ORDER BY RANK takes one expression; RRF combines several.",
        ));
    };
    let Expr::Call(function, arguments) = &item.expr else {
        return Err(unranked());
    };
    if function.name != "RRF" {
        return Ok((vec![item.expr.clone()], Vec::new()));
    }
    let mut ranked = arguments.clone();
    let mut weights = Vec::new();
    if let Some(Expr::Array(numbers)) = ranked.pop_if(|last| matches!(last, Expr::Array(_))) {
        weights.extend(numbers.into_iter().map(|number| match number {
            Expr::Literal(number) => number,
            _ => Value::Null,
        }));
        if weights.len() != ranked.len() || !weights.iter().all(Value::is_number) {
            return Err(ServiceError::bad_request(
                "The weights of RRF have to be one number per component.",
            ));
        }
    }
    Ok((ranked, weights))
}

fn unranked() -> ServiceError {
    ServiceError::bad_request("ORDER BY RANK takes FullTextScore, VectorDistance, or RRF of them.")
}

/// Returns the path and the phrases of a call of `FullTextScore`.
fn full_text(expr: &Expr) -> Option<(&Expr, Vec<Expr>)> {
    match expr {
        Expr::Call(function, arguments) if function.name == "FULLTEXTSCORE" => {
            let (path, phrases) = arguments.split_first()?;
            match phrases {
                [Expr::Array(phrases)] => Some((path, phrases.clone())),
                phrases => Some((path, phrases.to_vec())),
            }
        }
        _ => None,
    }
}

/// Returns the expression of a component's score, in which a client inserts the statistics.
fn score(expr: &Expr, at: usize) -> Result<Expr, ServiceError> {
    if expr.is_vector_distance() {
        return Ok(expr.clone());
    }
    let (path, phrases) = full_text(expr).ok_or_else(unranked)?;
    let placeholder = |name: String| {
        verbatim(format!(
            "{{documentdb-formattablehybridsearchquery-{name}}}"
        ))
    };
    let arguments = vec![
        path.clone(),
        Expr::Array(phrases),
        placeholder("totaldocumentcount".to_owned()),
        placeholder(format!("totalwordcount-{at}")),
        placeholder(format!("hitcountsarray-{at}")),
    ];
    sql::call("_FULLTEXTSCORE", arguments).ok_or_else(unranked)
}

/// Returns the query of the statistics of the full-text components; `None` without any.
fn statistics(select: &Select, ranked: &[Expr]) -> Result<Option<String>, ServiceError> {
    let mut statistics = Vec::new();
    for (path, phrases) in ranked.iter().filter_map(full_text) {
        let count = sql::call("_FULLTEXTWORDCOUNT", vec![path.clone()]);
        let count = count.ok_or_else(unranked)?;
        let hits = phrases.into_iter().map(|phrase| {
            let contains = sql::call("FULLTEXTCONTAINS", vec![path.clone(), phrase])?;
            Some(Expr::Aggregate(Aggregate::CountIf, contains.into()))
        });
        let hits: Option<Vec<Expr>> = hits.collect();
        statistics.push(object([
            (
                "totalWordCount",
                Expr::Aggregate(Aggregate::Sum, count.into()),
            ),
            ("hitCounts", Expr::Array(hits.ok_or_else(unranked)?)),
        ]));
    }
    if statistics.is_empty() {
        return Ok(None);
    }
    let count = Expr::Aggregate(Aggregate::Count, Expr::Literal(1.into()).into());
    let query = Select {
        distinct: false,
        top: None,
        projection: Projection::List(vec![
            ("documentCount".to_owned(), count),
            ("fullTextStatistics".to_owned(), Expr::Array(statistics)),
        ]),
        filter: None,
        rank: false,
        order_by: Vec::new(),
        offset: None,
        limit: None,
        ..select.clone()
    };
    Ok(Some(query.to_string()))
}

/// Returns the query of a component: the rows with the best scores, each with all scores.
fn component(by_scores: &Select, item: &OrderItem, bounds: Bounds) -> Component {
    let scores = by_scores.order_by.iter().map(|item| {
        let none = if item.expr.is_vector_distance() {
            NO_VECTOR
        } else {
            NO_TEXT
        };
        let none = Expr::Literal(none.into());
        Expr::Binary(item.expr.clone().into(), Binary::Coalesce, none.into())
    });
    let document = Expr::Name(by_scores.alias.clone());
    let rid = Expr::Member(document.into(), Expr::Literal("_rid".into()).into());
    let all = object([
        ("payload", payload(by_scores)),
        ("componentScores", Expr::Array(scores.collect())),
    ]);
    let query = Select {
        distinct: false,
        projection: Projection::List(vec![
            ("_rid".to_owned(), rid),
            (
                "orderByItems".to_owned(),
                items(std::iter::once(&item.expr)),
            ),
            ("payload".to_owned(), all),
        ]),
        rank: false,
        order_by: vec![item.clone()],
        filter: fresh_or_resumed(by_scores),
        ..cut(by_scores, bounds)
    };
    Component {
        score: item.expr.to_string(),
        descending: item.descending,
        bounds,
        rewritten: query.to_string(),
    }
}
