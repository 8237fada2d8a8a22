//! The interface of the engine in builds without the feature `scripts`: it refuses every script.

use std::borrow::Cow;

use serde_json::Value;

use super::feature::require;
use super::host::{Ended, Host, Messages, Setup, Source};
use crate::error::ServiceError;
use crate::sql::UserFunctions;

/// Refuses to run a script.
pub(crate) fn run(_: Source<'_>, _: &Setup<'_>, _: &[Value], _: &mut dyn Host) -> Ended {
    Ended {
        result: require().map(|()| Messages::default()),
        log: String::new(),
    }
}

/// The user-defined functions of a query: this build has none.
#[derive(Debug)]
pub(crate) struct Functions;

impl Functions {
    /// Refuses to compile functions.
    pub(crate) fn compile(_: &[Source<'_>]) -> Result<Self, ServiceError> {
        require().map(|()| Self)
    }
}

impl UserFunctions for Functions {
    fn call(&self, _: &str, _: &[Option<Cow<'_, Value>>]) -> Result<Option<Value>, ServiceError> {
        require().map(|()| None)
    }
}
