//! Queries of databases, containers and offers. There are few of them, so a query scans them all.

use serde_json::Value;

use super::query_body::QueryBody;
use crate::error::ServiceError;
use crate::request::Request;
use crate::sql::eval::Scope;
use crate::sql::{self, rows};

/// Runs a query over these resources.
pub(super) fn query(request: &Request, resources: Vec<Value>) -> Result<Vec<Value>, ServiceError> {
    let body: QueryBody = serde_json::from_slice(&request.body)?;
    let select = sql::parse(&body.query)?;
    let context = body.context();
    let mut found = Vec::new();
    for resource in resources {
        found.extend(Scope::new(&select.alias, resource, &context).matching(&select)?);
    }
    rows::finish(&select, rows::sort(&select, found)?, &context)
}
