//! The path of a request through the service: authorization, the operation, the log.

use std::sync::{Arc, PoisonError};

use crate::account::auth::signature;
use crate::account::{ResponseSummary, Service};
use crate::fault::{Target, TargetDetail};
use crate::op;
use crate::protocol::{
    JSON, Needs, OperationKind, Request, Resource, Response, ServiceError, header,
};
use crate::store::Lane;
use crate::time::stopwatch;

/// The version of responses, and of the requests of the vendor's clients.
const VERSION: &str = "2020-07-15";

/// The versions of requests that the service accepts: `HttpConstants.Versions` of the .NET client
/// (branch msdata/direct), without 2019-10-14, which the service refused (azure-cosmos-dotnet-v3#3170).
const VERSIONS: [&str; 20] = [
    VERSION,
    "2024-06-06",
    "2024-05-15",
    "2020-11-05",
    "2018-12-31",
    "2018-09-17",
    "2018-08-31",
    "2018-06-18",
    "2017-11-15",
    "2017-05-03",
    "2017-02-22",
    "2017-01-19",
    "2016-11-14",
    "2016-07-11",
    "2016-05-30",
    "2015-12-16",
    "2015-08-06",
    "2015-06-03",
    "2015-04-08",
    "2014-08-21",
];

/// Rejects an unknown version. Without the header, the latest applies (REST reference, common
/// request headers).
fn check_version(request: &Request) -> Result<(), ServiceError> {
    match header(&request.headers, "x-ms-version") {
        Some(version) if !VERSIONS.contains(&version) => Err(ServiceError::bad_request(
            "Invalid API version. Ensure a valid x-ms-version header value is passed. Please update to the latest \
             version of Azure Cosmos DB SDK.",
        )),
        _ => Ok(()),
    }
}

impl Service {
    /// Returns what a request reaches, as far as the active faults distinguish it. The lookup of
    /// physical partitions reads the container.
    pub(crate) async fn target(
        self: &Arc<Self>,
        request: &Arc<Request>,
        detail: TargetDetail,
    ) -> Target {
        if detail == TargetDetail::Everything {
            return Target {
                kind: OperationKind::Metadata,
                region: String::new(),
                container: None,
                partitions: Vec::new(),
                lists_ranges: false,
            };
        }
        let partitions = match detail {
            TargetDetail::Partitions => self.reached_partitions(request).await,
            _ => Vec::new(),
        };
        Target {
            kind: request.kind,
            region: self.regions.name(request.region),
            container: request.resource.container().cloned(),
            partitions,
            lists_ranges: matches!(request.resource, Resource::Ranges(_)),
        }
    }

    /// Returns the physical partitions that a data request reaches.
    async fn reached_partitions(self: &Arc<Self>, request: &Arc<Request>) -> Vec<String> {
        if request.kind == OperationKind::Metadata || request.resource.container().is_none() {
            return Vec::new();
        }
        let (service, request) = (self.clone(), request.clone());
        let work = move || op::reached_partitions(&service, &request);
        // A request that fails here fails in the same way when it is executed.
        self.store.run(Lane::Point, work).await.unwrap_or_default()
    }

    /// Fails if the region that received a request does not accept it.
    async fn check_region(self: &Arc<Self>, request: &Arc<Request>) -> Result<(), ServiceError> {
        let mut partitions = Vec::new();
        let container = request.resource.container();
        let needs = request.needs();
        if let Some(container) = container.filter(|container| self.regions.has_moved(container))
            && needs != Needs::Any
        {
            let reached = self.reached_partitions(request).await.into_iter();
            partitions.extend(reached.map(|range| (container.clone(), range)));
        }
        self.regions.check(request.region, needs, &partitions)
    }

    /// Executes a request and logs it. Its writes are durable when this returns. They are also kept
    /// when the caller drops the future.
    pub(crate) async fn execute(self: &Arc<Self>, request: &Arc<Request>) -> Response {
        let begun = stopwatch();
        let response = self.authorize_and_run(request).await;
        let response = response.unwrap_or_else(|error| Response::error(&error));
        let duration = begun.elapsed().as_secs_f64() * 1000.0;
        let response = response.with("x-ms-request-duration-ms", format!("{duration:.3}"));
        self.log(request, response)
    }

    /// Returns the error response of an injected fault.
    pub(crate) fn inject(
        &self,
        request: &Request,
        status: u16,
        substatus: u32,
        retry_after_ms: Option<u64>,
    ) -> Response {
        let mut error = ServiceError::new(status, substatus, "Injected", "A fault was injected.");
        error.retry_after_ms = retry_after_ms;
        self.reject(request, &error)
    }

    /// Returns the response to a request that was not executed.
    pub(crate) fn reject(&self, request: &Request, error: &ServiceError) -> Response {
        self.log(request, Response::error(error))
    }

    async fn authorize_and_run(
        self: &Arc<Self>,
        request: &Arc<Request>,
    ) -> Result<Response, ServiceError> {
        if let Resource::Unknown(reason) = &request.resource {
            return Err(ServiceError::bad_request(reason));
        }
        check_version(request)?;
        self.authorize(request)?;
        self.metadata.admit(request)?;
        self.check_region(request).await?;
        let lane = match request.kind {
            OperationKind::Read => Lane::Point,
            OperationKind::Query | OperationKind::Feed => Lane::Scan,
            _ => Lane::Write,
        };
        let (service, mut request) = (self.clone(), request.clone());
        if self.settings.consistency.ignores_sessions() {
            let headers = &mut Arc::make_mut(&mut request).headers;
            headers.remove("x-ms-session-token");
        }
        let work = move || op::dispatch(&service, &request);
        self.store.run(lane, work).await
    }

    fn authorize(&self, request: &Request) -> Result<(), ServiceError> {
        let (account, now) = (&self.account, self.clock.now());
        let identities = &self.settings.identities;
        let token = signature::token(&request.headers).filter(|_| !identities.is_empty());
        match token {
            Some(token) => identities.verify(&token, request, &account.endpoint, now),
            None => signature::verify(&account.key, request, now),
        }
    }

    /// Logs a response, and adds the headers of every response.
    fn log(&self, request: &Request, response: Response) -> Response {
        let summary = ResponseSummary {
            status: response.status,
            charge: response.charge,
            bytes_in: request.body.len() as u64,
            bytes_out: response.body.len() as u64,
        };
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(request.kind, &summary);
        let activity = header(&request.headers, "x-ms-activity-id")
            .map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        let charge = format!("{:.2}", response.charge);
        response
            .with("date", httpdate::fmt_http_date(self.clock.now()))
            .with("x-ms-activity-id", activity)
            .with("x-ms-request-charge", charge)
            .with("content-type", JSON)
            .with("x-ms-version", VERSION)
    }
}
