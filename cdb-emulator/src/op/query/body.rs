//! The body of a query request.

use std::collections::HashMap;
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::Value;

use crate::plan::KeyRanges;
use crate::sql::Context;
use crate::sql::ast::Select;
use crate::store::Container;

/// A query with its parameters.
#[derive(Debug, Deserialize)]
pub(in crate::op) struct QueryBody {
    pub(in crate::op) query: String,
    #[serde(default)]
    parameters: Vec<Parameter>,
}

impl QueryBody {
    /// Takes the parameters into the context in which its expressions are evaluated at this time.
    pub(in crate::op) fn context(&mut self, now: SystemTime) -> Context {
        let parameters = std::mem::take(&mut self.parameters).into_iter();
        let parameters = parameters.map(|parameter| (parameter.name, parameter.value));
        Context::new(parameters.collect(), now)
    }

    /// Returns the ranges of partition keys that the query can have results in.
    pub(in crate::op) fn key_ranges(&self, select: &Select, container: &Container) -> KeyRanges {
        let paths = container.partition_key_paths();
        KeyRanges::of(select, &self.parameters(), &paths, container.key_version())
    }

    /// Returns the parameters by name.
    pub(in crate::op) fn parameters(&self) -> HashMap<String, Value> {
        let parameters = self.parameters.iter();
        parameters
            .map(|parameter| (parameter.name.clone(), parameter.value.clone()))
            .collect()
    }
}

#[derive(Debug, Deserialize)]
struct Parameter {
    name: String,
    value: Value,
}
