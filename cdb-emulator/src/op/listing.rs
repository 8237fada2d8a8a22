//! Queries of what is not documents: databases, containers. There are few of them, so each is looked at.

use serde_json::Value;

use super::query::Sent;
use crate::error::ServiceError;
use crate::service::Asked;
use crate::sql::eval::Scope;
use crate::sql::{self, rows};

/// What a query returns of these resources.
pub(super) fn query(asked: &Asked, resources: Vec<Value>) -> Result<Vec<Value>, ServiceError> {
    let sent: Sent = serde_json::from_slice(&asked.body)?;
    let select = sql::parse(&sent.query)?;
    let context = sent.context();
    let mut found = Vec::new();
    for resource in resources {
        found.extend(Scope::new(&select.alias, resource, &context).matching(&select)?);
    }
    rows::finish(&select, rows::sort(&select, found)?, &context)
}
