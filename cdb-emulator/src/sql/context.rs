//! What every expression of a query can reach: parameters, one reading of the clock, and how much work is left.
//!
//! The service ends a query after five seconds of work. Here the work on one row is counted instead, so that a query
//! which squares an array a dozen times is refused alike on every machine, before it fills the memory.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::pattern::Patterns;
use crate::error::ServiceError;

/// A time in units of 100 nanoseconds since 1970.
pub(super) type Ticks = i64;

/// Units of work on one row: one per expression that is evaluated and per 32 bytes of what it makes.
const ROW: usize = 4_000_000;

/// The surroundings of a query.
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
    /// Surroundings with these parameters at this time.
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

    /// The parameters by name, `@` included.
    pub(crate) fn parameters(&self) -> &HashMap<String, Value> {
        &self.parameters
    }

    /// When the query began, in ticks since 1970. One reading for the whole query: what the service guarantees for the
    /// `…Static` functions only.
    pub(super) fn now(&self) -> Ticks {
        self.now
    }

    /// Grants the work for another row, unless a sub-query asks.
    pub(crate) fn begin_row(&self) {
        if self.nested.get() == 0 {
            self.left.set(ROW);
        }
    }

    /// Does something as a sub-query, whose rows are paid from the row around it.
    pub(super) fn nested<T>(&self, work: impl FnOnce() -> T) -> T {
        self.nested.set(self.nested.get() + 1);
        let result = work();
        self.nested.set(self.nested.get() - 1);
        result
    }

    /// Takes from the work that is left.
    pub(super) fn spend(&self, units: usize) -> Result<(), ServiceError> {
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

    /// Remembers why a function could not do its work; its value does not count.
    pub(super) fn fail(&self, error: ServiceError) {
        self.failure.borrow_mut().get_or_insert(error);
    }

    /// Whether all functions could do their work.
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Pays for a value that was made.
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
