//! Plans of queries, for clients that query several physical partitions and merge the results.

use super::body::QueryBody;
use crate::account::Service;
use crate::op::target::container_by_name;
use crate::plan::{PlanInput, QueryPlan};
use crate::protocol::{Request, Response, ServiceError, header};
use crate::store::Container;

/// Executes `POST …/docs` for the plan of a query.
pub(in crate::op) fn plan(service: &Service, request: &Request) -> Result<Response, ServiceError> {
    let body: QueryBody = request.json()?;
    let container = container_by_name(&*service.store.read()?, request)?;
    let plan = of(&body, &container)?;
    check_features(request, &plan)?;
    Ok(Response::json(200, &plan.to_json()))
}

/// Plans a query of a container.
pub(in crate::op) fn of(
    body: &QueryBody,
    container: &Container,
) -> Result<QueryPlan, ServiceError> {
    QueryPlan::of(PlanInput {
        text: &body.query,
        parameters: &body.parameters(),
        key: &container.partition_key_paths(),
        version: container.key_version(),
        definition: &container.definition,
    })
}

/// Rejects a plan that the client does not support. Wording: .NET client, `QueryPlanHandler`, which
/// is the service's.
fn check_features(request: &Request, plan: &QueryPlan) -> Result<(), ServiceError> {
    let supported =
        header(&request.headers, "x-ms-cosmos-supported-query-features").unwrap_or_default();
    let supported: Vec<&str> = supported.split(',').map(str::trim).collect();
    let missing: Vec<String> = plan
        .features()
        .into_iter()
        .filter(|feature| !supported.contains(feature))
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
