//! The turns this process works on, by lock token, and the instances that are busy here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cdb_model::{ETag, Stored, Timestamp};
use duroxide::providers::ProviderError;
use tokio::sync::Mutex as AsyncMutex;

use crate::documents::{Instance, OrchestratorItem};
use crate::error::lock_lost;
use crate::kv::KvState;

/// What a lock holder knows about the instance since the lock was taken.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) token: String,
    /// The claim in this process that the lock was taken under.
    pub(crate) claim: u64,
    /// The instance as locked: its ETag is the one that the commit is conditional on.
    pub(crate) instance: Stored<Instance>,
    pub(crate) messages: Vec<Stored<OrchestratorItem>>,
    pub(crate) kv: KvState,
    /// Committed, abandoned or lost. A second call with the same token waited for the first one and comes too late.
    pub(crate) ended: bool,
}

impl Turn {
    /// Whether the lock still holds at `now`.
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        !self.ended && self.instance.document.is_locked(now)
    }

    /// A write of ours succeeded and gave the instance this version.
    pub(crate) fn advance(&mut self, instance: Instance, etag: ETag) {
        self.instance.document = instance;
        self.instance.etag = etag;
    }
}

/// A turn in the table. Renewal and commit of one turn both move its ETag, so they take turns.
pub(crate) type SharedTurn = Arc<AsyncMutex<Turn>>;

/// All turns of this process.
#[derive(Debug, Default)]
pub(crate) struct TurnTable {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    turns: HashMap<String, SharedTurn>,
    busy: HashMap<String, Busy>,
    /// Instances that another runtime holds, or that cannot be worked on for now.
    avoided: HashMap<String, Avoided>,
    /// The newest execution of instances that have more than one, as last seen.
    executions: HashMap<String, u64>,
}

#[derive(Debug)]
struct Avoided {
    until: Timestamp,
    /// The version it is pinned to, when that is the only reason: a dispatcher that supports it may look.
    pinned: Option<u64>,
}

#[derive(Debug)]
struct Busy {
    /// Locks end by themselves; until then nobody here needs to look at the instance.
    until: Timestamp,
    /// Which claim this is, so that a late release does not remove a newer one.
    claim: u64,
    /// The lock is won; before, the claim is a try.
    locked: bool,
    /// Somebody asked for the instance meanwhile.
    wanted: bool,
}

/// How many newest executions are remembered before all are forgotten.
const MAX_EXECUTIONS: usize = 65_536;

/// How many avoided instances are remembered before the outdated ones are dropped.
const AVOIDED_BEFORE_SWEEP: usize = 1024;

impl TurnTable {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is valid between any two statements, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims an instance for a try in this process, until `until` at the latest. `false` while another dispatcher of
    /// this process has it, or while it is avoided.
    pub(crate) fn claim(
        &self,
        instance_id: &str,
        (now, until): (Timestamp, Timestamp),
        claim: u64,
        supports: impl Fn(u64) -> bool,
    ) -> bool {
        let mut state = self.state();
        let avoided = state.avoided.get(instance_id);
        if avoided
            .is_some_and(|avoided| avoided.until > now && !avoided.pinned.is_some_and(supports))
        {
            return false;
        }
        if let Some(busy) = state.busy.get_mut(instance_id)
            && busy.until > now
        {
            busy.wanted = true;
            return false;
        }
        let busy = Busy {
            until,
            claim,
            locked: false,
            wanted: false,
        };
        state.busy.insert(instance_id.to_owned(), busy);
        true
    }

    /// Gives a claim back. Returns whether somebody asked for the instance meanwhile.
    pub(crate) fn release(&self, instance_id: &str, claim: u64) -> bool {
        let mut state = self.state();
        match state.busy.get(instance_id) {
            Some(busy) if busy.claim == claim => {
                let wanted = busy.wanted;
                state.busy.remove(instance_id);
                wanted
            }
            _ => false,
        }
    }

    /// The lock now holds until `until`.
    pub(crate) fn extend(&self, instance_id: &str, claim: u64, until: Timestamp) {
        if let Some(busy) = self.state().busy.get_mut(instance_id)
            && busy.claim == claim
        {
            busy.until = until;
            busy.locked = true;
        }
    }

    /// Whether a try of the instance is going on in this process, of which nobody knows how it will end.
    pub(crate) fn is_undecided(&self, instance_id: &str) -> bool {
        let state = self.state();
        state.busy.get(instance_id).is_some_and(|busy| !busy.locked)
    }

    /// Nobody here looks at the instance before `until`, unless it is only `pinned` to a version that they support.
    pub(crate) fn avoid(
        &self,
        instance_id: &str,
        (now, until): (Timestamp, Timestamp),
        pinned: Option<u64>,
    ) {
        let mut state = self.state();
        if state.avoided.len() >= AVOIDED_BEFORE_SWEEP {
            state.avoided.retain(|_, avoided| avoided.until > now);
        }
        let avoided = Avoided { until, pinned };
        state.avoided.insert(instance_id.to_owned(), avoided);
    }

    /// The newest execution of an instance, if this process has seen a later one than the first. A guess.
    pub(crate) fn newest_execution(&self, instance_id: &str) -> Option<u64> {
        self.state().executions.get(instance_id).copied()
    }

    /// Notes the newest execution of an instance.
    pub(crate) fn note_execution(&self, instance: &Instance) {
        if instance.current_execution_id == 1 {
            return;
        }
        let mut state = self.state();
        if state.executions.len() >= MAX_EXECUTIONS {
            state.executions.clear();
        }
        state
            .executions
            .insert(instance.instance_id.clone(), instance.current_execution_id);
    }

    /// Registers a turn whose lock was won.
    pub(crate) fn insert(&self, turn: Turn) {
        let token = turn.token.clone();
        self.note_execution(&turn.instance.document);
        self.state()
            .turns
            .insert(token, Arc::new(AsyncMutex::new(turn)));
    }

    /// The turn of a lock token, for `operation`.
    ///
    /// # Errors
    /// When this process holds no such lock.
    pub(crate) fn get(
        &self,
        operation: &'static str,
        token: &str,
    ) -> Result<SharedTurn, ProviderError> {
        let held = self.state().turns.get(token).cloned();
        held.ok_or_else(|| lock_lost(operation, "this process holds no such lock"))
    }

    /// The turn is over, whatever its end.
    pub(crate) fn remove(&self, token: &str) {
        self.state().turns.remove(token);
    }

    /// Forgets turns whose lock has ended long ago: their runtime gave up on them.
    pub(crate) fn sweep(&self, now: Timestamp) {
        self.state().turns.retain(|_, turn| {
            turn.try_lock().map_or(true, |turn| {
                turn.instance.document.locked_until >= Some(now)
            })
        });
    }
}
