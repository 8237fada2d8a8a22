//! Sessions: all activities of a session run on the worker that owns it.

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

/// The claim of a worker to a session: no other worker gets its activities before the lock ends. A session
/// belongs to one instance.
///
/// ```
/// use cdb_provider::documents::Session;
/// use cdb_provider::model::{Document as _, Query};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let emulator = cdb_emulator::Emulator::start().await?;
/// # let store = cdb_provider::CosmosDBProvider::new(&emulator.endpoint(), emulator.key(), "duroxide").await?;
/// # let now = store.container().now();
/// # let session = Session {
/// #     instance_id: "chat-1".to_owned(), session_id: "model".to_owned(), owner_id: "gpu-1".to_owned(),
/// #     locked_until: now + std::time::Duration::from_secs(300), last_activity: now, created_at: now,
/// # };
/// # store.container().run(session.create()).await?;
/// // The sessions of the machine `gpu-1`, to be checked before it is switched off.
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
    /// The worker, or group of workers, that owns the session.
    #[document(index)]
    pub owner_id: String,
    /// The expiry of the lock, by the service's clock.
    #[document(index)]
    pub locked_until: Timestamp,
    /// The last fetch, renewal or end of an activity of the session.
    pub last_activity: Timestamp,
    /// The time of the first claim.
    pub created_at: Timestamp,
}
