//! The query that each physical partition runs: it returns what the merge needs beside what was asked for.

use super::{QueryPlan, operator};
use crate::error::ServiceError;
use crate::sql::ast::{Projection, Select};
use crate::sql::clauses::{Clauses, Item};

/// Where a client puts its condition on the rows that are left, or `true`.
const FILTER: &str = "({documentdb-formattableorderbyquery-filter})";

/// The rewritten query; empty when the original one serves.
pub(super) fn rewrite(
    plan: &QueryPlan,
    select: &Select,
    text: &Clauses<'_>,
) -> Result<String, ServiceError> {
    let filter = text.filter.map(|filter| format!("({filter})"));
    if plan.folds() {
        let group =
            (!text.group_by.is_empty()).then(|| format!("GROUP BY {}", text.group_by.join(", ")));
        return Ok(lines([
            Some(folded(plan, select, text)),
            from(text),
            filter.map(|filter| format!("WHERE {filter}")),
            group,
        ]));
    }
    // Rows that another partition has too count once, so none may be cut off before the merge.
    let cuts = plan.distinct == "None";
    let top = plan.top.filter(|_| cuts);
    let window = plan.window.filter(|_| cuts);
    let window =
        window.map(|(offset, limit)| format!("OFFSET 0 LIMIT {}", offset.saturating_add(limit)));
    if let Some((sort, expressions)) = text.order_by.as_ref().filter(|_| !plan.order_by.is_empty())
    {
        if select.alias.is_empty() {
            return Err(ServiceError::bad_request(
                "A sort over an array of each document cannot be merged across partitions.",
            ));
        }
        let top = top.map_or_else(String::new, |top| format!("TOP {top} "));
        let alias = &select.alias;
        let items = items(expressions);
        let payload = payload(plan, select, text);
        let defined = match &*text.projection {
            [item] if plan.has_select_value => Some(format!("IS_DEFINED({})", item.text)),
            _ => None,
        };
        let conditions: Vec<String> = [filter, Some(FILTER.to_owned()), defined]
            .into_iter()
            .flatten()
            .collect();
        return Ok(lines([
            Some(format!(
                "SELECT {top}{alias}._rid, {items} AS orderByItems, {payload} AS payload"
            )),
            from(text),
            Some(format!("WHERE {}", all(&conditions))),
            Some(format!("ORDER BY {sort}")),
            window,
        ]));
    }
    let changed = plan.window.is_some() || plan.top.is_some() && !cuts;
    if !changed {
        return Ok(String::new());
    }
    Ok(lines([
        Some(plain(plan, text, top)),
        from(text),
        filter.map(|filter| format!("WHERE {filter}")),
        window,
    ]))
}

fn all(conditions: &[String]) -> String {
    match conditions {
        [one] => one.clone(),
        several => format!("({})", several.join(" AND ")),
    }
}

fn lines<const N: usize>(lines: [Option<String>; N]) -> String {
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    lines.join("\n")
}

fn from(text: &Clauses<'_>) -> Option<String> {
    text.from.map(|from| format!("FROM {from}"))
}

/// The select list as it was, without what the client does after the merge.
fn plain(plan: &QueryPlan, text: &Clauses<'_>, top: Option<u64>) -> String {
    let distinct = if plan.distinct == "None" {
        ""
    } else {
        "DISTINCT "
    };
    let top = top.map_or_else(String::new, |top| format!("TOP {top} "));
    let value = if plan.has_select_value { "VALUE " } else { "" };
    format!("SELECT {distinct}{top}{value}{}", text.list)
}

fn folded(plan: &QueryPlan, select: &Select, text: &Clauses<'_>) -> String {
    let payload = match &*text.projection {
        [item] if plan.has_select_value && operator(item).is_some() => {
            format!("[{}]", partial(item))
        }
        _ => payload(plan, select, text),
    };
    if !text.group_by.is_empty() {
        format!(
            "SELECT {} AS groupByItems, {payload} AS payload",
            items(&text.group_by)
        )
    } else if plan.has_select_value {
        format!("SELECT VALUE {payload}")
    } else {
        format!("SELECT {payload} AS payload")
    }
}

/// Each value in an object of its own: one that is undefined leaves the object empty and the array as long as it was.
fn items(expressions: &[&str]) -> String {
    let items: Vec<String> = expressions
        .iter()
        .map(|expr| format!("{{\"item\": {expr}}}"))
        .collect();
    format!("[{}]", items.join(", "))
}

/// What was asked for, as one value.
fn payload(plan: &QueryPlan, select: &Select, text: &Clauses<'_>) -> String {
    let Projection::List(fields) = &select.projection else {
        let value = text.projection.first().filter(|_| plan.has_select_value);
        return value.map_or_else(|| select.alias.clone(), |item| item.text.to_owned());
    };
    let fields = fields
        .iter()
        .zip(&text.projection)
        .map(|((name, _), item)| {
            let name = serde_json::Value::from(&**name);
            match operator(item) {
                Some(_) => format!("{name}: {}", partial(item)),
                None => format!("{name}: {}", item.text),
            }
        });
    let fields: Vec<String> = fields.collect();
    format!("{{{}}}", fields.join(", "))
}

/// An aggregate over one partition, in a form that can be merged: an average needs its count, and a smallest or largest
/// value counts only where there was one.
fn partial(item: &Item<'_>) -> String {
    let Some((name, of)) = &item.call else {
        return item.text.to_owned();
    };
    match &**name {
        "AVG" => format!("{{\"item\": {{\"sum\": SUM({of}), \"count\": COUNT({of})}}}}"),
        "MIN" | "MAX" => format!(
            "{{\"item\": {name}({of}), \"item2\": {{\"{}\": {name}({of}), \"count\": COUNT({of})}}}}",
            name.to_ascii_lowercase()
        ),
        _ => format!("{{\"item\": {name}({of})}}"),
    }
}
