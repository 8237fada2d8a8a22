//! The path of a request: authorization, the operation, the log.

use std::sync::{Arc, PoisonError};

use crate::error::ServiceError;
use crate::fault::{Scope, Target};
use crate::observe::{OperationKind, ResponseSummary};
use crate::request::Request;
use crate::resource_token::Grant;
use crate::response::{JSON, Response};
use crate::route::{self, Resource, header};
use crate::service::Service;
use crate::store::Lane;
use crate::{auth, op};

impl Service {
    /// Returns what a request reaches, as far as the active faults distinguish it. The lookup of
    /// physical partitions reads the container.
    pub(crate) async fn target(self: &Arc<Self>, request: &Arc<Request>, scope: Scope) -> Target {
        if scope == Scope::Everything {
            return Target {
                kind: OperationKind::Metadata,
                region: String::new(),
                container: None,
                partitions: Vec::new(),
                lists_ranges: false,
            };
        }
        let resource = Resource::parse(&request.path).ok();
        let kind = resource
            .as_ref()
            .map_or(OperationKind::Metadata, |resource| {
                route::kind(&request.method, resource, &request.headers)
            });
        let names = resource.as_ref().and_then(Resource::container);
        let names = names.map(|(database, container)| (database.to_owned(), container.to_owned()));
        let mut partitions = Vec::new();
        if scope == Scope::Partitions
            && kind != OperationKind::Metadata
            && let Some((database, container)) = names.clone()
        {
            let (service, request) = (self.clone(), request.clone());
            let work = move || op::reached_partitions(&service, &request, (&database, &container));
            // A request that fails here fails in the same way when it is executed.
            partitions = self.store.run(Lane::Point, work).await.unwrap_or_default();
        }
        Target {
            kind,
            region: self.regions.name(request.region),
            container: names,
            partitions,
            lists_ranges: matches!(resource, Some(Resource::Ranges(..))),
        }
    }

    /// Executes a request. Its writes are durable when this returns. They are also kept when the
    /// caller drops the future.
    pub(crate) async fn respond(self: &Arc<Self>, request: &Arc<Request>) -> Response {
        let mut kind = OperationKind::Metadata;
        let response = match Resource::parse(&request.path) {
            Ok(resource) => {
                kind = route::kind(&request.method, &resource, &request.headers);
                self.execute(request, resource, kind).await
            }
            Err(error) => Err(error),
        };
        let response = response.unwrap_or_else(|error| Response::error(&error));
        self.finish(request, kind, response)
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
        self.finish(request, request.kind(), Response::error(error))
    }

    async fn execute(
        self: &Arc<Self>,
        request: &Arc<Request>,
        resource: Resource,
        kind: OperationKind,
    ) -> Result<Response, ServiceError> {
        self.authorize(request, &resource, kind)?;
        let is_write = route::is_write(&request.method, kind, &request.headers);
        self.regions.check(request.region, is_write)?;
        let lane = match kind {
            OperationKind::Read => Lane::Point,
            OperationKind::Query | OperationKind::Feed => Lane::Scan,
            _ => Lane::Write,
        };
        let (service, request) = (self.clone(), request.clone());
        let work = move || op::dispatch(&service, &request, &resource);
        self.store.run(lane, work).await
    }

    fn authorize(
        &self,
        request: &Request,
        resource: &Resource,
        kind: OperationKind,
    ) -> Result<(), ServiceError> {
        let (settings, now) = (&self.settings, self.clock.now());
        if let Some(grant) = Grant::read(&request.headers, &settings.key, now)? {
            return grant.check((&request.method, resource, kind), &request.headers);
        }
        let token = auth::token(&request.headers).filter(|_| !settings.identities.is_empty());
        match token {
            Some(token) => {
                let action = (&request.method, resource, kind);
                let here = (&*settings.endpoint, now);
                settings.identities.verify(&token, action, here)
            }
            None => auth::verify(
                &settings.key,
                &request.method,
                resource,
                &request.headers,
                now,
            ),
        }
    }

    fn finish(&self, request: &Request, kind: OperationKind, response: Response) -> Response {
        let summary = ResponseSummary {
            status: response.status,
            charge: response.charge,
            bytes_in: request.body.len() as u64,
            bytes_out: response.body.len() as u64,
        };
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(kind, &summary);
        let activity = header(&request.headers, "x-ms-activity-id")
            .map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned);
        let charge = format!("{:.2}", response.charge);
        response
            .with("date", httpdate::fmt_http_date(self.clock.now()))
            .with("x-ms-activity-id", activity)
            .with("x-ms-request-charge", charge)
            .with("content-type", JSON)
            .with("x-ms-version", "2020-07-15")
    }
}
