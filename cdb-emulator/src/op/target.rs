//! The container that a request names.

use crate::error::ServiceError;
use crate::request::Request;
use crate::route::header;
use crate::store::{Connection, Container};

/// Finds the container of a request. Fails when the container was recreated since the caller read
/// its resource id.
pub(super) fn container(
    connection: &Connection,
    request: &Request,
    (db, coll): (&str, &str),
) -> Result<Container, ServiceError> {
    let container = Container::find(connection, db, coll)?;
    let intended = header(&request.headers, "x-ms-cosmos-intended-collection-rid");
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
