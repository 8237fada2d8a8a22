//! The context of a query's expressions: parameters, the time of the query, and the work budget.
//!
//! The service ends a query after five seconds. Here the work on each row is counted, so that an
//! expensive query is rejected in the same way on every machine, before it fills the memory.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::pattern::Patterns;
use crate::protocol::ServiceError;

/// A time in units of 100 nanoseconds since 1970.
pub(super) type Ticks = i64;

/// The work budget of a row: one unit per evaluated expression and per 32 bytes of its result.
const ROW: usize = 4_000_000;

/// The context of a query.
#[derive(Debug)]
pub(crate) struct Context {
    parameters: HashMap<String, Value>,
    now: Ticks,
    left: Cell<usize>,
    nested: Cell<usize>,
    failure: RefCell<Option<ServiceError>>,
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
            nested: Cell::new(0),
            failure: RefCell::new(None),
            patterns: Patterns::default(),
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
                Ok(())
            }
            None => Err(ServiceError::bad_request(
                "The query takes more work on a single item than the service allows; simplify its joins and sub-queries.",
            )),
        }
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
