//! Removing sessions that nobody holds and no activity waits for.

use cdb_client::{ContainerClient, Error};
use cdb_model::Query;
use duroxide::providers::ProviderError;

use super::Sessions;
use crate::documents::{Durable, Session, WorkerItem};
use crate::error::provider_error;

impl Sessions {
    /// Implements `Provider::cleanup_orphaned_sessions`. How many were removed.
    pub(crate) async fn cleanup(
        &self,
        container: &ContainerClient<Durable>,
    ) -> Result<usize, ProviderError> {
        let failed = |error| provider_error("cleanup_orphaned_sessions", &error);
        let expired = Session::LOCKED_UNTIL.lt(container.now());
        let expired = Query::<Session>::across_partitions().filter(expired);
        let expired = container.query(expired).row_by_row().all().await;
        let mut removed = 0;
        for stored in self.damage.readable(expired.map_err(failed)?) {
            let waits = is_waited_for(container, &stored.document).await;
            if waits.map_err(failed)? {
                continue;
            }
            match container.delete_stored(&stored).await {
                Ok(()) => removed += 1,
                // Claimed or removed meanwhile.
                Err(error) if error.is_precondition_failed() || error.is_not_found() => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(removed)
    }
}

async fn is_waited_for(
    container: &ContainerClient<Durable>,
    session: &Session,
) -> Result<bool, Error> {
    let activities = Query::<WorkerItem>::in_partition(&*session.instance_id)
        .filter(WorkerItem::SESSION_ID.eq(&*session.session_id))
        .count();
    let counts = container.query(activities).all().await?;
    Ok(counts.into_iter().any(|count| count > 0))
}
