//! One operation per file; this one only says which is which.

mod batch;
mod catalog;
mod choice;
mod continuation;
mod feed;
mod item;
mod listing;
mod offers;
mod patch;
mod query;
mod query_plan;
pub(crate) mod ranges;
mod run;
mod scope;
mod touched;
mod visit;
mod write;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use batch::decode;
#[cfg(test)]
pub(crate) use run::rows_of;

use http::Method;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::error::ServiceError;
use crate::observe::OperationKind;
use crate::route::{self, Resource, header};
use crate::service::{Answer, Asked, Service};
use crate::store::Container;

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
        Resource::Ranges(db, coll) if asked.method == Method::GET => {
            ranges::ranges(service, asked, (db, coll))
        }
        Resource::Offers | Resource::Offer(_) => offers::dispatch(service, asked, resource),
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

/// The container that a request is about, unless it was deleted and created anew since the caller looked.
fn container(
    connection: &Connection,
    asked: &Asked,
    (db, coll): (&str, &str),
) -> Result<Container, ServiceError> {
    let container = Container::find(connection, db, coll)?;
    let intended = header(&asked.headers, "x-ms-cosmos-intended-collection-rid");
    if intended.is_some_and(|rid| rid != container.rid()) {
        return Err(ServiceError::new(
            400,
            1024,
            "BadRequest",
            "The collection rid in the request does not match that of the collection of this name.",
        ));
    }
    Ok(container)
}

/// A listing of resources of the one with this resource id.
fn list(name: &str, rid: &str, items: Vec<Value>) -> Answer {
    let count = items.len();
    let items = Value::Array(items);
    Answer::json(200, &json!({ "_rid": rid, name: items, "_count": count }))
        .with("x-ms-item-count", count.to_string())
}

/// The largest page that the caller wants; `None` when the choice is the service's.
fn page_size(asked: &Asked) -> Result<Option<usize>, ServiceError> {
    let Some(text) = header(&asked.headers, "x-ms-max-item-count") else {
        return Ok(None);
    };
    match text.trim().parse::<i128>() {
        Ok(-1) => Ok(None),
        Ok(count) if count > 0 => Ok(Some(usize::try_from(count).unwrap_or(usize::MAX))),
        _ => Err(ServiceError::bad_request(format!(
            "The value '{text}' specified for the header 'x-ms-max-item-count' is invalid. It has to be a positive \
             number, or -1."
        ))),
    }
}
