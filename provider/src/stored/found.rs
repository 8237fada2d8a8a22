//! Instances by their latest commits, whether they can be decoded or not.

use cdb_client::ContainerClient;
use cdb_model::{Query, Stored};

use super::documents::{Durable, Incarnation, Instance, Partial as _};
use crate::error::Result;

/// An instance, with what is readable of a damaged one.
pub(crate) struct Found {
    pub(crate) stored: Stored<Instance>,
    pub(crate) incarnation: Incarnation,
}

/// Returns the instance with an id.
pub(crate) async fn find(
    container: &ContainerClient<Durable>,
    instance_id: &str,
) -> Result<Option<Found>> {
    let query = Query::<Instance>::in_partition(instance_id);
    let latest = container.latest_committed();
    let found = latest.query(query).row_by_row().first().await?;
    Ok(found.and_then(|row| {
        let (stored, incarnation) = match row {
            Ok(stored) => {
                let incarnation = Incarnation::of(&stored.document);
                (stored, incarnation)
            }
            Err(found) => (
                Instance::partial_stored(&found)?,
                Incarnation::of_unreadable(&found)?,
            ),
        };
        Some(Found {
            stored,
            incarnation,
        })
    }))
}

/// Returns whether an instance still exists. What was read of it, or of its children, before this
/// call then belongs to it, and not to a later instance with its id.
pub(crate) async fn is_there(
    container: &ContainerClient<Durable>,
    instance: &Incarnation,
) -> Result<bool> {
    let found = find(container, &instance.instance_id).await?;
    Ok(found.is_some_and(|found| found.incarnation.is(instance)))
}
