//! One operation per file; this one only says which is which.

mod batch;
mod catalog;
mod feed;
mod item;
mod listing;
mod patch;
mod query;
mod query_plan;
mod scope;
mod write;

use http::Method;

use crate::error::ServiceError;
use crate::observe::OperationKind;
use crate::route::{self, Resource};
use crate::service::{Answer, Asked, Service};

/// Carries out a request whose signature is good.
pub(crate) fn dispatch(
    service: &Service,
    asked: &Asked,
    resource: &Resource,
) -> Result<Answer, ServiceError> {
    match resource {
        Resource::Items(db, coll) if route::is_plan_request(&asked.headers) => {
            query_plan::plan(service, asked, (db, coll))
        }
        Resource::Items(db, coll) => match route::kind(&asked.method, resource, &asked.headers) {
            OperationKind::Query => query::query(service, asked, (db, coll)),
            OperationKind::Batch => batch::transactional(service, asked, (db, coll)),
            OperationKind::Bulk => batch::bulk(service, asked, (db, coll)),
            OperationKind::Feed if asked.method == Method::GET => {
                feed::feed(service, asked, (db, coll))
            }
            OperationKind::Create | OperationKind::Upsert => {
                item::create(service, asked, (db, coll))
            }
            _ => Err(not_allowed(asked)),
        },
        Resource::Item(db, coll, id) => item::item(service, asked, (db, coll), id),
        _ => catalog::dispatch(service, asked, resource),
    }
}

pub(crate) fn not_allowed(asked: &Asked) -> ServiceError {
    ServiceError::new(
        405,
        0,
        "MethodNotAllowed",
        format!("{} is not possible on this resource.", asked.method),
    )
}
