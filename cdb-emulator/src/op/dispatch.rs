//! Chooses the operation of a request.

use http::Method;

use super::feed;
use super::items::{batch, item, partition_key_delete};
use super::metadata::{catalog, offers, ranges};
use super::query::{page, query_plan};
use crate::account::Service;
use crate::protocol::{OperationKind, Request, Resource, Response, ServiceError, route};

/// Executes an authorized request.
pub(crate) fn dispatch(service: &Service, request: &Request) -> Result<Response, ServiceError> {
    match (&request.resource, &request.method) {
        (Resource::Items(_), _) if route::is_plan_request(&request.headers) => {
            query_plan::plan(service, request)
        }
        (Resource::Items(_), method) => match request.kind {
            OperationKind::Query => page::query(service, request),
            OperationKind::Batch => batch::transactional(service, request),
            OperationKind::Bulk => batch::bulk(service, request),
            OperationKind::Feed if method == Method::GET => feed::feed(service, request),
            OperationKind::Create | OperationKind::Upsert => item::create(service, request),
            _ => Err(ServiceError::method_not_allowed(method, "GET or POST")),
        },
        (Resource::Item(_, id), _) => item::item(service, request, id),
        (Resource::Ranges(_), &Method::GET) => ranges::ranges(service, request),
        (Resource::PartitionKeyDelete(_), &Method::POST) => {
            partition_key_delete::delete(service, request)
        }
        (Resource::Offers | Resource::Offer(_), _) => offers::dispatch(service, request),
        _ => catalog::dispatch(service, request),
    }
}
