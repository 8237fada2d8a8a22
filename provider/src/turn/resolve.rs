//! What became of a write under the lock of a turn.

use cdb_client::ContainerClient;
use cdb_coordination::Found;

use super::table::Turn;
use crate::documents::Durable;
use crate::error::Result;
use crate::history;

/// Reads the instance and compares its tokens with the turn's. Takes over its version.
pub(super) async fn find_out(latest: &ContainerClient<Durable>, turn: &mut Turn) -> Result<Found> {
    let instance_id = &turn.instance.document.instance_id;
    let Some(stored) = history::read_instance(latest, instance_id).await? else {
        return Ok(Found::Lost);
    };
    let token = Some(turn.token.as_str());
    if stored.document.commit_token.as_deref() == token {
        return Ok(Found::Done);
    }
    if stored.document.lock_token.as_deref() != token {
        return Ok(Found::Lost);
    }
    if stored.etag == turn.instance.etag {
        return Ok(Found::Unchanged);
    }
    turn.instance.etag = stored.etag;
    Ok(Found::Moved)
}
