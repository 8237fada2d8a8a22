//! What the store answers of a query: conditions on paths, each with the type that its value has.
//!
//! Conditions here may let too much through, never too little: every row is judged again. One that no index of the
//! policy answers is not passed on at all, so that what the store hands out is what the service would have to load.

use std::collections::HashMap;

use rusqlite::types::Value as Sql;
use serde_json::Value;

use super::arms::arms;
use super::elements::Elements;
use super::order::{Order, leaves_out_missing};
use super::rival::Rival;
use crate::index_use::{conjuncts, is_served};
use crate::sql::ast::{Binary, Expr, Select};
use crate::sql::value::rank;
use crate::store::indexes::indexes;
use crate::store::{json_rank, json_value};

/// Whole numbers from here on are not exact as doubles, which numbers of documents are.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// By how much, relatively, SQLite may read a decimal fraction otherwise than we do.
const MARGIN: f64 = 1e-14;

/// The part of a query that the store answers: a condition that every result meets, and an order.
#[derive(Debug)]
pub(crate) struct Pushdown {
    pub(crate) condition: String,
    pub(crate) parameters: Vec<Sql>,
    /// Whether the condition is the whole filter, so that every row that meets it is a result.
    pub(crate) exact: bool,
    /// Conditions that an index answers on the service but the store does not: what fails them was never loaded.
    pub(crate) judged: Vec<Expr>,
    /// Conditions whose documents were given before.
    pub(crate) given: Vec<Expr>,
    pub(crate) order: Order,
    /// The indexes that the query could be read by, those first that [`order`](Self::order) would choose; none where
    /// there is no choice.
    pub(crate) rivals: Vec<Rival>,
    /// What a table of array elements would answer of a query that no other index serves.
    pub(crate) elements: Option<Elements>,
    /// A path whose index would serve the query, which has none.
    pub(crate) wish: Option<String>,
}

/// A path that all rows have values of one type at.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) path: String,
    /// Whether they all have the same value.
    pub(super) equal: bool,
}

/// Finds what the store can answer, in one piece or in several that are read one after the other; `learned` and
/// `within_a_key` as in [`pushdown`].
pub(crate) fn pieces(
    select: &Select,
    parameters: &HashMap<String, Value>,
    (policy, learned): (&Value, &[String]),
    within_a_key: bool,
) -> Vec<Pushdown> {
    let whole = pushdown(select, parameters, (policy, learned), within_a_key);
    if within_a_key || whole.order.has_index() {
        return vec![whole];
    }
    arms(select, parameters, policy).unwrap_or_else(|| vec![whole])
}

/// Finds what the store can answer; `learned` are the paths with an index beside those of the policy, `within_a_key` when
/// the rows are those of one partition key.
pub(crate) fn pushdown(
    select: &Select,
    parameters: &HashMap<String, Value>,
    (policy, learned): (&Value, &[String]),
    within_a_key: bool,
) -> Pushdown {
    let mut found = Pushdown {
        condition: "1".to_owned(),
        parameters: Vec::new(),
        exact: false,
        judged: Vec::new(),
        given: Vec::new(),
        order: Order::default(),
        rivals: Vec::new(),
        elements: None,
        wish: None,
    };
    // A name in FROM can hide the document's, and a row of a derived table is no document.
    let hidden = select.joins.iter().any(|join| join.alias == select.alias);
    if hidden || select.derived.is_some() || select.alias.is_empty() {
        return found;
    }
    found.exact = select.joins.is_empty();
    let conditions = found.conditions(select, parameters, policy);
    let fixed = conditions.iter().filter_map(|known| known.fixed.clone());
    let mut fixed: Vec<Fixed> = fixed.collect();
    // Of two conditions on a path the one that fixes more is found first.
    fixed.sort_by_key(|known| !known.equal);
    if let Some(path) = leaves_out_missing(select, policy) {
        found.condition = format!("{} AND {} > 0", found.condition, json_rank(&path));
    }
    let mut candidates = Order::narrowing(&fixed, (policy, learned));
    found.order = if select.order_by.is_empty() {
        let best = candidates.first();
        best.map_or_else(Order::default, |best| best.order.clone())
    } else {
        let order = Order::sorting(select, &fixed, (policy, learned));
        for candidate in &mut candidates {
            candidate.order = order.clone().by_a_sort(&candidate.order);
        }
        order
    };
    found.rivals = Rival::of(&found.order, &candidates, &conditions);
    if within_a_key {
        found.rivals.clear();
        found.order = found.order.within_a_key(select);
    } else if !found.order.has_index() {
        found.elements = Elements::of(select, parameters, policy);
        found.wish = wish(select, &fixed).filter(|path| {
            let mut first = indexes(policy).filter_map(|(index, _)| index.into_iter().next());
            !learned.contains(path) && first.all(|(known, _)| known != *path)
        });
    }
    found
}

impl Pushdown {
    /// Takes over what the store can answer of the filter, and returns it condition by condition.
    fn conditions(
        &mut self,
        select: &Select,
        parameters: &HashMap<String, Value>,
        policy: &Value,
    ) -> Vec<Condition> {
        let mut conditions: Vec<Condition> = Vec::new();
        let Some(filter) = &select.filter else {
            return conditions;
        };
        conjuncts(filter, &mut |expr| {
            let served = is_served(expr, select, policy);
            let known = comparison(Columns::OfDocument, expr, &select.alias, parameters);
            let Some(condition) = known.filter(|_| served) else {
                self.exact = false;
                self.judged.extend(served.then(|| expr.clone()));
                return;
            };
            self.condition.push_str(" AND ");
            self.condition.push_str(&condition.text);
            self.exact &= condition.exact;
            self.parameters.extend_from_slice(&condition.parameters);
            conditions.push(condition);
        });
        conditions
    }
}

/// The path that narrows a query most, or the one that it is sorted by.
fn wish(select: &Select, fixed: &[Fixed]) -> Option<String> {
    if let Some(known) = fixed.first() {
        return Some(known.path.clone());
    }
    match &*select.order_by {
        [item] => item.expr.path(&select.alias),
        _ => None,
    }
}

/// Where the store has the type and the value of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Columns {
    /// In the document itself.
    OfDocument,
    /// In a table with a row per element.
    OfElement,
}

impl Columns {
    fn of(self, path: &str) -> (String, String) {
        match self {
            Self::OfDocument => (json_rank(path), json_value(path)),
            Self::OfElement => ("rank".to_owned(), "value".to_owned()),
        }
    }

    /// The path that an expression is. The whole of an element has a value, the whole of a document is none.
    fn path(self, expr: &Expr, alias: &str) -> Option<String> {
        let path = expr.path(alias)?;
        (matches!(self, Self::OfElement) || !path.is_empty()).then_some(path)
    }
}

/// A condition on one path in the words of the store.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) text: String,
    pub(super) parameters: Vec<Sql>,
    path: String,
    /// What it fixes about the values that it lets through.
    fixed: Option<Fixed>,
    /// Whether it lets through just what the query language would. Of numbers SQLite may have others than we.
    exact: bool,
}

impl Condition {
    /// A comparison with a value, which only values of its type meet.
    pub(super) fn new(columns: Columns, path: String, symbol: &str, value: &Value) -> Option<Self> {
        let (place, column) = columns.of(&path);
        let mut condition = Self {
            text: format!("{place} = {}", rank(Some(value))),
            parameters: Vec::new(),
            fixed: Some(Fixed {
                equal: symbol == "=" && !is_vague(value),
                path: path.clone(),
            }),
            path,
            exact: match value {
                Value::Number(_) => false,
                Value::Null => !matches!(symbol, "<" | ">"),
                _ => true,
            },
        };
        match value {
            // The type says it all; that it has no value lets the store see that an index is narrowed by both.
            Value::Null => condition
                .text
                .push_str(&[" AND ", &column, " IS NULL"].concat()),
            Value::Number(number) if is_vague(value) => {
                let number = number.as_f64()?;
                let margin = number.abs() * MARGIN;
                if symbol != "<" && symbol != "<=" {
                    condition.bound(&format!("{column} >= ?"), Sql::Real(number - margin));
                }
                if symbol != ">" && symbol != ">=" {
                    condition.bound(&format!("{column} <= ?"), Sql::Real(number + margin));
                }
            }
            // Arrays and objects are equal or not by what is in them, and not ordered at all.
            _ => condition.bound(&format!("{column} {symbol} ?"), sql(value)?),
        }
        Some(condition)
    }

    /// A comparison with a value that all other values meet, those of other types too.
    fn unequal(path: String, value: &Value) -> Option<Self> {
        let (place, column) = Columns::OfDocument.of(&path);
        let parameters = match value {
            Value::Null => Vec::new(),
            Value::String(_) | Value::Bool(_) => vec![sql(value)?],
            Value::Number(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        let of_type = rank(Some(value));
        let text = if parameters.is_empty() {
            format!("{place} NOT IN (0, {of_type})")
        } else {
            format!("{place} > 0 AND ({place} <> {of_type} OR {column} <> ?)")
        };
        Some(Self {
            text,
            parameters,
            path,
            fixed: None,
            exact: true,
        })
    }

    /// The path that it is about.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    fn bound(&mut self, text: &str, value: Sql) {
        self.text.push_str(" AND ");
        self.text.push_str(text);
        self.parameters.push(value);
    }

    fn and(mut self, other: Self) -> Self {
        self.text = format!("{} AND {}", self.text, other.text);
        self.parameters.extend(other.parameters);
        self.exact &= other.exact;
        self
    }
}

/// Whether SQLite may have another number than we for the same text.
fn is_vague(value: &Value) -> bool {
    let number = value.as_f64();
    number.is_some_and(|number| number.fract() != 0.0 || number.abs() >= EXACT)
}

/// A value as SQLite extracts it from JSON.
fn sql(value: &Value) -> Option<Sql> {
    match value {
        Value::String(text) => Some(Sql::Text(text.clone())),
        Value::Bool(value) => Some(Sql::Integer((*value).into())),
        Value::Number(number) => number
            .as_i64()
            .map(Sql::Integer)
            .or_else(|| number.as_f64().map(Sql::Real)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A condition that the store has words for.
pub(super) fn comparison(
    columns: Columns,
    expr: &Expr,
    alias: &str,
    parameters: &HashMap<String, Value>,
) -> Option<Condition> {
    let path = |expr: &Expr| columns.path(expr, alias);
    let new = |path, symbol, value| Condition::new(columns, path, symbol, value);
    match expr {
        Expr::Binary(left, Binary::NotEqual, right) if columns == Columns::OfDocument => {
            let (path, value) = match path(left) {
                Some(path) => (path, right),
                None => (path(right)?, left),
            };
            Condition::unequal(path, constant(value, parameters)?)
        }
        Expr::Binary(left, operator, right) => {
            let (symbol, turned) = match operator {
                Binary::Equal => ("=", "="),
                Binary::Less => ("<", ">"),
                Binary::LessOrEqual => ("<=", ">="),
                Binary::Greater => (">", "<"),
                Binary::GreaterOrEqual => (">=", "<="),
                _ => return None,
            };
            match path(left) {
                Some(path) => new(path, symbol, constant(right, parameters)?),
                None => new(path(right)?, turned, constant(left, parameters)?),
            }
        }
        Expr::Between(value, low, high) => {
            let path = path(value)?;
            let low = new(path.clone(), ">=", constant(low, parameters)?)?;
            Some(low.and(new(path, "<=", constant(high, parameters)?)?))
        }
        Expr::In(left, list) => one_of(columns, path(left)?, list, parameters),
        _ => None,
    }
}

/// A list of values of one type.
fn one_of(
    columns: Columns,
    path: String,
    list: &[Expr],
    parameters: &HashMap<String, Value>,
) -> Option<Condition> {
    let values: Option<Vec<&Value>> = list.iter().map(|item| constant(item, parameters)).collect();
    let values = values.filter(|values| !values.iter().any(|value| is_vague(value)))?;
    let place = rank(values.first().copied());
    if values.iter().any(|value| rank(Some(value)) != place) {
        return None;
    }
    let exact = values.iter().all(|value| !value.is_number());
    let bounds: Option<Vec<Sql>> = values.into_iter().map(sql).collect();
    let bounds = bounds?;
    let marks = vec!["?"; bounds.len()].join(", ");
    let (rank, value) = columns.of(&path);
    Some(Condition {
        text: format!("{rank} = {place} AND {value} IN ({marks})"),
        parameters: bounds,
        fixed: Some(Fixed {
            path: path.clone(),
            equal: false,
        }),
        path,
        exact,
    })
}

/// The value of an expression that has the same one for every document.
pub(super) fn constant<'a>(
    expr: &'a Expr,
    parameters: &'a HashMap<String, Value>,
) -> Option<&'a Value> {
    match expr {
        Expr::Literal(value) => Some(value),
        Expr::Parameter(name) => parameters.get(name),
        _ => None,
    }
}
