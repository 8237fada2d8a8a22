//! Sessions: which worker the activities of a session go to.

use cdb_coordination::Lockable;
use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

/// The binding of a session to a worker. A session belongs to one instance.
///
/// ```
/// use cdb_provider::documents::Session;
/// use cdb_provider::model::Query;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let now = store.container().now();
/// # let session = Session {
/// #     instance_id: "chat-1".to_owned(), session_id: "model".to_owned(), owner_id: "gpu-1".to_owned(),
/// #     locked_until: now + std::time::Duration::from_secs(300), last_activity: now, created_at: now,
/// # };
/// # store.container().create(&session).await?;
/// // What the machine `gpu-1` holds, to be asked before it is switched off.
/// let now = store.container().now();
/// let held = Session::OWNER_ID.eq("gpu-1") & Session::LOCKED_UNTIL.gt(now);
/// let held = store.container().query(Query::across_partitions().filter(held)).all().await?;
/// let sessions: Vec<&str> = held.iter().map(|stored| &*stored.document.session_id).collect();
/// assert_eq!(sessions, ["model"]);
/// # Ok(()) }
/// ```
#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
#[document(type = "session", id = "{instance_id}:session:{session_id}")]
pub struct Session {
    /// The instance.
    #[document(partition_key)]
    pub instance_id: String,
    /// The session.
    pub session_id: String,
    /// The worker, or group of workers, that it is bound to.
    #[document(index)]
    pub owner_id: String,
    /// Until when, by the service's clock.
    #[document(index)]
    pub locked_until: Timestamp,
    /// When an activity of it was last fetched, renewed or ended.
    pub last_activity: Timestamp,
    /// When it was first claimed.
    pub created_at: Timestamp,
}

/// Held by a name, not by a write: all dispatchers of a worker have it together, and a process that comes back under the
/// worker's name goes on with it.
impl Lockable for Session {
    fn lock_mark(&self) -> Option<&str> {
        Some(&self.owner_id)
    }

    fn locked_until(&self) -> Option<Timestamp> {
        Some(self.locked_until)
    }
}
