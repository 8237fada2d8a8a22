//! The turns this process works on, by lock token, and the instances that are busy here.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard as StdMutexGuard, PoisonError};
use std::time::Duration;

use cdb_coordination::Lockable;
use cdb_model::{ETag, Stored, Timestamp};
use duroxide::Event;
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};
use tokio::time::Instant;

use super::avoided::{Avoided, Outlook};
use super::claim::Wish;
use super::mail::Message;
use super::memory::Past;
use super::refusal::Refusal;
use crate::documents::Instance;
use crate::error::{Error, Result};
use crate::kv::KvState;
use crate::wait::Usual;

/// What a lock holder knows about the instance since the lock was taken.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) token: String,
    /// The claim in this process that the lock was taken under.
    pub(crate) claim: u64,
    /// The instance as locked: its ETag is the one that the commit is conditional on.
    pub(crate) instance: Stored<Instance>,
    pub(crate) messages: Vec<Message>,
    /// How long the lock lasts each time it is taken or renewed.
    pub(super) lock_time: Duration,
    /// The attempts without the one that this lock has counted, once a commit has had to renew the lock.
    pub(super) uncounted: Option<BTreeMap<String, u32>>,
    pub(crate) kv: KvState,
    /// The history of the newest execution, or why it cannot be read.
    pub(crate) past: Result<Past, String>,
    /// Fetched by a dispatcher that waits for work: a runtime, not somebody who looks once.
    pub(crate) patient: bool,
    /// When a dispatcher got it.
    pub(crate) begun_at: Instant,
    /// Its commit was refused for good; the runtime fails the orchestration instead.
    pub(crate) refused: Option<Refusal>,
    /// Committed, abandoned or lost. A second call with the same token waited for the first one and comes too late.
    pub(crate) ended: bool,
}

impl Turn {
    /// Whether the lock still holds at `now`.
    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        !self.ended && !self.instance.document.is_lockable(now)
    }

    /// Whether less than `time` is left of the lock at `now`.
    pub(super) fn lasts_less_than(&self, now: Timestamp, time: Duration) -> bool {
        self.instance.document.is_lockable(now + time)
    }

    /// The highest count of fetches among the messages. One that came after the lock was taken counts once.
    pub(crate) fn attempt_count(&self) -> u32 {
        let attempts = &self.instance.document.attempts;
        let count = |message: &Message| attempts.get(message.id().as_str()).copied().unwrap_or(1);
        self.messages.iter().map(count).max().unwrap_or(1)
    }

    /// A write of ours succeeded and gave the instance this version.
    pub(crate) fn advance(&mut self, instance: Instance, etag: ETag) {
        self.instance.document = instance;
        self.instance.etag = etag;
    }
}

/// A turn in the table. Renewal and commit of one turn both move its ETag, so they take turns.
#[derive(Debug)]
pub(crate) struct SharedTurn {
    turn: AsyncMutex<Turn>,
    is_committing: AtomicBool,
}

impl SharedTurn {
    fn new(turn: Turn) -> Arc<Self> {
        Arc::new(Self {
            turn: AsyncMutex::new(turn),
            is_committing: AtomicBool::new(false),
        })
    }

    /// Waits for the right to change the turn.
    pub(crate) async fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().await
    }

    /// The turn, unless somebody else is changing it.
    fn try_lock(&self) -> Option<MutexGuard<'_, Turn>> {
        self.turn.try_lock().ok()
    }

    /// Waits for the right to commit the turn, and then keeps its lock.
    pub(super) async fn lock_for_commit(&self) -> (MutexGuard<'_, Turn>, Committing<'_>) {
        let turn = self.turn.lock().await;
        self.is_committing.store(true, Ordering::Relaxed);
        (turn, Committing(self))
    }

    /// Whether a commit is under way, which renews the lock itself.
    pub(super) fn is_committing(&self) -> bool {
        self.is_committing.load(Ordering::Relaxed)
    }
}

/// A commit of a turn that is under way.
pub(super) struct Committing<'a>(&'a SharedTurn);

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.0.is_committing.store(false, Ordering::Relaxed);
    }
}

/// All turns of this process.
#[derive(Debug, Default)]
pub(crate) struct TurnTable {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    turns: HashMap<String, Arc<SharedTurn>>,
    /// The histories that these turns have begun with, by instance. Beside the turns, which their commits lock.
    histories: HashMap<String, Arc<Vec<Event>>>,
    busy: HashMap<String, Busy>,
    /// Instances that another runtime holds, or that cannot be worked on for now.
    avoided: Avoided,
    /// The newest execution of instances that have more than one, as last seen.
    executions: HashMap<String, u64>,
    /// Instances that exist although a message to start them was seen here.
    born: HashSet<String>,
    /// Turns whose lock was won ahead of the dispatcher that will ask for them, by instance.
    ahead: HashMap<String, (Turn, Instant)>,
    /// The lock time that dispatchers of this process ask for.
    lock_timeout: Option<Duration>,
    pace: Usual,
    /// Locks that a fetch has asked for and no dispatcher has got yet, by token: the instance, and when they end. A fetch
    /// that is dropped leaves its lock here.
    tried: HashMap<String, (String, Timestamp)>,
}

impl State {
    /// The turns of dispatchers that wait for work. One that is being worked on at this very moment can be locked; then
    /// it belongs to a dispatcher anyway.
    fn at_work(&self) -> impl Iterator<Item = &Arc<SharedTurn>> {
        let turns = self.turns.values();
        turns.filter(|turn| turn.try_lock().is_none_or(|turn| turn.patient))
    }

    fn note_history(&mut self, turn: &Turn) {
        // The first turn has none, and its activities are scheduled by its commit.
        if let Ok(past) = &turn.past
            && !past.events.is_empty()
        {
            let instance_id = turn.instance.document.instance_id.clone();
            self.histories.insert(instance_id, past.events.clone());
        }
    }
}

#[derive(Debug)]
struct Busy {
    /// Locks end by themselves; until then nobody here needs to look at the instance.
    until: Timestamp,
    /// Which claim this is, so that a late release does not remove a newer one.
    claim: u64,
    /// The lock is won; before, the claim is a try.
    locked: bool,
    /// What somebody wants who asked for the instance meanwhile.
    wish: Wish,
}

/// How many newest executions are remembered, and how many existing instances, before all are forgotten.
const MAX_EXECUTIONS: usize = 65_536;

/// A lock is taken ahead when its turn is to be expected within this part of the lock time, so that most of it is left
/// then.
const WAIT_SHARE: u32 = 8;

/// How many candidates may be ready per dispatcher, at most, for another one to be locked ahead.
const MOST_AHEAD: usize = 64;

impl TurnTable {
    fn state(&self) -> StdMutexGuard<'_, State> {
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
        wish: Wish,
        supports: impl Fn(u64) -> bool,
    ) -> bool {
        let mut state = self.state();
        if state.avoided.keeps_out(instance_id, now, supports) {
            return false;
        }
        if let Some(busy) = state.busy.get_mut(instance_id)
            && busy.until > now
        {
            busy.wish = busy.wish.max(wish);
            return false;
        }
        let busy = Busy {
            until,
            claim,
            locked: false,
            wish: Wish::None,
        };
        state.busy.insert(instance_id.to_owned(), busy);
        true
    }

    /// Gives a claim back. Returns what somebody wants who asked for the instance meanwhile.
    pub(crate) fn release(&self, instance_id: &str, claim: u64) -> Wish {
        let mut state = self.state();
        match state.busy.get(instance_id) {
            Some(busy) if busy.claim == claim => {
                let wish = busy.wish;
                state.busy.remove(instance_id);
                wish
            }
            _ => Wish::None,
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

    /// Whether a dispatcher of this process has the instance.
    pub(crate) fn is_busy(&self, instance_id: &str) -> bool {
        self.state().busy.contains_key(instance_id)
    }

    /// Whether a try of the instance is going on in this process, of which nobody knows how it will end.
    pub(crate) fn is_undecided(&self, instance_id: &str) -> bool {
        let state = self.state();
        state.busy.get(instance_id).is_some_and(|busy| !busy.locked)
    }

    /// Nobody here looks at the instance before `until`.
    pub(crate) fn avoid(&self, instance_id: &str, times: (Timestamp, Timestamp)) {
        self.state().avoided.avoid(instance_id, times);
    }

    /// Nobody here looks at the instance for a while, longer each time: see [`Avoided::avoid_unfit`].
    pub(crate) fn avoid_unfit(
        &self,
        instance_id: &str,
        now: Timestamp,
        newest: Timestamp,
        pinned: Option<u64>,
    ) {
        let mut state = self.state();
        state.avoided.avoid_unfit(instance_id, now, newest, pinned);
    }

    /// Whether the instance was looked at in vain before.
    pub(super) fn was_unfit(&self, instance_id: &str) -> bool {
        self.state().avoided.is_known(instance_id)
    }

    /// What a message that a poll has found is to this process.
    pub(crate) fn outlook(
        &self,
        instance_id: &str,
        visible_at: Timestamp,
        now: Timestamp,
    ) -> Outlook {
        self.state().avoided.outlook(instance_id, visible_at, now)
    }

    /// This process has sent the instance a message, which may be what it waited for.
    pub(crate) fn welcome(&self, instance_id: &str) {
        self.state().avoided.welcome(instance_id);
    }

    /// The newest execution of an instance, if this process has seen a later one than the first. A guess.
    pub(crate) fn newest_execution(&self, instance_id: &str) -> Option<u64> {
        self.state().executions.get(instance_id).copied()
    }

    /// Whether an instance is known to exist that this process does not remember.
    pub(super) fn is_born(&self, instance_id: &str) -> bool {
        self.state().born.contains(instance_id)
    }

    /// Notes that an instance exists: its start came twice, or another runtime was faster.
    pub(super) fn note_born(&self, instance_id: &str) {
        let mut state = self.state();
        if state.born.len() >= MAX_EXECUTIONS {
            state.born.clear();
        }
        state.born.insert(instance_id.to_owned());
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

    /// The history that a turn of this instance has begun with, in this process.
    pub(crate) fn history(&self, instance_id: &str) -> Option<Arc<Vec<Event>>> {
        self.state().histories.get(instance_id).cloned()
    }

    /// The turn's history is about to grow; who else holds it would force a copy.
    pub(super) fn release_history(&self, instance_id: &str) {
        self.state().histories.remove(instance_id);
    }

    /// Registers a turn whose lock was won, and which a dispatcher gets now.
    pub(crate) fn insert(&self, mut turn: Turn) {
        turn.begun_at = Instant::now();
        let token = turn.token.clone();
        self.note_execution(&turn.instance.document);
        let mut state = self.state();
        state.note_history(&turn);
        state.tried.remove(&token);
        state.turns.insert(token, SharedTurn::new(turn));
    }

    /// Notes the lock time that a waiting dispatcher asked for: locks taken ahead of it last as long.
    pub(crate) fn note_lock_timeout(&self, lock_timeout: Duration) {
        self.state().lock_timeout = Some(lock_timeout);
    }

    /// How long a lock taken ahead lasts; nothing when the turn would have to wait: when `ready` candidates are enough
    /// for the `waiting` dispatchers and those at work here.
    pub(super) fn room_ahead(&self, ready: usize, waiting: usize) -> Option<Duration> {
        let state = self.state();
        let dispatchers = waiting + state.at_work().count();
        let timeout = state.lock_timeout?;
        let each = state.pace.how_many_in(timeout / WAIT_SHARE).min(MOST_AHEAD);
        (ready < each * dispatchers).then_some(timeout)
    }

    /// Whether dispatchers of this process wait for work or do it.
    pub(crate) fn has_dispatchers(&self, waiting: usize) -> bool {
        waiting > 0 || self.state().at_work().next().is_some()
    }

    /// Keeps a turn whose lock was won until a dispatcher asks for it.
    pub(super) fn keep_ahead(&self, turn: Turn) {
        let until = turn.instance.document.locked_until.unwrap_or_default();
        let instance_id = turn.instance.document.instance_id.clone();
        self.extend(&instance_id, turn.claim, until);
        let mut state = self.state();
        state.note_history(&turn);
        state.ahead.insert(instance_id, (turn, Instant::now()));
    }

    /// The turn that was locked ahead for an instance.
    pub(super) fn take_ahead(&self, instance_id: &str) -> Option<Turn> {
        let mut state = self.state();
        let (turn, _) = state.ahead.remove(instance_id)?;
        let until = turn.instance.document.locked_until.unwrap_or_default();
        let tried = (instance_id.to_owned(), until);
        state.tried.insert(turn.token.clone(), tried);
        Some(turn)
    }

    /// A fetch asks for a lock, which would last until `until`.
    pub(super) fn try_lock(&self, token: &str, instance_id: &str, until: Timestamp) {
        let tried = (instance_id.to_owned(), until);
        self.state().tried.insert(token.to_owned(), tried);
    }

    /// The lock was not won, or is given back.
    pub(super) fn forget_try(&self, token: &str) {
        self.state().tried.remove(token);
    }

    /// Takes out the locks that were asked for and that no dispatcher has got.
    pub(super) fn take_tried(&self) -> Vec<(String, String)> {
        let tried = std::mem::take(&mut self.state().tried).into_iter();
        tried
            .map(|(token, (instance_id, _))| (token, instance_id))
            .collect()
    }

    /// The turns that dispatchers have got.
    pub(super) fn held(&self) -> Vec<Arc<SharedTurn>> {
        self.state().turns.values().cloned().collect()
    }

    /// Takes out the turns that nobody has asked for within `patience`.
    pub(super) fn take_unwanted(&self, patience: Duration) -> Vec<Turn> {
        let mut state = self.state();
        let now = Instant::now();
        let unwanted = state
            .ahead
            .extract_if(|_, (_, since)| now.duration_since(*since) >= patience);
        unwanted.map(|(_, (turn, _))| turn).collect()
    }

    /// The turn of a lock token, for `operation`.
    ///
    /// # Errors
    /// When this process holds no such lock.
    pub(crate) fn get(&self, token: &str) -> Result<Arc<SharedTurn>> {
        let held = self.state().turns.get(token).cloned();
        held.ok_or_else(|| Error::LockLost("this process holds no such lock"))
    }

    /// The turn is over; whoever calls with its token later comes too late. Its claim is not given back.
    pub(crate) fn end(&self, turn: &mut Turn) {
        turn.ended = true;
        let mut state = self.state();
        state.pace.took(turn.begun_at.elapsed());
        state.turns.remove(&turn.token);
        state.histories.remove(&turn.instance.document.instance_id);
    }

    /// Forgets turns whose lock has ended long ago: their runtime gave up on them.
    pub(crate) fn sweep(&self, now: Timestamp) {
        let mut state = self.state();
        let state = &mut *state;
        state.turns.retain(|_, turn| {
            turn.try_lock()
                .is_none_or(|turn| turn.instance.document.locked_until >= Some(now))
        });
        state.busy.retain(|_, busy| busy.until > now);
        state.tried.retain(|_, (_, until)| *until > now);
        let busy = &state.busy;
        state.histories.retain(|id, _| busy.contains_key(id));
    }
}
