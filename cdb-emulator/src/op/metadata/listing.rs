//! Queries of databases, containers and offers. There are few of them, so a query scans them all.

use serde_json::Value;

use crate::account::Service;
use crate::op::query::body::QueryBody;
use crate::protocol::{Request, ServiceError};
use crate::sql::eval::Scope;
use crate::sql::{self, rows};

/// Runs a query over these resources.
pub(in crate::op) fn query(
    service: &Service,
    request: &Request,
    resources: Vec<Value>,
) -> Result<Vec<Value>, ServiceError> {
    let mut body: QueryBody = request.json()?;
    let select = sql::parse(&body.query)?;
    let context = body.context(service.clock.now());
    let mut found = Vec::new();
    for resource in resources {
        found.extend(Scope::new(&select.alias, resource, &context).matching(&select)?);
    }
    rows::finish(&select, rows::sort(&select, found)?, &context)
}
