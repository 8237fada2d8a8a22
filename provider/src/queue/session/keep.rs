//! Keeps claimed sessions: notes progress, renews, releases. Deletes sessions that are not held and
//! that no activity needs.
//!
//! Each operation is an idempotent patch, conditional on the session still being held. A patch
//! whose condition fails is not an error: the session was lost or cleaned up.

use std::time::Duration;

use cdb_model::{Document, Patch, Query, Timestamp};
use futures::StreamExt as _;
use futures::stream;

use super::table::Sessions;
use crate::error::Result;
use crate::queue::CONCURRENCY;
use crate::queue::poll::answered;
use crate::stored::documents::{Session, SessionKey, WorkerItem};

impl Sessions {
    /// Notes progress of an activity of the session, while the session is held. The time is that of
    /// this call, because the activity's own write may have waited for minutes.
    ///
    /// The patch is not part of the activity's own batch, because a deleted session must not undo
    /// the end of an activity.
    pub(crate) async fn touch(&self, item: &WorkerItem) {
        let Some(session_id) = &item.session_id else {
            return;
        };
        let now = self.store.now();
        let key = SessionKey::new(&*item.instance_id, &**session_id);
        let patch = Patch::<Session>::new()
            .set(Session::LAST_ACTIVITY, now)
            .when(Session::LOCKED_UNTIL.gt(now));
        if let Err(error) = self.patch_held(&key, &patch).await {
            tracing::debug!(%error, "cannot note the activity of a session");
        }
    }

    /// Implements `Provider::renew_session_lock`. Returns the number of renewed sessions.
    pub(crate) async fn renew(
        &self,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize> {
        let owners = self.busy(owner_ids, self.store.now());
        let held = self.held_by(owners).await?;
        let renewals = stream::iter(held).map(async |session| {
            // Read per session, because renewing many takes time.
            let now = self.store.now();
            if session.last_activity + idle_timeout <= now {
                return Ok(false);
            }
            let (key, until) = (session.key(), now + extend_for);
            let renewal = self.hold(&key, &session.owner_id, now, until);
            let partition = (&*session.instance_id).into();
            let is_renewed = self.store.container.in_time(&partition, renewal).await?;
            if is_renewed {
                let session = Session {
                    locked_until: until,
                    ..session
                };
                self.note(&session, now);
            }
            Ok(is_renewed)
        });
        let renewals = renewals.buffer_unordered(CONCURRENCY).collect().await;
        let (renewals, _) = answered(renewals)?;
        Ok(renewals
            .into_iter()
            .filter(|is_renewed| *is_renewed)
            .count())
    }

    /// Returns the sessions that these owners hold. Remembers owners without sessions.
    async fn held_by(&self, owners: Vec<&str>) -> Result<Vec<Session>> {
        if owners.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.store.now();
        let theirs = Session::OWNER_ID.is_in(owners.iter().copied());
        let query = Query::across_partitions().filter(theirs & Session::LOCKED_UNTIL.gt(now));
        let run = self.store.container.query(query).row_by_row();
        let found = run.all_available().await?;
        // An undecodable session expires, and its next claim replaces it.
        let held = self
            .store
            .corrupt_documents
            .readable(found.rows)
            .into_iter();
        let held: Vec<Session> = held.map(|stored| stored.document).collect();
        if found.is_complete {
            let idle = |owner: &&str| held.iter().all(|session| session.owner_id != *owner);
            self.note_idle(owners.into_iter().filter(idle), now);
        }
        Ok(held)
    }

    /// Releases the sessions that were claimed here, so that other workers need not wait until they
    /// expire.
    pub(crate) async fn release(&self) {
        for (key, owner) in self.held_here(self.store.now()) {
            let now = self.store.now();
            if let Err(error) = self.hold(&key, &owner, now, now).await {
                tracing::debug!(%error, "a session was not released; it will expire");
            }
            self.forget(&key);
        }
    }

    /// Implements `Provider::cleanup_orphaned_sessions`. Returns the number of deleted sessions.
    pub(crate) async fn cleanup(&self) -> Result<usize> {
        let container = &self.store.container;
        let expired = Session::LOCKED_UNTIL.lt(container.now());
        let expired = Query::<Session>::across_partitions().filter(expired);
        let expired = container.query(expired).row_by_row();
        let expired = expired.all_available().await?;
        let mut removed = 0;
        for stored in self.store.corrupt_documents.readable(expired.rows) {
            if self.is_needed(&stored.document).await? {
                continue;
            }
            match container.run(stored.delete()).await {
                Ok(()) => removed += 1,
                // Claimed or deleted by another worker.
                Err(error) if error.is_precondition_failed() || error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(removed)
    }

    async fn is_needed(&self, session: &Session) -> Result<bool> {
        let activities = Query::<WorkerItem>::in_partition(&*session.instance_id)
            .filter(WorkerItem::SESSION_ID.eq(&*session.session_id))
            .count();
        let counts = self.store.container.query(activities).all().await?;
        Ok(counts.into_iter().any(|count| count > 0))
    }

    /// Sets the expiry of a session that this owner holds `now`. Returns whether the owner held it.
    async fn hold(
        &self,
        key: &SessionKey,
        owner: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<bool> {
        let patch = Patch::<Session>::new()
            .set(Session::LOCKED_UNTIL, until)
            .when(Session::OWNER_ID.eq(owner) & Session::LOCKED_UNTIL.gt(now));
        self.patch_held(key, &patch).await
    }

    /// Patches a session. Returns whether the session exists and meets the patch's condition.
    async fn patch_held(&self, key: &SessionKey, patch: &Patch<Session>) -> Result<bool> {
        match self.store.container.run(patch.at(key)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_precondition_failed() || error.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
