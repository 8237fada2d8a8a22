//! Plans of queries, for clients that run them over several physical partitions and merge what comes.

use super::query::Sent;
use crate::error::ServiceError;
use crate::query_plan::{Query, QueryPlan};
use crate::route::header;
use crate::service::{Answer, Asked, Service};
use crate::store::Container;

/// `POST …/docs` with a query whose plan is asked for.
pub(super) fn plan(
    service: &Service,
    asked: &Asked,
    (db, coll): (&str, &str),
) -> Result<Answer, ServiceError> {
    let sent: Sent = serde_json::from_slice(&asked.body)?;
    let key = {
        let connection = service.store.read()?;
        Container::find(&connection, db, coll)?.partition_key_paths()
    };
    let plan = QueryPlan::of(Query {
        text: &sent.query,
        parameters: &sent.parameters(),
        key: &key,
    })?;
    knows(asked, &plan)?;
    Ok(Answer::json(200, &plan.to_json()))
}

/// Refuses a plan that the client says it cannot run. Wording: .NET client, `QueryPlanHandler`, which is the service's.
fn knows(asked: &Asked, plan: &QueryPlan) -> Result<(), ServiceError> {
    let known = header(&asked.headers, "x-ms-cosmos-supported-query-features").unwrap_or_default();
    let known: Vec<&str> = known.split(',').map(str::trim).collect();
    let missing: Vec<String> = plan
        .features()
        .into_iter()
        .filter(|feature| !known.contains(feature))
        .map(|feature| {
            format!("Query contained {feature}, which the calling client does not support.")
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ServiceError::bad_request(format!(
        "Query contains 1 or more unsupported features. Upgrade your SDK to a version that does support the requested \
         features:\r\n{}",
        missing.join("\r\n")
    )))
}
