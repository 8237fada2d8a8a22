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
mod secondary_index;
mod target;
mod users;
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
pub(crate) fn dispatch(
    service: &Service,
    request: &Request,
    resource: &Resource,
) -> Result<Response, ServiceError> {
    match resource {
        Resource::Items(db, coll) if route::is_plan_request(&request.headers) => {
            query_plan::plan(service, request, (db, coll))
        }
        Resource::Items(db, coll) => match route::kind(&request.method, resource, &request.headers)
        {
            OperationKind::Query => query::query(service, request, (db, coll)),
            OperationKind::Batch => batch::transactional(service, request, (db, coll)),
            OperationKind::Bulk => batch::bulk(service, request, (db, coll)),
            OperationKind::Feed if request.method == Method::GET => {
                feed::feed(service, request, (db, coll))
            }
            OperationKind::Create | OperationKind::Upsert => {
                item::create(service, request, (db, coll))
            }
            _ => Err(ServiceError::method_not_allowed(
                &request.method,
                "GET or POST",
            )),
        },
        Resource::Item(db, coll, id) => item::item(service, request, (db, coll), id),
        Resource::Ranges(db, coll) if request.method == Method::GET => {
            ranges::ranges(service, request, (db, coll))
        }
        Resource::PartitionKeyDelete(db, coll) if request.method == Method::POST => {
            partition_key_delete::delete(service, request, (db, coll))
        }
        Resource::Offers | Resource::Offer(_) => offers::dispatch(service, request, resource),
        _ => catalog::dispatch(service, request, resource),
    }
}
