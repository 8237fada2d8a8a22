//! The deletion of all items of a partition key. The service deletes them in the background; here
//! they are gone when the request returns.

use super::item::{partition_key, range_of_key};
use super::write::OperationContext;
use crate::account::Service;
use crate::op::access::Access;
use crate::op::charge;
use crate::op::target::container;
use crate::protocol::{Request, Response, ServiceError};
use crate::store::{Savepoint, version};

/// Executes `POST …/operations/partitionkeydelete`.
pub(in crate::op) fn delete(
    service: &Service,
    request: &Request,
) -> Result<Response, ServiceError> {
    let connection = service.store.lock();
    let savepoint = Savepoint::begin(&connection)?;
    let container = container(&savepoint, request)?;
    let partition_key = partition_key(&request.headers, &container)?;
    let ranges = range_of_key(&container, &partition_key);
    let access = Access::write(service, &savepoint, request, &container, ranges)?;
    let mut context = OperationContext {
        connection: &savepoint,
        container: &container,
        replicas: &service.replicas,
        unique_key_answer: service.unique_key_answer(),
        partition_key,
        lsn: version::next_lsn(&savepoint)?,
        at: 0,
        now: service.clock.now_secs(),
    };
    let mut units = charge::METADATA;
    for found in container.read_key(&savepoint, &context.pk())? {
        let document = serde_json::from_str(&found.body)?;
        units += charge::delete(container.policy().indexed_paths().count(&document));
        context.remove(&found)?;
        context.advance()?;
    }
    let lsn = context.lsn;
    savepoint.commit()?;
    Ok(access.end(Response::empty(200).charged(units), lsn))
}
