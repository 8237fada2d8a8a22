//! The context of a query's expressions: parameters, the time of the query, and the work budget.
//!
//! The service ends a query after five seconds. Here the work on each row is counted, so that an
//! expensive query is rejected in the same way on every machine, before it fills the memory.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::pattern::Patterns;
use crate::error::ServiceError;

/// A time in units of 100 nanoseconds since 1970.
pub(super) type Ticks = i64;

/// The work budget of a row: one unit per evaluated expression and per 32 bytes of its result.
const ROW: usize = 4_000_000;

/// The user-defined functions that a query can call.
pub(crate) trait UserFunctions: fmt::Debug {
    /// Calls a function. An argument or a result of `None` is undefined.
    fn call(
        &self,
        name: &str,
        arguments: &[Option<Cow<'_, Value>>],
    ) -> Result<Option<Value>, ServiceError>;
}

/// The context of a query.
#[derive(Debug)]
pub(crate) struct Context {
    parameters: HashMap<String, Value>,
    now: Ticks,
    left: Cell<usize>,
    /// The work for all rows.
    spent: Cell<usize>,
    nested: Cell<usize>,
    failure: RefCell<Option<ServiceError>>,
    /// The functions of the container; `None` for queries of other resources.
    functions: Option<Box<dyn UserFunctions>>,
    pub(super) patterns: Patterns,
}

impl Context {
    /// Creates a context with these parameters at this time.
    pub(crate) fn new(parameters: HashMap<String, Value>, now: SystemTime) -> Self {
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            parameters,
            now: i64::try_from(since.as_nanos() / 100).unwrap_or(i64::MAX),
            left: Cell::new(ROW),
            spent: Cell::new(0),
            nested: Cell::new(0),
            failure: RefCell::new(None),
            functions: None,
            patterns: Patterns::default(),
        }
    }

    /// Adds the user-defined functions of a container.
    pub(crate) fn set_functions(&mut self, functions: Box<dyn UserFunctions>) {
        self.functions = Some(functions);
    }

    /// Calls a user-defined function.
    pub(super) fn call_user_function(
        &self,
        name: &str,
        arguments: &[Option<Cow<'_, Value>>],
    ) -> Result<Option<Value>, ServiceError> {
        match &self.functions {
            Some(functions) => functions.call(name, arguments),
            None => Err(unknown_function(name)),
        }
    }

    /// Returns the parameters by name, including `@`.
    pub(crate) fn parameters(&self) -> &HashMap<String, Value> {
        &self.parameters
    }

    /// Returns the start of the query in ticks since 1970. It is constant for the whole query,
    /// which the service guarantees only for the `…Static` functions.
    pub(super) fn now(&self) -> Ticks {
        self.now
    }

    /// Returns the start of the query in seconds since 1970.
    pub(crate) fn now_secs(&self) -> i64 {
        self.now / 10_000_000
    }

    /// Resets the work budget for the next row, except in a sub-query.
    pub(crate) fn begin_row(&self) {
        if self.nested.get() == 0 {
            self.left.set(ROW);
        }
    }

    /// Runs a sub-query. Its rows use the budget of the outer row.
    pub(super) fn nested<T>(&self, work: impl FnOnce() -> T) -> T {
        self.nested.set(self.nested.get() + 1);
        let result = work();
        self.nested.set(self.nested.get() - 1);
        result
    }

    /// Charges work. Fails when the budget is exhausted.
    pub(crate) fn spend(&self, units: usize) -> Result<(), ServiceError> {
        match self.left.get().checked_sub(units) {
            Some(left) => {
                self.left.set(left);
                self.spent.set(self.spent.get().saturating_add(units));
                Ok(())
            }
            None => Err(ServiceError::bad_request(
                "The query takes more work on a single item than the service allows; simplify its joins and sub-queries.",
            )),
        }
    }

    /// Returns the work for all rows.
    pub(crate) fn spent(&self) -> usize {
        self.spent.get()
    }

    /// Records the failure of a function. Its value is ignored.
    pub(super) fn fail(&self, error: ServiceError) {
        self.failure.borrow_mut().get_or_insert(error);
    }

    /// Fails if a function failed.
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Charges the work for a new value.
    pub(super) fn pay(&self, value: &Value) -> Result<(), ServiceError> {
        match value {
            Value::String(text) => self.spend(text.len() / 32),
            Value::Array(items) => {
                self.spend(items.len())?;
                items.iter().try_for_each(|item| self.pay(item))
            }
            Value::Object(object) => object.iter().try_for_each(|(name, item)| {
                self.spend(3 + name.len() / 32)?;
                self.pay(item)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }
}

/// Returns the error for a user-defined function that does not exist.
pub(crate) fn unknown_function(name: &str) -> ServiceError {
    let cause = format!("'udf.{name}' is not a user-defined function of the container.");
    ServiceError::bad_request(format!("Message: {}", json!({ "Errors": [cause] })))
}
