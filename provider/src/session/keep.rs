//! Keeping the sessions that were claimed: noting progress, renewing, letting go.
//!
//! Each is a patch under the condition that the session is held still, and the same when it is done twice. One that does
//! not take place any more is no error: the session was lost, or cleaned up.

use std::time::Duration;

use cdb_client::ContainerClient;
use cdb_model::{Patch, Query, Timestamp};

use super::Sessions;
use crate::documents::{Durable, Session, SessionKey, WorkerItem};
use crate::error::Result;

impl Sessions {
    /// Notes that an activity of the session has made progress, as long as the session is held.
    ///
    /// Not part of the activity's own batch: a session that was cleaned up meanwhile must not undo an activity's end.
    pub(crate) async fn touch(
        &self,
        container: &ContainerClient<Durable>,
        item: &WorkerItem,
        now: Timestamp,
    ) {
        let Some(session_id) = &item.session_id else {
            return;
        };
        let key = SessionKey::new(&*item.instance_id, &**session_id);
        let patch = Patch::<Session>::new()
            .set(Session::LAST_ACTIVITY, now)
            .when(Session::LOCKED_UNTIL.gt(now));
        if let Err(error) = patch_held(container, &key, &patch).await {
            tracing::debug!(%error, "activity of a session was not noted");
        }
    }

    /// Implements `Provider::renew_session_lock`. How many were renewed.
    pub(crate) async fn renew(
        &self,
        container: &ContainerClient<Durable>,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize> {
        let owners = self.busy(owner_ids, container.now());
        let mut renewed = 0;
        for session in self.held_by(container, owners).await? {
            // Fresh for every session: renewing many takes time.
            let now = container.now();
            if session.last_activity + idle_timeout <= now {
                continue;
            }
            let key = SessionKey::new(&*session.instance_id, &*session.session_id);
            let times = (now, now + extend_for);
            if hold(container, &key, &session.owner_id, times).await? {
                renewed += 1;
                let locked_until = times.1;
                let session = Session {
                    locked_until,
                    ..session
                };
                self.see(&session, now);
            }
        }
        Ok(renewed)
    }

    /// What these owners hold. Remembers those that hold nothing.
    async fn held_by(
        &self,
        container: &ContainerClient<Durable>,
        owners: Vec<&str>,
    ) -> Result<Vec<Session>> {
        if owners.is_empty() {
            return Ok(Vec::new());
        }
        let now = container.now();
        let theirs = Session::OWNER_ID.is_in(owners.iter().copied());
        let query = Query::across_partitions().filter(theirs & Session::LOCKED_UNTIL.gt(now));
        let held = container.query(query).row_by_row().all().await?;
        // One that cannot be read ends by itself, and is written anew by whoever claims it next.
        let held = self.corrupt_documents.readable(held).into_iter();
        let held: Vec<Session> = held.map(|stored| stored.document).collect();
        let idle = |owner: &&str| held.iter().all(|session| session.owner_id != *owner);
        self.note_idle(owners.into_iter().filter(idle), now);
        Ok(held)
    }

    /// Lets go of the sessions that were claimed here, so that other workers need not wait until their locks end.
    pub(crate) async fn release(&self, container: &ContainerClient<Durable>) {
        for (name, owner) in self.held_here(container.now()) {
            let now = container.now();
            let key = SessionKey::new(&*name.0, &*name.1);
            if let Err(error) = hold(container, &key, &owner, (now, now)).await {
                tracing::debug!(%error, "a session is left to end by itself");
            }
            self.forget(&name);
        }
    }
}

/// Moves the end of a session, if this owner holds it `now`. Whether it did.
async fn hold(
    container: &ContainerClient<Durable>,
    key: &SessionKey,
    owner: &str,
    (now, until): (Timestamp, Timestamp),
) -> Result<bool> {
    let patch = Patch::<Session>::new()
        .set(Session::LOCKED_UNTIL, until)
        .when(Session::OWNER_ID.eq(owner) & Session::LOCKED_UNTIL.gt(now));
    patch_held(container, key, &patch).await
}

/// Whether the session was there and met the patch's condition.
async fn patch_held(
    container: &ContainerClient<Durable>,
    key: &SessionKey,
    patch: &Patch<Session>,
) -> Result<bool> {
    match container.patch(key, patch).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_precondition_failed() || error.is_not_found() => Ok(false),
        Err(error) => Err(error.into()),
    }
}
