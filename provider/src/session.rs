//! Sessions: all activities of a session go to one worker, as long as it keeps the session.
//!
//! A session is claimed in the batch that locks an activity, so what became of a lost answer the activity's lock says; and
//! kept by patches under a condition, so that activities which note their progress meanwhile do not get in its way. What is
//! kept in memory saves requests and decides nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_client::{ContainerClient, ErrorKind};
use cdb_coordination::Lockable as _;
use cdb_model::{Batch, BatchError, Document, DocumentKey, ETag, Patch, Query, Timestamp};
use duroxide::providers::{ProviderError, SessionFetchConfig};

use crate::damage::Damage;
use crate::documents::{Durable, Session, SessionKey, WorkerItem};
use crate::error::{provider_error, unreadable};

/// How long a search for an owner's sessions that found none is believed, unless one is claimed here.
const NO_SESSIONS_FOR: Duration = Duration::from_secs(60);

/// How long another worker is believed to hold a session: it may let go at any time.
const HELD_FOR: Duration = Duration::from_secs(5);

/// What this process has seen of sessions.
#[derive(Debug)]
pub(crate) struct Sessions {
    state: Mutex<State>,
    damage: Arc<Damage>,
}

#[derive(Debug, Default)]
struct State {
    /// Who holds a session, and until when at least.
    seen: HashMap<(String, String), (String, Timestamp)>,
    /// Who claims sessions in this process.
    owners: HashSet<String>,
    /// Owners that had no session when they were last searched for.
    idle: HashMap<String, Timestamp>,
}

/// A session that is claimed together with an activity.
#[derive(Debug)]
pub(crate) struct Claim {
    session: Session,
    /// The version that is taken over; nothing when the session is new.
    etag: Option<ETag>,
}

impl Claim {
    /// Adds the claim to the batch that locks the activity.
    pub(crate) fn add_to(&self, batch: &mut Batch<Durable>) -> Result<(), BatchError> {
        match &self.etag {
            Some(etag) => batch.replace_if_match(&self.session, etag)?,
            None => batch.create(&self.session)?,
        };
        Ok(())
    }
}

/// The session of an activity, claimed for the first time.
fn fresh(item: &WorkerItem, config: &SessionFetchConfig, now: Timestamp) -> Session {
    Session {
        instance_id: item.instance_id.clone(),
        session_id: item.session_id.clone().unwrap_or_default(),
        owner_id: config.owner_id.clone(),
        locked_until: now + config.lock_timeout,
        last_activity: now,
        created_at: now,
    }
}

impl Sessions {
    pub(crate) fn new(damage: Arc<Damage>) -> Self {
        Self {
            state: Mutex::default(),
            damage,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is worth trying: without a session always, with one when this worker takes sessions and nobody else is
    /// known to hold it.
    pub(crate) fn may_fetch(
        &self,
        item: &WorkerItem,
        config: Option<&SessionFetchConfig>,
        now: Timestamp,
    ) -> bool {
        let Some(session_id) = &item.session_id else {
            return true;
        };
        let Some(config) = config else { return false };
        let key = (item.instance_id.clone(), session_id.clone());
        self.state()
            .seen
            .get(&key)
            .is_none_or(|(owner, until)| *owner == config.owner_id || *until <= now)
    }

    /// Looks whether the session of an activity can be had, and how. `None` while another owner holds it.
    pub(crate) async fn claim(
        &self,
        container: &ContainerClient<Durable>,
        item: &WorkerItem,
        config: &SessionFetchConfig,
        now: Timestamp,
    ) -> Result<Option<Claim>, ProviderError> {
        let session_id = item.session_id.clone().unwrap_or_default();
        let key = SessionKey::new(&*item.instance_id, &*session_id);
        let found = match container.read(&key).await {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::Decode => {
                return self.reclaim(container, item, config, now).await;
            }
            Err(error) => return Err(provider_error("fetch_work_item", &error)),
        };
        let session = found.as_ref().map(|stored| &stored.document);
        if let Some(session) = session
            && !session.is_lockable(now)
            && session.lock_mark() != Some(&*config.owner_id)
        {
            let until = session.locked_until.min(now + HELD_FOR);
            self.see(&Session {
                locked_until: until,
                ..session.clone()
            });
            return Ok(None);
        }
        let created_at = found
            .as_ref()
            .map_or(now, |stored| stored.document.created_at);
        let session = Session {
            created_at,
            ..fresh(item, config, now)
        };
        let etag = found.map(|stored| stored.etag);
        Ok(Some(Claim { session, etag }))
    }

    /// Claims a session whose document cannot be read: it is written anew, unless it says that somebody else holds it.
    async fn reclaim(
        &self,
        container: &ContainerClient<Durable>,
        item: &WorkerItem,
        config: &SessionFetchConfig,
        now: Timestamp,
    ) -> Result<Option<Claim>, ProviderError> {
        let session = fresh(item, config, now);
        let id = session.key().to_id();
        let id = id.map_err(|error| unreadable("fetch_work_item", error))?;
        let all = Query::<Session>::in_partition(&*item.instance_id);
        let rows = container.query(all).row_by_row().all().await;
        let rows = rows.map_err(|error| provider_error("fetch_work_item", &error))?;
        let found = rows
            .into_iter()
            .filter_map(Result::err)
            .find(|found| found.location.as_ref().is_some_and(|at| at.id == id));
        // Meanwhile gone, or readable: the next fetch claims it.
        let Some(found) = found else {
            return Ok(None);
        };
        self.damage.tell(&found);
        let until = found.field(Session::LOCKED_UNTIL);
        let owner = found.field(Session::OWNER_ID);
        let held = until.is_some_and(|until| until > now);
        if held && owner.is_some_and(|owner: String| owner != config.owner_id) {
            return Ok(None);
        }
        let etag = found.location.map(|location| location.etag);
        Ok(Some(Claim { session, etag }))
    }

    /// The claim is committed.
    pub(crate) fn claimed(&self, claim: &Claim) {
        {
            let mut state = self.state();
            state.idle.remove(&claim.session.owner_id);
            state.owners.insert(claim.session.owner_id.clone());
        }
        self.see(&claim.session);
    }

    fn see(&self, session: &Session) {
        let key = (session.instance_id.clone(), session.session_id.clone());
        let holder = (session.owner_id.clone(), session.locked_until);
        self.state().seen.insert(key, holder);
    }

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
        if let Err(error) = container.patch(&key, &patch).await
            && !error.is_precondition_failed()
            && !error.is_not_found()
        {
            tracing::debug!(%error, "activity of a session was not noted");
        }
    }

    /// Implements `Provider::renew_session_lock`.
    pub(crate) async fn renew(
        &self,
        container: &ContainerClient<Durable>,
        owner_ids: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        const RENEW: &str = "renew_session_lock";
        let now = container.now();
        let owners: Vec<&str> = {
            let state = self.state();
            let busy = |owner: &&&str| state.idle.get(**owner).is_none_or(|until| *until <= now);
            owner_ids.iter().filter(busy).copied().collect()
        };
        if owners.is_empty() {
            return Ok(0);
        }
        let query = Query::<Session>::across_partitions().filter(
            Session::OWNER_ID.is_in(owners.iter().copied()) & Session::LOCKED_UNTIL.gt(now),
        );
        let held = container.query(query).row_by_row().all().await;
        let held = held.map_err(|error| provider_error(RENEW, &error))?;
        // One that cannot be read ends by itself, and is written anew by whoever claims it next.
        let held = self.damage.readable(held);
        {
            let mut state = self.state();
            for owner in owners {
                if !held.iter().any(|stored| stored.document.owner_id == owner) {
                    state.idle.insert(owner.to_owned(), now + NO_SESSIONS_FOR);
                }
            }
        }
        let mut renewed = 0;
        for stored in held {
            // Fresh for every session: renewing many takes time.
            let now = container.now();
            if stored.document.last_activity + idle_timeout <= now {
                continue;
            }
            let until = now + extend_for;
            let patch = Patch::<Session>::new()
                .set(Session::LOCKED_UNTIL, until)
                .when(
                    Session::OWNER_ID.eq(&*stored.document.owner_id)
                        & Session::LOCKED_UNTIL.gt(now),
                );
            let key = SessionKey::new(&*stored.document.instance_id, &*stored.document.session_id);
            match container.patch(&key, &patch).await {
                Ok(_) => {
                    renewed += 1;
                    self.see(&Session {
                        locked_until: until,
                        ..stored.document
                    });
                }
                // Lost, or cleaned up: no longer ours to renew.
                Err(error) if error.is_precondition_failed() || error.is_not_found() => {}
                Err(error) => return Err(provider_error(RENEW, &error)),
            }
        }
        Ok(renewed)
    }

    /// Lets go of the sessions that were claimed here, so that other workers need not wait until their locks end.
    pub(crate) async fn release(&self, container: &ContainerClient<Durable>) {
        let now = container.now();
        let held: Vec<_> = {
            let state = self.state();
            let ours =
                |(owner, until): &(String, Timestamp)| state.owners.contains(owner) && *until > now;
            let held = state.seen.iter().filter(|(_, holder)| ours(holder));
            held.map(|(key, (owner, _))| (key.clone(), owner.clone()))
                .collect()
        };
        for ((instance_id, session_id), owner) in held {
            let now = container.now();
            let patch = Patch::<Session>::new()
                .set(Session::LOCKED_UNTIL, now)
                .when(Session::OWNER_ID.eq(&*owner) & Session::LOCKED_UNTIL.gt(now));
            let key = SessionKey::new(&*instance_id, &*session_id);
            match container.patch(&key, &patch).await {
                // Lost, or cleaned up.
                Err(error) if error.is_precondition_failed() || error.is_not_found() => {}
                Err(error) => tracing::debug!(%error, "a session is left to end by itself"),
                Ok(_) => {}
            }
            self.state().seen.remove(&(instance_id, session_id));
        }
    }

    /// Implements `Provider::cleanup_orphaned_sessions`: those that nobody holds and no activity waits for.
    pub(crate) async fn cleanup(
        &self,
        container: &ContainerClient<Durable>,
    ) -> Result<usize, ProviderError> {
        const CLEANUP: &str = "cleanup_orphaned_sessions";
        let failed = |error| provider_error(CLEANUP, &error);
        let query =
            Query::<Session>::across_partitions().filter(Session::LOCKED_UNTIL.lt(container.now()));
        let expired = container
            .query(query)
            .row_by_row()
            .all()
            .await
            .map_err(failed)?;
        let mut removed = 0;
        for stored in self.damage.readable(expired) {
            let session = &stored.document;
            let waiting = Query::<WorkerItem>::in_partition(&*session.instance_id)
                .filter(WorkerItem::SESSION_ID.eq(&*session.session_id))
                .count();
            if container
                .query(waiting)
                .all()
                .await
                .map_err(failed)?
                .iter()
                .sum::<u64>()
                > 0
            {
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
