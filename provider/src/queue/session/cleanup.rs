//! Deletes sessions that are not held and that no activity needs.

use cdb_client::ContainerClient;
use cdb_model::Query;

use super::table::Sessions;
use crate::error::Result;
use crate::stored::documents::{Durable, Session, WorkerItem};

impl Sessions {
    /// Implements `Provider::cleanup_orphaned_sessions`. Returns the number of deleted sessions.
    pub(crate) async fn cleanup(&self, container: &ContainerClient<Durable>) -> Result<usize> {
        let expired = Session::LOCKED_UNTIL.lt(container.now());
        let expired = Query::<Session>::across_partitions().filter(expired);
        let expired = container.query(expired).by_gateway().row_by_row();
        let expired = expired.all_available().await?;
        let mut removed = 0;
        for stored in self.corrupt_documents.readable(expired.rows) {
            if is_needed(container, &stored.document).await? {
                continue;
            }
            match container.delete_stored(&stored).await {
                Ok(()) => removed += 1,
                // Claimed or deleted by another worker.
                Err(error) if error.is_precondition_failed() || error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(removed)
    }
}

async fn is_needed(container: &ContainerClient<Durable>, session: &Session) -> Result<bool> {
    let activities = Query::<WorkerItem>::in_partition(&*session.instance_id)
        .filter(WorkerItem::SESSION_ID.eq(&*session.session_id))
        .count();
    let counts = container.query(activities).all().await?;
    Ok(counts.into_iter().any(|count| count > 0))
}
