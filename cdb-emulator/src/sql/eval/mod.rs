//! Evaluates expressions on a document. Undefined is `None`, and propagates as on the service.
//!
//! Values are borrowed where possible: a filter on one property of a large document copies nothing.

mod operator;

use std::borrow::Cow;
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::protocol::ServiceError;
use crate::sql::ast::{Binary, Expr, Pick, Projection, Select};
use crate::sql::context::Context;
use crate::sql::pattern;
use crate::sql::value::{compare, equal};

/// The bound names, the innermost last.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'a> {
    names: Vec<(&'a str, Rc<Value>)>,
    context: &'a Context,
    /// The rows of the group that aggregates fold.
    group: Option<Rc<Vec<Scope<'a>>>>,
}

pub(super) type Evaluated<'s> = Result<Option<Cow<'s, Value>>, ServiceError>;

impl<'a> Scope<'a> {
    /// Binds a document to its alias.
    pub(crate) fn new(alias: &'a str, document: Value, context: &'a Context) -> Self {
        context.begin_row();
        Self {
            names: vec![(alias, Rc::new(document))],
            context,
            group: None,
        }
    }

    /// Creates a scope without a document, for queries without FROM.
    pub(crate) fn constant(context: &'a Context) -> Self {
        context.begin_row();
        Self {
            names: Vec::new(),
            context,
            group: None,
        }
    }

    /// Returns the context of the query.
    pub(crate) fn context(&self) -> &'a Context {
        self.context
    }

    /// Adds a name.
    pub(super) fn with(&self, name: &'a str, value: Value) -> Self {
        let mut inner = self.clone();
        inner.names.push((name, Rc::new(value)));
        inner
    }

    /// Creates the scope of a group: the names of its first row, and all rows for aggregates.
    pub(super) fn grouped(rows: Vec<Self>, context: &'a Context) -> Self {
        Self {
            names: rows
                .first()
                .map(|row| row.names.clone())
                .unwrap_or_default(),
            context,
            group: Some(Rc::new(rows)),
        }
    }

    /// Returns whether a condition is `true`.
    pub(crate) fn holds(&self, condition: Option<&Expr>) -> Result<bool, ServiceError> {
        match condition {
            None => Ok(true),
            Some(condition) => Ok(self.eval(condition)?.as_deref() == Some(&Value::Bool(true))),
        }
    }

    /// Returns the projection of this row; `None` if it is undefined.
    pub(crate) fn project(&self, select: &Select) -> Result<Option<Value>, ServiceError> {
        match &select.projection {
            Projection::Star => {
                // `*` requires a single input set, which is the last bound name.
                let row = self.names.last().map(|(_, value)| Value::clone(value));
                row.as_ref().map_or(Ok(()), |row| self.context.pay(row))?;
                Ok(row)
            }
            Projection::Value(expr) => self.owned(expr),
            Projection::List(fields) => self.object(fields).map(Some),
        }
    }

    /// Evaluates an expression to an owned value.
    pub(crate) fn owned(&self, expr: &Expr) -> Result<Option<Value>, ServiceError> {
        match self.eval(expr)? {
            Some(Cow::Borrowed(value)) => {
                self.context.pay(value)?;
                Ok(Some(value.clone()))
            }
            Some(Cow::Owned(value)) => Ok(Some(value)),
            None => Ok(None),
        }
    }

    /// Evaluates an expression.
    pub(crate) fn eval<'s>(&'s self, expr: &'s Expr) -> Evaluated<'s> {
        self.context.spend(1)?;
        match expr {
            Expr::Literal(value) => Ok(Some(Cow::Borrowed(value))),
            Expr::Undefined => Ok(None),
            Expr::Parameter(name) => Ok(self.context.parameters().get(name).map(Cow::Borrowed)),
            Expr::Name(name) => Ok(self.lookup(name).map(Cow::Borrowed)),
            Expr::Member(..) => self.member(expr),
            Expr::Unary(operator, operand) => {
                let operand = self.eval(operand)?;
                Ok(operand
                    .and_then(|value| operator::unary(*operator, &value))
                    .map(Cow::Owned))
            }
            Expr::Binary(..) => self.binary(expr),
            Expr::Conditional(condition, yes, no) => {
                let branch = if self.holds(Some(condition))? {
                    yes
                } else {
                    no
                };
                self.eval(branch)
            }
            other => Ok(self.made(other)?.map(Cow::Owned)),
        }
    }

    /// Evaluates an expression that creates a value.
    fn made(&self, expr: &Expr) -> Result<Option<Value>, ServiceError> {
        match expr {
            Expr::In(needle, list) => self.is_in(needle, list),
            Expr::Between(value, low, high) => self.between([value, low, high]),
            Expr::Like(text, pattern, escape) => self.like(text, pattern, *escape),
            Expr::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.eval(argument)?);
                }
                let result = function.call(&values, self.context);
                self.context.check()?;
                Ok(result)
            }
            Expr::Aggregate(aggregate, argument) => {
                let Some(rows) = &self.group else {
                    return Err(ServiceError::bad_request(format!(
                        "{} requires the rows of a query, and there are none here.",
                        aggregate.name()
                    )));
                };
                let mut values = Vec::new();
                for row in &**rows {
                    self.context.begin_row();
                    values.extend(row.owned(argument)?);
                }
                Ok(aggregate.fold(values))
            }
            Expr::Object(fields) => self.object(fields).map(Some),
            Expr::Array(items) => {
                let mut array = Vec::new();
                for item in items {
                    array.extend(self.owned(item)?);
                }
                Ok(Some(Value::Array(array)))
            }
            Expr::Exists(select) => Ok(Some(self.has_rows(select)?.into())),
            Expr::Collect(select) => Ok(Some(Value::Array(self.rows(select)?))),
            Expr::Scalar(select) => {
                let mut rows = self.rows(select)?;
                if rows.len() > 1 {
                    return Err(ServiceError::bad_request(
                        "The cardinality of a scalar subquery result set cannot be greater than 1.",
                    ));
                }
                Ok(rows.pop())
            }
            Expr::Pick(pick, select) => {
                let mut rows = self.rows(select)?.into_iter();
                Ok(match pick {
                    Pick::First => rows.next(),
                    Pick::Last => rows.next_back(),
                })
            }
            // `eval` handles the other kinds.
            _ => Ok(None),
        }
    }

    fn object(&self, fields: &[(String, Expr)]) -> Result<Value, ServiceError> {
        let mut object = Map::new();
        for (name, expr) in fields {
            if let Some(value) = self.owned(expr)? {
                self.context.spend(1 + name.len() / 32)?;
                object.insert(name.clone(), value);
            }
        }
        Ok(Value::Object(object))
    }

    fn is_in(&self, needle: &Expr, list: &[Expr]) -> Result<Option<Value>, ServiceError> {
        let Some(needle) = self.eval(needle)? else {
            return Ok(None);
        };
        let mut found = false;
        for item in list {
            self.context.pay(&needle)?;
            found |= self.eval(item)?.is_some_and(|item| equal(&needle, &item));
        }
        Ok(Some(found.into()))
    }

    /// Evaluates `value >= low AND value <= high` in three-valued logic.
    fn between(&self, [value, low, high]: [&Expr; 3]) -> Result<Option<Value>, ServiceError> {
        let (value, low, high) = (self.eval(value)?, self.eval(low)?, self.eval(high)?);
        let against =
            |bound: &Option<Cow<'_, Value>>| compare(value.as_deref()?, bound.as_deref()?);
        let above = against(&low).map(|order| Value::Bool(order.is_ge()));
        let below = against(&high).map(|order| Value::Bool(order.is_le()));
        Ok(operator::logic(Binary::And, above.as_ref(), below.as_ref()))
    }

    fn like(
        &self,
        text: &Expr,
        pattern: &Expr,
        escape: Option<char>,
    ) -> Result<Option<Value>, ServiceError> {
        let (text, pattern) = (self.eval(text)?, self.eval(pattern)?);
        let (Some(Value::String(text)), Some(Value::String(pattern))) =
            (text.as_deref(), pattern.as_deref())
        else {
            return Ok(None);
        };
        self.context
            .spend((text.len() / 16 + 1).saturating_mul(pattern.len() / 4 + 1))?;
        Ok(Some(pattern::like(text, pattern, escape).into()))
    }

    /// Returns the value of a name; `None` only in a group without rows.
    fn lookup(&self, name: &str) -> Option<&Value> {
        let bound = self.names.iter().rev().find(|(known, _)| *known == name);
        bound.map(|(_, value)| &**value)
    }

    /// Evaluates a path without recursion, because paths can be long.
    fn member<'s>(&'s self, expr: &'s Expr) -> Evaluated<'s> {
        let mut keys = Vec::new();
        let mut at = expr;
        while let Expr::Member(parent, key) = at {
            keys.push(self.eval(key)?);
            at = parent;
        }
        let mut value = match at {
            Expr::Name(name) => self.lookup(name).map(Cow::Borrowed),
            other => self.eval(other)?,
        };
        for key in keys.into_iter().rev() {
            value = match (value, key.as_deref()) {
                (Some(Cow::Borrowed(value)), Some(key)) => step(value, key).map(Cow::Borrowed),
                (Some(Cow::Owned(value)), Some(key)) => step(&value, key).cloned().map(Cow::Owned),
                _ => None,
            };
        }
        Ok(value)
    }

    /// Evaluates a chain of operators from the left without recursion, because chains can be long.
    fn binary<'s>(&'s self, chain: &'s Expr) -> Evaluated<'s> {
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

    fn link<'s>(
        &'s self,
        first: Option<Cow<'s, Value>>,
        operator: Binary,
        right: &'s Expr,
    ) -> Evaluated<'s> {
        // These operators may not need their right operand.
        match (operator, first.as_deref()) {
            (Binary::And, Some(Value::Bool(false))) | (Binary::Or, Some(Value::Bool(true))) => {
                return Ok(first);
            }
            (Binary::Coalesce, Some(_)) => return Ok(first),
            (Binary::Coalesce, None) => return self.eval(right),
            _ => {}
        }
        let second = self.eval(right)?;
        if let Some(first) = &first {
            self.context.pay(first)?;
        }
        let result = operator::binary(operator, first.as_deref(), second.as_deref());
        if let Some(Value::String(made)) = &result {
            self.context.spend(made.len() / 32)?;
        }
        Ok(result.map(Cow::Owned))
    }
}

/// Returns a property of an object, or an element of an array.
fn step<'v>(value: &'v Value, key: &Value) -> Option<&'v Value> {
    match (value, key) {
        (Value::Object(object), Value::String(name)) => object.get(name),
        (Value::Array(items), Value::Number(index)) => {
            items.get(usize::try_from(index.as_u64()?).ok()?)
        }
        _ => None,
    }
}
