//! Queries of documents.

use std::sync::Arc;

use super::body::QueryBody;
use super::continuation::{Binding, EpkBounds, Position};
use super::cost_inputs::{PageCost, Times, with_cost};
use super::query_plan;
use super::run::{Page, Run};
use super::scope::RequestScope;
use crate::account::Service;
use crate::op::access::Access;
use crate::op::target::container;
use crate::plan::{self, IndexUse, KeyRanges};
use crate::protocol::{Request, Response, ServiceError, flag};
use crate::sql::ast::Select;
use crate::store::{Connection, Container, Policy};
use crate::time::stopwatch;

/// The default page size.
const PAGE: usize = 1000;

/// Executes `POST …/docs` with a query.
pub(in crate::op) fn query(service: &Service, request: &Request) -> Result<Response, ServiceError> {
    let body: QueryBody = request.json()?;
    service.note_query(&body.query);
    let query = ParsedQuery::parse(service, request, body)?;
    let connection = service.store.read()?;
    let container = container(&connection, request)?;
    let mut scope = RequestScope::of(&request.headers, &container)?;
    let keys = if scope.everything {
        query.body.key_ranges(&query.select, &container)
    } else {
        KeyRanges::default()
    };
    check_cross_partition(&query, &scope, &keys, &container)?;
    if scope.everything {
        scope = scope.of_page(request, &container, &keys)?;
    }
    let ranges = scope.ranges.clone();
    let access = Access::read(service, &connection, request, &container, ranges)?;
    let view = access.view(&container);
    let next = scope.next(&container, &keys);
    let response = query.page(service, &connection, &view, scope, next)?;
    let lsn = access.lsn();
    Ok(access.end(response, lsn))
}

/// A parsed query.
struct ParsedQuery<'a> {
    request: &'a Request,
    body: QueryBody,
    select: Arc<Select>,
    times: Times,
}

impl<'a> ParsedQuery<'a> {
    fn parse(
        service: &Service,
        request: &'a Request,
        body: QueryBody,
    ) -> Result<Self, ServiceError> {
        let begun = stopwatch();
        let select = service.parsed.parse(&body.query)?;
        let times = Times {
            begun,
            compiled: begun.elapsed(),
        };
        Ok(Self {
            request,
            body,
            select,
            times,
        })
    }

    /// Returns the requested page of a scope.
    fn page(
        mut self,
        service: &Service,
        connection: &Connection,
        container: &Container,
        scope: RequestScope<'_>,
        next: Option<EpkBounds>,
    ) -> Result<Response, ServiceError> {
        let request = self.request;
        let select = &mut self.select;
        let index = IndexUse::of(select, container.policy());
        if plan::needs_binding(&self.body.query, &container.definition) {
            plan::bind(Arc::make_mut(select), &container.definition)?;
        }
        let context = self.body.context(service.clock.now());
        let bounds = scope.bounds;
        let binding = |bounds| Binding::of(request, bounds, select);
        let position = Position::of(request, || binding(bounds.clone()))?;
        let ranges = scope.ranges.len();
        let run = Run {
            connection,
            container,
            context: &context,
            scope: scope.rows,
            joined: index.joined,
            former: service
                .index_builds
                .former(container.number)
                .map(|policy| Policy::of(&policy)),
            limit: request.page_size()?.unwrap_or(PAGE),
        };
        let mut page = run.page(select, position)?;
        let next = match (page.next.take(), next) {
            (Some(position), _) => Some(binding(bounds).token(position)?),
            (None, Some(partition)) => Some(binding(partition).token(Position::default())?),
            (None, None) => None,
        };
        let (inputs, rows) = (page.cost_inputs, page.rows.len());
        Ok(with_cost(
            request,
            response(&page, container, next),
            &index,
            &PageCost {
                inputs,
                ranges,
                rows,
                times: self.times,
            },
        ))
    }
}

fn response(page: &Page, container: &Container, next: Option<String>) -> Response {
    let count = page.rows.len().to_string();
    let rid = container.rid();
    let parts = [
        r#"{"_rid":""#,
        &rid,
        r#"","Documents":["#,
        &page.rows.join(","),
        r#"],"_count":"#,
        &count,
        "}",
    ];
    let mut response = Response::empty(200).with("x-ms-item-count", count.clone());
    response.body = parts.concat().into_bytes();
    match next {
        Some(next) => response.with("x-ms-continuation", next),
        None => response,
    }
}

/// Checks a query of the whole container: it needs a header, and the gateway must be able to answer
/// it without a merge.
fn check_cross_partition(
    query: &ParsedQuery<'_>,
    scope: &RequestScope<'_>,
    keys: &KeyRanges,
    container: &Container,
) -> Result<(), ServiceError> {
    let (select, body) = (&query.select, &query.body);
    if !scope.everything && !select.rank {
        return Ok(());
    }
    if scope.everything
        && !flag(
            &query.request.headers,
            "x-ms-documentdb-query-enablecrosspartition",
        )
    {
        return Err(ServiceError::bad_request(
            "Cross partition query is required but disabled. Please set \
             x-ms-documentdb-query-enablecrosspartition to true, specify \
             x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
        ));
    }
    let headers = &query.request.headers;
    let parallel = flag(
        headers,
        "x-ms-documentdb-query-parallelizecrosspartitionquery",
    );
    let checked = if parallel && scope.everything && !keys.are_one_point() {
        // The client asks to run it itself (.NET client, `PartitionRoutingHelper`).
        Err(plan::not_servable("parallel"))
    } else {
        plan::check_gateway(select)
    };
    checked.map_err(|error| with_plan(error, body, container))
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
