//! A tree over a document to a value. Undefined is `None`, and spreads as the service has it.

use std::cmp::Ordering;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::ast::{Binary, Expr, Projection, Select, Unary};
use super::function;
use super::value::{compare, equal, number, order};
use crate::error::ServiceError;

/// The names that are bound, and the parameters.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'a> {
    names: Vec<(&'a str, Option<Value>)>,
    parameters: &'a HashMap<String, Value>,
}

type Evaluated = Result<Option<Value>, ServiceError>;

impl<'a> Scope<'a> {
    /// A document under its alias.
    pub(crate) fn new(
        alias: &'a str,
        document: Value,
        parameters: &'a HashMap<String, Value>,
    ) -> Self {
        Self {
            names: vec![(alias, Some(document))],
            parameters,
        }
    }

    /// No document at all, for expressions of parameters alone.
    pub(crate) fn constant(parameters: &'a HashMap<String, Value>) -> Self {
        Self {
            names: Vec::new(),
            parameters,
        }
    }

    fn with(&self, name: &'a str, value: Value) -> Self {
        let mut inner = self.clone();
        inner.names.push((name, Some(value)));
        inner
    }

    /// All bindings that the joins of a query make of this one.
    pub(crate) fn joined(self, select: &'a Select) -> Result<Vec<Self>, ServiceError> {
        let mut scopes = vec![self];
        for join in &select.joins {
            let mut next = Vec::new();
            for scope in scopes {
                let Some(Value::Array(items)) = scope.eval(&join.source)? else {
                    continue;
                };
                next.extend(items.into_iter().map(|item| scope.with(&join.alias, item)));
            }
            scopes = next;
        }
        Ok(scopes)
    }

    /// Whether a condition holds: true, and not merely something else than false.
    pub(crate) fn holds(&self, condition: Option<&Expr>) -> Result<bool, ServiceError> {
        match condition {
            None => Ok(true),
            Some(condition) => Ok(self.eval(condition)? == Some(Value::Bool(true))),
        }
    }

    /// What the query returns for this row; `None` leaves it out.
    pub(crate) fn project(&self, projection: &Projection) -> Evaluated {
        match projection {
            Projection::Star => Ok(self
                .names
                .first()
                .and_then(|(_, document)| document.clone())),
            Projection::Value(expr) => self.eval(expr),
            Projection::List(fields) => {
                let mut object = Map::new();
                for (name, expr) in fields {
                    if let Some(value) = self.eval(expr)? {
                        object.insert(name.clone(), value);
                    }
                }
                Ok(Some(Value::Object(object)))
            }
        }
    }

    /// The value of an expression.
    pub(crate) fn eval(&self, expr: &Expr) -> Evaluated {
        Ok(match expr {
            Expr::Literal(value) => Some(value.clone()),
            Expr::Undefined => None,
            Expr::Parameter(name) => self.parameters.get(name).cloned(),
            Expr::Name(name) => self.lookup(name)?,
            Expr::Member(..) => self.member(expr)?,
            Expr::Unary(operator, operand) => unary(*operator, self.eval(operand)?),
            Expr::Binary(..) => self.binary(expr)?,
            Expr::In(needle, list) => self.is_in(needle, list)?,
            Expr::Between(value, low, high) => {
                match (self.eval(value)?, self.eval(low)?, self.eval(high)?) {
                    (Some(value), Some(low), Some(high)) => compare(&value, &low)
                        .zip(compare(&value, &high))
                        .map(|(low, high)| (low.is_ge() && high.is_le()).into()),
                    _ => None,
                }
            }
            Expr::Like(text, pattern) => match (self.eval(text)?, self.eval(pattern)?) {
                (Some(Value::String(text)), Some(Value::String(pattern))) => {
                    Some(function::like(&text, &pattern).into())
                }
                _ => None,
            },
            Expr::Conditional(condition, yes, no) => {
                if self.holds(Some(condition))? {
                    self.eval(yes)?
                } else {
                    self.eval(no)?
                }
            }
            Expr::Call(name, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.eval(argument)?);
                }
                function::call(name, &values)?
            }
            Expr::Object(fields) => {
                let mut object = Map::new();
                for (name, expr) in fields {
                    if let Some(value) = self.eval(expr)? {
                        object.insert(name.clone(), value);
                    }
                }
                Some(Value::Object(object))
            }
            Expr::Array(items) => {
                let mut array = Vec::new();
                for item in items {
                    array.extend(self.eval(item)?);
                }
                Some(Value::Array(array))
            }
            Expr::Exists(select) => Some(self.exists(select)?.into()),
        })
    }

    fn is_in(&self, needle: &Expr, list: &[Expr]) -> Evaluated {
        let Some(needle) = self.eval(needle)? else {
            return Ok(None);
        };
        let mut found = false;
        for item in list {
            found |= self.eval(item)?.is_some_and(|item| equal(&needle, &item));
        }
        Ok(Some(found.into()))
    }

    fn lookup(&self, name: &str) -> Evaluated {
        self.names
            .iter()
            .rev()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.clone())
            .ok_or_else(|| {
                ServiceError::bad_request(format!("Identifier '{name}' could not be resolved."))
            })
    }

    /// Walks a path by reference, so that a property of a large document does not copy the document.
    fn member(&self, expr: &Expr) -> Evaluated {
        let mut keys = Vec::new();
        let mut at = expr;
        while let Expr::Member(parent, key) = at {
            keys.push(self.eval(key)?);
            at = parent;
        }
        let owned;
        let mut value = match at {
            Expr::Name(name) => {
                let bound = self.names.iter().rev().find(|(known, _)| known == name);
                match bound {
                    Some((_, value)) => value.as_ref(),
                    None => return self.lookup(name),
                }
            }
            other => {
                owned = self.eval(other)?;
                owned.as_ref()
            }
        };
        for key in keys.iter().rev() {
            value = match (value, key) {
                (Some(Value::Object(object)), Some(Value::String(name))) => object.get(name),
                (Some(Value::Array(items)), Some(Value::Number(index))) => index
                    .as_u64()
                    .and_then(|index| usize::try_from(index).ok())
                    .and_then(|index| items.get(index)),
                _ => None,
            };
        }
        Ok(value.cloned())
    }

    /// Walks a chain of operators from its left end, without a stack frame per link.
    fn binary(&self, chain: &Expr) -> Evaluated {
        let mut links = Vec::new();
        let mut at = chain;
        while let Expr::Binary(left, operator, right) = at {
            links.push((*operator, &**right));
            at = left;
        }
        let mut value = self.eval(at)?;
        for (operator, right) in links.into_iter().rev() {
            value = self.link(value, operator, right)?;
        }
        Ok(value)
    }

    fn link(&self, first: Option<Value>, operator: Binary, right: &Expr) -> Evaluated {
        // The three that do not need both sides.
        match (operator, &first) {
            (Binary::And, Some(Value::Bool(false))) => return Ok(Some(false.into())),
            (Binary::Or, Some(Value::Bool(true))) => return Ok(Some(true.into())),
            (Binary::Coalesce, Some(_)) => return Ok(first),
            (Binary::Coalesce, None) => return self.eval(right),
            _ => {}
        }
        let second = self.eval(right)?;
        Ok(match operator {
            Binary::And | Binary::Or => logic(operator, first.as_ref(), second.as_ref()),
            Binary::Equal | Binary::NotEqual => match (first, second) {
                (Some(a), Some(b)) => Some((equal(&a, &b) == (operator == Binary::Equal)).into()),
                _ => None,
            },
            Binary::Less | Binary::LessOrEqual | Binary::Greater | Binary::GreaterOrEqual => first
                .zip(second)
                .and_then(|(a, b)| compare(&a, &b))
                .map(|order| {
                    Value::Bool(match operator {
                        Binary::Less => order.is_lt(),
                        Binary::LessOrEqual => order.is_le(),
                        Binary::Greater => order.is_gt(),
                        _ => order.is_ge(),
                    })
                }),
            Binary::Concat => match (first, second) {
                (Some(Value::String(a)), Some(Value::String(b))) => Some(Value::String(a + &b)),
                _ => None,
            },
            _ => arithmetic(operator, first.as_ref(), second.as_ref()),
        })
    }

    fn exists(&self, select: &Select) -> Result<bool, ServiceError> {
        let inner = Scope {
            names: self.names.clone(),
            parameters: self.parameters,
        };
        for scope in inner.joined(select)? {
            if scope.holds(select.filter.as_ref())? && scope.project(&select.projection)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn unary(operator: Unary, operand: Option<Value>) -> Option<Value> {
    match (operator, operand?) {
        (Unary::Not, Value::Bool(value)) => Some((!value).into()),
        (Unary::Minus, Value::Number(value)) => value.as_f64().map(|value| number(-value)),
        (Unary::Plus, Value::Number(value)) => Some(Value::Number(value)),
        _ => None,
    }
}

/// Three-valued: undefined is neither true nor false.
fn logic(operator: Binary, a: Option<&Value>, b: Option<&Value>) -> Option<Value> {
    let (a, b) = (a.and_then(Value::as_bool), b.and_then(Value::as_bool));
    match (operator, a, b) {
        (Binary::And, Some(a), Some(b)) => Some((a && b).into()),
        (Binary::And, Some(false), None) | (Binary::And, None, Some(false)) => Some(false.into()),
        (Binary::Or, Some(a), Some(b)) => Some((a || b).into()),
        (Binary::Or, Some(true), None) | (Binary::Or, None, Some(true)) => Some(true.into()),
        _ => None,
    }
}

fn arithmetic(operator: Binary, a: Option<&Value>, b: Option<&Value>) -> Option<Value> {
    let (a, b) = (a?.as_f64()?, b?.as_f64()?);
    let result = match operator {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide => a / b,
        Binary::Remainder => a % b,
        _ => return None,
    };
    result.is_finite().then(|| number(result))
}

/// Folds the rows of a query (of one group) into its projection.
pub(crate) fn aggregate(rows: &[Scope<'_>], projection: &Projection) -> Evaluated {
    match projection {
        Projection::Star => Err(ServiceError::bad_request(
            "'SELECT *' cannot be aggregated.",
        )),
        Projection::Value(expr) => fold(rows, expr),
        Projection::List(fields) => {
            let mut object = Map::new();
            for (name, expr) in fields {
                if let Some(value) = fold(rows, expr)? {
                    object.insert(name.clone(), value);
                }
            }
            Ok(Some(Value::Object(object)))
        }
    }
}

fn fold(rows: &[Scope<'_>], expr: &Expr) -> Evaluated {
    match expr {
        Expr::Call(name, arguments) if Expr::is_aggregate_name(name) => {
            let argument = arguments
                .first()
                .ok_or_else(|| ServiceError::bad_request(format!("{name} takes one argument.")))?;
            let mut values = Vec::new();
            for row in rows {
                values.extend(row.eval(argument)?);
            }
            Ok(fold_values(name, values))
        }
        Expr::Object(fields) => {
            let mut object = Map::new();
            for (name, expr) in fields {
                if let Some(value) = fold(rows, expr)? {
                    object.insert(name.clone(), value);
                }
            }
            Ok(Some(Value::Object(object)))
        }
        Expr::Array(items) => {
            let mut array = Vec::new();
            for item in items {
                array.extend(fold(rows, item)?);
            }
            Ok(Some(Value::Array(array)))
        }
        other => rows.first().map_or(Ok(None), |row| row.eval(other)),
    }
}

fn fold_values(name: &str, values: Vec<Value>) -> Option<Value> {
    match name {
        "COUNT" => Some(Value::from(values.len())),
        "MIN" => values.into_iter().min_by(|a, b| order(Some(a), Some(b))),
        "MAX" => values.into_iter().max_by(|a, b| order(Some(a), Some(b))),
        _ => {
            // One value that is no number makes a sum undefined.
            let numbers: Option<Vec<f64>> = values.iter().map(Value::as_f64).collect();
            let numbers = numbers?;
            let sum: f64 = numbers.iter().sum();
            if name == "SUM" {
                return Some(number(sum));
            }
            #[expect(clippy::cast_precision_loss, reason = "a count of rows")]
            let count = numbers.len() as f64;
            (!numbers.is_empty()).then(|| number(sum / count))
        }
    }
}

/// Compares two rows by their sort keys.
pub(crate) fn by_keys(a: &[Option<Value>], b: &[Option<Value>], descending: &[bool]) -> Ordering {
    for ((a, b), descending) in a.iter().zip(b).zip(descending) {
        let order = order(a.as_ref(), b.as_ref());
        let order = if *descending { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}
