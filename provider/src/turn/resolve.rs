//! After a lost answer: did it happen?

use cdb_model::Stored;

use super::table::Turn;
use crate::documents::Instance;
use crate::error::Result;
use crate::history;
use crate::services::Services;

/// What became of a turn.
#[derive(Debug)]
pub(super) enum Fate {
    /// Its commit took place.
    Committed,
    /// The lock is still ours; the instance as it is now.
    Held(Box<Stored<Instance>>),
    /// Somebody else has the instance, or it is gone.
    Lost,
}

/// Reads the instance and compares its tokens with the turn's.
pub(super) async fn fate(inner: &Services, turn: &Turn) -> Result<Fate> {
    let latest = inner.container.latest_committed();
    let instance_id = &turn.instance.document.instance_id;
    let Some(stored) = history::read_instance(&latest, instance_id).await? else {
        return Ok(Fate::Lost);
    };
    let token = Some(turn.token.as_str());
    if stored.document.commit_token.as_deref() == token {
        Ok(Fate::Committed)
    } else if stored.document.lock_token.as_deref() == token {
        Ok(Fate::Held(Box::new(stored)))
    } else {
        Ok(Fate::Lost)
    }
}
