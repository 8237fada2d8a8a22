//! Queries of what is not documents: databases, containers. There are few of them, so each is looked at.

use serde_json::Value;

use super::query::Sent;
use crate::error::ServiceError;
use crate::service::Asked;
use crate::sql;
use crate::sql::eval::Scope;

/// What a query returns of these resources.
pub(super) fn query(asked: &Asked, resources: Vec<Value>) -> Result<Vec<Value>, ServiceError> {
    let sent: Sent = serde_json::from_slice(&asked.body)?;
    let select = sql::parse(&sent.query)?;
    let parameters = sent.parameters();
    let mut found = Vec::new();
    for resource in resources {
        let scope = Scope::new(&select.alias, resource, &parameters);
        if scope.holds(select.filter.as_ref())? {
            found.extend(scope.project(&select.projection)?);
        }
    }
    Ok(found)
}
