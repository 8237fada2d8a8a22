//! Queries of documents.

use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::access::Access;
use super::continuation::Binding;
use super::cost_inputs::{Times, with_cost};
use super::query_body::QueryBody;
use super::query_plan;
use super::run::{Page, Run};
use super::scope::Scope;
use super::target::container;
use crate::error::ServiceError;
use crate::index_use::IndexUse;
use crate::plan;
use crate::request::Request;
use crate::response::Response;
use crate::route::flag;
use crate::service::Service;
use crate::sql;
use crate::sql::ast::Select;
use crate::store::Container;

/// The default page size.
const PAGE: usize = 1000;

/// Executes `POST …/docs` with a query.
pub(super) fn query(
    service: &Service,
    request: &Request,
    (db, coll): (&str, &str),
) -> Result<Response, ServiceError> {
    let body: QueryBody = serde_json::from_slice(&request.body)?;
    service.note_query(&body.query);
    let begun = Instant::now();
    let mut select = service.parsed.parse(&body.query)?;
    let times = Times {
        begun,
        compiled: begun.elapsed(),
    };
    let context = body.context();
    let connection = service.store.read()?;
    let container = container(&connection, request, (db, coll))?;
    let scope = Scope::of(&request.headers, &container)?;
    check_cross_partition(request, (&select, &body), &scope, &container)?;
    let index = IndexUse::of(&select, container.policy());
    if sql::needs_binding(&body.query, &container.definition) {
        sql::bind(Arc::make_mut(&mut select), &container.definition)?;
    }
    let binding = Binding::of(request, &scope, &select);
    let position = binding.position(request)?;
    let ranges = scope.ranges.len();
    let access = Access::read(service, &connection, request, &container, scope.ranges)?;
    let view = access.view(&container);
    let run = Run {
        connection: &connection,
        container: &view,
        context: &context,
        scope: scope.rows,
        joined: index.joined,
        former: service.index_builds.former(container.number),
        limit: request.page_size()?.unwrap_or(PAGE),
    };
    let page = run.page(&select, position)?;
    let (inputs, rows) = (page.cost_inputs, page.rows.len());
    let response = with_cost(
        request,
        response(page, &container, &binding)?,
        (inputs, &index),
        (ranges, rows),
        times,
    );
    let lsn = access.lsn();
    Ok(access.end(response, lsn))
}

fn response(
    page: Page,
    container: &Container,
    binding: &Binding,
) -> Result<Response, ServiceError> {
    let count = page.rows.len();
    let body = json!({ "_rid": container.rid(), "Documents": page.rows, "_count": count });
    let mut response = Response::json(200, &body).with("x-ms-item-count", count.to_string());
    if let Some(next) = page.next {
        response = response.with("x-ms-continuation", binding.token(next)?);
    }
    Ok(response)
}

/// Checks a query of the whole container: it needs a header, and the gateway must be able to answer
/// it without a merge.
fn check_cross_partition(
    request: &Request,
    (select, body): (&Select, &QueryBody),
    scope: &Scope<'_>,
    container: &Container,
) -> Result<(), ServiceError> {
    if !scope.everything && !select.rank {
        return Ok(());
    }
    if scope.everything
        && !flag(
            &request.headers,
            "x-ms-documentdb-query-enablecrosspartition",
        )
    {
        return Err(ServiceError::bad_request(
            "Cross partition query is required but disabled. Please set \
             x-ms-documentdb-query-enablecrosspartition to true, specify \
             x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
        ));
    }
    plan::gateway(select).map_err(|error| with_plan(error, body, container))
}

/// Adds the plan to the refusal, so that a client needs no second request.
fn with_plan(mut error: ServiceError, body: &QueryBody, container: &Container) -> ServiceError {
    match query_plan::of(body, container) {
        Ok(plan) => {
            error.plan = Some(plan.to_json().to_string().into());
            error
        }
        Err(unplanned) => unplanned,
    }
}
