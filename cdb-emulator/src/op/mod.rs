//! The operations, one per file, and their dispatch.

mod access;
mod batch;
mod catalog;
mod continuation;
mod cost_inputs;
mod feed;
mod item;
mod listing;
mod offers;
mod partition_key_delete;
mod patch;
mod query;
mod query_body;
mod query_plan;
pub(crate) mod ranges;
mod run;
mod scope;
mod target;
mod write;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use batch::decode;
pub(crate) use catalog::set_index_progress;
#[cfg(test)]
pub(crate) use run::rows_of;
pub(crate) use scope::reached_partitions;

use http::Method;

use crate::error::ServiceError;
use crate::observe::OperationKind;
use crate::request::Request;
use crate::response::Response;
use crate::route::{self, Resource};
use crate::service::Service;

/// Executes an authorized request.
pub(crate) fn dispatch(service: &Service, request: &Request) -> Result<Response, ServiceError> {
    match (&request.resource, &request.method) {
        (Resource::Items(_), _) if route::is_plan_request(&request.headers) => {
            query_plan::plan(service, request)
        }
        (Resource::Items(_), method) => match request.kind {
            OperationKind::Query => query::query(service, request),
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
