//! What a query may ask for, and how much of it the store can answer by itself.

use std::collections::HashMap;

use rusqlite::types::Value as Sql;
use serde_json::Value;

use crate::error::ServiceError;
use crate::index_use::{conjuncts, is_served};
use crate::sql::ast::{Binary, Expr, Projection, Select};
use crate::store::indexes::{has_composite, is_included};
use crate::store::json_path;

/// The part of a query that the store answers: a condition that every result meets, and an order.
#[derive(Debug)]
pub(crate) struct Pushdown {
    pub(crate) condition: String,
    pub(crate) parameters: Vec<Sql>,
    /// Conditions that an index answers on the service but the store does not: what fails them was never loaded.
    pub(crate) judged: Vec<Expr>,
    /// The sort, when the store can do it, with the key as the last resort.
    pub(crate) order: Option<String>,
}

/// The gateway answers without a merge only: everything that needs one is refused across partitions, whether there
/// is one physical partition or many.
pub(crate) fn gateway(select: &Select) -> Result<(), ServiceError> {
    let features = [
        (!select.order_by.is_empty(), "OrderBy"),
        (select.top.is_some(), "Top"),
        (
            select.offset.is_some() || select.limit.is_some(),
            "OffsetAndLimit",
        ),
        (select.distinct, "Distinct"),
        (!select.group_by.is_empty(), "GroupBy"),
        (select.aggregates(), "Aggregate"),
    ];
    let found: Vec<&str> = features
        .into_iter()
        .filter_map(|(found, name)| found.then_some(name))
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    Err(ServiceError::new(
        400,
        1004,
        "BadRequest",
        format!(
            "The provided cross partition query can not be directly served by the gateway. This is a \
             first chance (internal) exception that all newer clients will know how to handle \
             gracefully. Features: {}.",
            found.join(", ")
        ),
    ))
}

/// A sort needs its index: a range index for one path, a composite for several.
pub(crate) fn sort_is_indexed(select: &Select, policy: &Value) -> Result<(), ServiceError> {
    let mut paths = Vec::new();
    for item in &select.order_by {
        let path = item
            .expr
            .path(&select.alias)
            .filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| {
            ServiceError::bad_request("Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path.")
        })?;
        paths.push((path, item.descending));
    }
    match &*paths {
        [] => Ok(()),
        [(path, _)] if is_included(policy, path) => Ok(()),
        [_] => Err(ServiceError::bad_request(
            "The order-by item requires a range index to be defined on the corresponding index path.",
        )),
        several if has_composite(policy, several) => Ok(()),
        _ => Err(ServiceError::bad_request(
            "The order by query does not have a corresponding composite index that it can be served from.",
        )),
    }
}

/// Finds what the store can answer. Conditions here may let too much through, never too little: SQLite compares across
/// types where the service says undefined, so every row is judged again. A condition that no index of the policy answers
/// is not passed on at all, so that what the store hands out is what the service would have to load.
pub(crate) fn pushdown(
    select: &Select,
    parameters: &HashMap<String, Value>,
    policy: &Value,
) -> Pushdown {
    let mut found = Pushdown {
        condition: "1".to_owned(),
        parameters: Vec::new(),
        judged: Vec::new(),
        order: None,
    };
    let plain = select.joins.is_empty() && select.derived.is_none();
    let mut fixed = Vec::new();
    if let Some(filter) = &select.filter {
        conjuncts(filter, &mut |expr| {
            if !is_served(expr, select, policy) {
                return;
            }
            match comparison(expr, &select.alias, parameters).filter(|_| plain) {
                Some((condition, values, path)) => {
                    found.condition.push_str(" AND ");
                    found.condition.push_str(&condition);
                    found.parameters.extend(values);
                    if matches!(expr, Expr::Binary(_, Binary::Equal, _)) {
                        fixed.push(path);
                    }
                }
                None => found.judged.push(expr.clone()),
            }
        });
    }
    if plain {
        found.order = order(select, &fixed);
    }
    found
}

/// The sort as the store writes it. A path that a filter fixes to one value is left out: it orders nothing, and with it
/// SQLite would sort the whole backlog instead of walking the composite index behind that value.
fn order(select: &Select, fixed: &[String]) -> Option<String> {
    let last = select.order_by.last()?;
    let mut keys = Vec::new();
    for item in &select.order_by {
        let path = item.expr.path(&select.alias)?;
        if !fixed.contains(&path) {
            keys.push(format!(
                "{} {}",
                json_path(&path),
                direction(item.descending)
            ));
        }
    }
    // In the direction of the walk, so that the index gives this order too.
    let direction = direction(last.descending);
    keys.push(format!("pk {direction}, id {direction}"));
    Some(keys.join(", "))
}

fn direction(descending: bool) -> &'static str {
    if descending { "DESC" } else { "ASC" }
}

fn comparison(
    expr: &Expr,
    alias: &str,
    parameters: &HashMap<String, Value>,
) -> Option<(String, Vec<Sql>, String)> {
    match expr {
        Expr::Binary(left, operator, right) => {
            let symbol = match operator {
                Binary::Equal => "=",
                Binary::Less => "<",
                Binary::LessOrEqual => "<=",
                Binary::Greater => ">",
                Binary::GreaterOrEqual => ">=",
                _ => return None,
            };
            let path = plain_path(left, alias)?;
            let value = scalar(right, parameters)?;
            Some((
                format!("{} {symbol} ?", json_path(&path)),
                vec![value],
                path,
            ))
        }
        Expr::In(left, list) => {
            let path = plain_path(left, alias)?;
            let values: Option<Vec<Sql>> =
                list.iter().map(|item| scalar(item, parameters)).collect();
            let values = values?;
            let marks = vec!["?"; values.len()].join(", ");
            Some((format!("{} IN ({marks})", json_path(&path)), values, path))
        }
        _ => None,
    }
}

fn plain_path(expr: &Expr, alias: &str) -> Option<String> {
    // System properties are part of the stored body, so they need no exception.
    expr.path(alias).filter(|path| !path.is_empty())
}

/// A value that SQLite compares as the service does. Null is left out: in SQL it equals nothing.
fn scalar(expr: &Expr, parameters: &HashMap<String, Value>) -> Option<Sql> {
    let value = match expr {
        Expr::Literal(value) => value,
        Expr::Parameter(name) => parameters.get(name)?,
        _ => return None,
    };
    match value {
        Value::String(text) => Some(Sql::Text(text.clone())),
        Value::Bool(value) => Some(Sql::Integer((*value).into())),
        Value::Number(number) => number
            .as_i64()
            .map(Sql::Integer)
            .or_else(|| number.as_f64().map(Sql::Real)),
        _ => None,
    }
}

/// Whether rows leave the query as whole documents, so that paging by key is possible.
pub(crate) fn streams(select: &Select) -> bool {
    select.order_by.is_empty()
        && !select.alias.is_empty()
        && !select.aggregates()
        && !select.distinct
        && select.group_by.is_empty()
        && select.offset.is_none()
        && select.limit.is_none()
        && matches!(
            select.projection,
            Projection::Star | Projection::Value(_) | Projection::List(_)
        )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sql;
    use crate::store::{Container, Database, Store};

    /// How SQLite answers a query on a container with a composite of type and time.
    fn steps(sql: &str) -> String {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        Database::create(&connection, "d", 0).unwrap();
        let definition = json!({
            "id": "c", "partitionKey": { "paths": ["/pk"] }, "indexingPolicy": {
                "includedPaths": [{ "path": "/type/?" }, { "path": "/at/?" }],
                "excludedPaths": [{ "path": "/*" }],
                "compositeIndexes": [[{ "path": "/type" }, { "path": "/at" }]],
            },
        });
        let container = Container::create(&connection, "d", &definition, 1, 0).unwrap();
        let parameters =
            HashMap::from([("@t".to_owned(), json!("q")), ("@n".to_owned(), json!(10))]);
        let select = sql::parse(sql).unwrap();
        let plan = pushdown(&select, &parameters, container.policy());
        let text = format!(
            "EXPLAIN QUERY PLAN SELECT pk, id, body FROM document_{} WHERE {} ORDER BY {}",
            container.number,
            plan.condition,
            plan.order.unwrap()
        );
        let mut statement = connection.prepare(&text).unwrap();
        let rows = statement.query_map(rusqlite::params_from_iter(plan.parameters), |row| {
            row.get::<_, String>(3)
        });
        let rows: Result<Vec<String>, _> = rows.unwrap().collect();
        rows.unwrap().join("\n")
    }

    #[test]
    fn the_poll_of_a_queue_walks_its_composite_and_sorts_nothing() {
        for order in ["c.type, c.at", "c.type DESC, c.at DESC"] {
            let steps = steps(&format!(
                "SELECT TOP 5 * FROM c WHERE c.type = @t AND c.at <= @n ORDER BY {order}"
            ));
            assert!(steps.contains("USING INDEX"), "{order}: {steps}");
            assert!(!steps.contains("TEMP B-TREE"), "{order}: {steps}");
        }
    }

    #[test]
    fn a_sort_that_no_filter_narrows_walks_the_composite_too() {
        let steps = steps("SELECT TOP 5 * FROM c ORDER BY c.type, c.at");
        assert!(!steps.contains("TEMP B-TREE"), "{steps}");
    }
}
