//! The sessions that this process knows: their holders, the owners that claim sessions here, and
//! owners without sessions.
//!
//! All of it are hints; a wrong or missing entry costs a request.

use std::collections::{HashMap, HashSet};

use cdb_model::{Document, Timestamp};
use duroxide::providers::SessionFetchConfig;
use parking_lot::Mutex;

use crate::stored::Store;
use crate::stored::documents::{Session, SessionKey, WorkerItem};
use crate::timing::OWNER_WITHOUT_SESSIONS;

/// The number of remembered sessions from which on expired ones are removed.
const SWEEP_THRESHOLD: usize = 1024;

/// The table of a container's sessions in this process.
#[derive(Debug)]
pub(crate) struct Sessions {
    state: Mutex<State>,
    pub(super) store: Store,
}

#[derive(Debug, Default)]
struct State {
    /// The holder of each session, and the earliest expiry.
    holders: HashMap<SessionKey, (String, Timestamp)>,
    /// The owners that claim sessions in this process.
    owners: HashSet<String>,
    /// Owners that had no session when they were last searched.
    idle: HashMap<String, Timestamp>,
    /// The number of sessions at which expired ones are removed next.
    sweep_at: usize,
}

impl State {
    /// Returns the owner that is known to hold the session of an activity; `None` without a session.
    fn holder(&self, item: &WorkerItem, now: Timestamp) -> Option<&String> {
        let session_id = item.session_id.as_deref()?;
        let key = SessionKey::new(&*item.instance_id, session_id);
        let (owner, until) = self.holders.get(&key)?;
        (*until > now).then_some(owner)
    }

    fn note(&mut self, session: &Session, now: Timestamp) {
        if self.holders.len() >= self.sweep_at.max(SWEEP_THRESHOLD) {
            self.holders.retain(|_, (_, until)| *until > now);
            // Doubling keeps the cost per entry constant.
            self.sweep_at = 2 * self.holders.len();
        }
        let holder = (session.owner_id.clone(), session.locked_until);
        self.holders.insert(session.key(), holder);
    }
}

impl Sessions {
    pub(crate) fn new(store: Store) -> Self {
        Self {
            state: Mutex::default(),
            store,
        }
    }

    /// Returns whether to try an activity. An activity without a session is always tried. One with
    /// a session is tried if this worker takes sessions and no other owner is known to hold it.
    pub(crate) fn may_fetch(&self, item: &WorkerItem, config: Option<&SessionFetchConfig>) -> bool {
        if item.session_id.is_none() {
            return true;
        }
        let Some(config) = config else { return false };
        let (now, state) = (self.store.now(), self.state.lock());
        let holder = state.holder(item, now);
        holder.is_none_or(|owner| *owner == config.owner_id)
    }

    /// Returns whether an owner of another process is known to hold the session of an activity.
    pub(crate) fn is_held_elsewhere(&self, item: &WorkerItem) -> bool {
        let (now, state) = (self.store.now(), self.state.lock());
        let holder = state.holder(item, now);
        holder.is_some_and(|owner| !state.owners.contains(owner))
    }

    /// Notes the holder of a session.
    pub(super) fn note(&self, session: &Session, now: Timestamp) {
        self.state.lock().note(session, now);
    }

    /// Notes a session that was claimed here.
    pub(super) fn note_own(&self, session: &Session, now: Timestamp) {
        let mut state = self.state.lock();
        state.idle.remove(&session.owner_id);
        state.owners.insert(session.owner_id.clone());
        state.note(session, now);
    }

    /// Returns the owners that may have sessions.
    pub(super) fn busy<'a>(&self, owner_ids: &[&'a str], now: Timestamp) -> Vec<&'a str> {
        let state = self.state.lock();
        let busy = |owner: &&&str| state.idle.get(**owner).is_none_or(|until| *until <= now);
        owner_ids.iter().filter(busy).copied().collect()
    }

    /// Notes owners without sessions.
    pub(super) fn note_idle<'a>(&self, owners: impl Iterator<Item = &'a str>, now: Timestamp) {
        let until = now + OWNER_WITHOUT_SESSIONS;
        let idle = owners.map(|owner| (owner.to_owned(), until));
        self.state.lock().idle.extend(idle);
    }

    /// Returns the sessions held by owners of this process, with their owners.
    pub(super) fn held_here(&self, now: Timestamp) -> Vec<(SessionKey, String)> {
        let state = self.state.lock();
        let ours =
            |(owner, until): &(String, Timestamp)| state.owners.contains(owner) && *until > now;
        let held = state.holders.iter().filter(|(_, holder)| ours(holder));
        held.map(|(key, (owner, _))| (key.clone(), owner.clone()))
            .collect()
    }

    pub(super) fn forget(&self, key: &SessionKey) {
        self.state.lock().holders.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cdb_client::transport::Script;
    use cdb_client::{CosmosClient, MasterKey};

    use super::*;
    use crate::config::CosmosDBProviderConfig;

    const NOW: Timestamp = Timestamp::from_secs(1_000);

    fn sessions() -> Sessions {
        let client = CosmosClient::builder("http://localhost:8081")
            .credential(MasterKey::new(cdb_emulator::WELL_KNOWN_KEY).expect("a key"))
            .transport(Script::new([]))
            .build()
            .expect("a client");
        let container = client.database("duroxide").container("duroxide");
        let settings = CosmosDBProviderConfig::default().store();
        Sessions::new(Store::new(container, settings, None))
    }

    fn session(number: usize, owner: &str, locked_until: Timestamp) -> Session {
        Session {
            instance_id: "i".to_owned(),
            session_id: number.to_string(),
            owner_id: owner.to_owned(),
            locked_until,
            last_activity: NOW,
            created_at: NOW,
        }
    }

    #[test]
    fn only_expired_sessions_are_forgotten() {
        let sessions = sessions();
        let later = NOW + Duration::from_secs(60);
        for number in 0..4 * SWEEP_THRESHOLD {
            // One in 64 sessions is still held.
            let until = if number % 64 == 0 { later } else { NOW };
            sessions.note_own(&session(number, "w", until), NOW);
        }
        assert!(sessions.state.lock().holders.len() <= SWEEP_THRESHOLD + 64);
        assert_eq!(sessions.held_here(NOW).len(), 4 * SWEEP_THRESHOLD / 64);
    }

    #[test]
    fn an_owner_without_sessions_is_searched_again_after_its_time_or_its_claim() {
        let sessions = sessions();
        sessions.note_idle(["w", "x"].into_iter(), NOW);
        assert!(sessions.busy(&["w", "x"], NOW).is_empty());
        sessions.note_own(&session(1, "w", NOW), NOW);
        assert_eq!(sessions.busy(&["w", "x"], NOW), ["w"]);
        assert_eq!(
            sessions.busy(&["w", "x"], NOW + OWNER_WITHOUT_SESSIONS),
            ["w", "x"]
        );
    }
}
