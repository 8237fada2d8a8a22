//! The container that a request names.

use crate::protocol::{Request, ServiceError, header};
use crate::store::{Connection, Container};

/// Finds the container of a request. Fails when the container was recreated since the caller read
/// its resource id.
pub(super) fn container(
    connection: &Connection,
    request: &Request,
) -> Result<Container, ServiceError> {
    let container = container_by_name(connection, request)?;
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

/// Finds the container that the path of a request names.
pub(super) fn container_by_name(
    connection: &Connection,
    request: &Request,
) -> Result<Container, ServiceError> {
    let name = request.resource.container();
    let name = name.ok_or_else(ServiceError::owner_not_found)?;
    Container::find(connection, &name.database, &name.container)
}
