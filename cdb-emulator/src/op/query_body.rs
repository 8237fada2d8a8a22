//! The body of a query request.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::clock::now;
use crate::sql::Context;

/// A query with its parameters.
#[derive(Debug, Deserialize)]
pub(super) struct QueryBody {
    pub(super) query: String,
    #[serde(default)]
    parameters: Vec<Parameter>,
}

impl QueryBody {
    /// Returns the context in which its expressions are evaluated.
    pub(super) fn context(&self) -> Context {
        Context::new(self.parameters(), now())
    }

    /// Returns the parameters by name.
    pub(super) fn parameters(&self) -> HashMap<String, Value> {
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
