//! Changes of one document, as the page shows it: they fail when it has changed since.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::query::ascii;
use crate::account::Service;
use crate::op;
use crate::protocol::{ContainerName, JSON, Needs, Request, Resource, Response, ServiceError};
use crate::store::Lane;

/// The body of a request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Change {
    database: String,
    container: String,
    /// A value per level; `{}` for a level that the document lacks.
    partition_key: Vec<Value>,
    id: String,
    /// The version that the caller has seen.
    etag: String,
    /// The new content. `None` deletes the document.
    document: Option<Box<RawValue>>,
}

/// The body of a response.
#[derive(Debug, Serialize)]
pub(super) struct Changed {
    /// Request units.
    charge: f64,
}

/// Replaces or deletes a document, by the method of `page`.
pub(super) async fn change(
    service: &Arc<Service>,
    page: &Request,
    change: Change,
) -> Result<Response, ServiceError> {
    if (page.method == Method::PUT) != change.document.is_some() {
        return Err(ServiceError::bad_request(
            "PUT needs `document`, and DELETE has none.",
        ));
    }
    // The region that serves the page may not accept writes.
    service.regions.check(page.region, Needs::Writable, &[])?;
    let body = change
        .document
        .as_ref()
        .map_or("", |document| document.get());
    let name = ContainerName::new(&change.database, &change.container);
    let resource = Resource::Item(name, change.id.clone());
    let request = Request {
        body: body.as_bytes().to_vec().into(),
        region: page.region,
        ..Request::of(resource, page.method.clone(), headers(&change)?)
    };
    let writer = service.clone();
    let work = move || op::dispatch(&writer, &request);
    let response = service.store.run(Lane::Write, work).await?;
    match response.status {
        412 => Err(ServiceError {
            message: "The document has changed since the page read it. Run the query again, and repeat the change."
                .to_owned(),
            ..ServiceError::precondition_failed()
        }),
        status @ 400.. => Ok(Response {
            status,
            body: response.body,
            ..Response::default()
        }
        .with("content-type", JSON)),
        _ => Response::typed(&Changed {
            charge: response.charge,
        }),
    }
}

fn headers(change: &Change) -> Result<HeaderMap, ServiceError> {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (
            "x-ms-documentdb-partitionkey",
            ascii(&change.partition_key)?,
        ),
        ("if-match", change.etag.clone()),
    ] {
        let value = HeaderValue::try_from(value)
            .map_err(|_| ServiceError::bad_request("`etag` is not valid."))?;
        headers.insert(name, value);
    }
    Ok(headers)
}
