//! What this process has seen of sessions: who holds them, who claims them here, who had none.
//!
//! Memory of one process. All of it may be wrong or forgotten at any time and costs a request then.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cdb_model::Timestamp;
use duroxide::providers::SessionFetchConfig;

use crate::corrupt_documents::CorruptDocuments;
use crate::documents::{Session, WorkerItem};

/// How long a search for an owner's sessions that found none is believed, unless one is claimed here.
const NO_SESSIONS_FOR: Duration = Duration::from_secs(60);

/// How many sessions are remembered before those are forgotten that nobody holds any more.
const BEFORE_SWEEP: usize = 1024;

/// The sessions of a container, as one process works with them.
#[derive(Debug)]
pub(crate) struct Sessions {
    state: Mutex<State>,
    pub(super) corrupt_documents: Arc<CorruptDocuments>,
}

/// A session's instance and its name there.
pub(super) type Name = (String, String);

#[derive(Debug, Default)]
struct State {
    /// Who holds a session, and until when at least.
    seen: HashMap<Name, (String, Timestamp)>,
    /// Who claims sessions in this process.
    owners: HashSet<String>,
    /// Owners that had no session when they were last searched for.
    idle: HashMap<String, Timestamp>,
    /// With how many sessions seen the outdated ones are forgotten.
    sweep_at: usize,
}

impl State {
    fn see(&mut self, session: &Session, now: Timestamp) {
        if self.seen.len() >= self.sweep_at.max(BEFORE_SWEEP) {
            self.seen.retain(|_, (_, until)| *until > now);
            // So that remembering one takes a moment however many there are.
            self.sweep_at = 2 * self.seen.len();
        }
        let name = (session.instance_id.clone(), session.session_id.clone());
        let holder = (session.owner_id.clone(), session.locked_until);
        self.seen.insert(name, holder);
    }
}

impl Sessions {
    pub(crate) fn new(corrupt_documents: Arc<CorruptDocuments>) -> Self {
        Self {
            state: Mutex::default(),
            corrupt_documents,
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
        let name = (item.instance_id.clone(), session_id.clone());
        self.state()
            .seen
            .get(&name)
            .is_none_or(|(owner, until)| *owner == config.owner_id || *until <= now)
    }

    /// Remembers who holds a session.
    pub(super) fn see(&self, session: &Session, now: Timestamp) {
        self.state().see(session, now);
    }

    /// Remembers a session that was claimed here.
    pub(super) fn see_own(&self, session: &Session, now: Timestamp) {
        let mut state = self.state();
        state.idle.remove(&session.owner_id);
        state.owners.insert(session.owner_id.clone());
        state.see(session, now);
    }

    /// Those of the owners that may have sessions.
    pub(super) fn busy<'a>(&self, owner_ids: &[&'a str], now: Timestamp) -> Vec<&'a str> {
        let state = self.state();
        let busy = |owner: &&&str| state.idle.get(**owner).is_none_or(|until| *until <= now);
        owner_ids.iter().filter(busy).copied().collect()
    }

    /// These owners were found to have no session.
    pub(super) fn note_idle<'a>(&self, owners: impl Iterator<Item = &'a str>, now: Timestamp) {
        let until = now + NO_SESSIONS_FOR;
        let idle = owners.map(|owner| (owner.to_owned(), until));
        self.state().idle.extend(idle);
    }

    /// The sessions that are held by those who claim them here, with their owners.
    pub(super) fn held_here(&self, now: Timestamp) -> Vec<(Name, String)> {
        let state = self.state();
        let ours =
            |(owner, until): &(String, Timestamp)| state.owners.contains(owner) && *until > now;
        let held = state.seen.iter().filter(|(_, holder)| ours(holder));
        held.map(|(name, (owner, _))| (name.clone(), owner.clone()))
            .collect()
    }

    pub(super) fn forget(&self, name: &Name) {
        self.state().seen.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000);

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
    fn sessions_that_nobody_holds_any_more_are_forgotten_and_no_others() {
        let sessions = Sessions::new(Arc::default());
        let later = NOW + Duration::from_secs(60);
        for number in 0..4 * BEFORE_SWEEP {
            // One in 64 is held for longer than the moment.
            let until = if number % 64 == 0 { later } else { NOW };
            sessions.see_own(&session(number, "w", until), NOW);
        }
        assert!(sessions.state().seen.len() <= BEFORE_SWEEP + 64);
        assert_eq!(sessions.held_here(NOW).len(), 4 * BEFORE_SWEEP / 64);
    }

    #[test]
    fn an_owner_without_sessions_is_searched_for_again_after_a_while_or_when_it_claims_one() {
        let sessions = Sessions::new(Arc::default());
        sessions.note_idle(["w", "x"].into_iter(), NOW);
        assert!(sessions.busy(&["w", "x"], NOW).is_empty());
        sessions.see_own(&session(1, "w", NOW), NOW);
        assert_eq!(sessions.busy(&["w", "x"], NOW), ["w"]);
        assert_eq!(
            sessions.busy(&["w", "x"], NOW + NO_SESSIONS_FOR),
            ["w", "x"]
        );
    }
}
