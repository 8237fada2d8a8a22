//! A turn is committed: what it left is remembered for the next one, and what waits for it in this process is woken.
//!
//! Nothing here sends a request.

use std::time::Duration;

use cdb_model::{Document, DocumentKey};
use tokio::time::Instant;

use super::cargo::Cargo;
use super::commit::Sent;
use super::mail::Message;
use super::memory::{Past, Remembered};
use super::result::TurnResult;
use super::table::Turn;
use crate::documents::OutboxIntent;
use crate::kv::KvState;
use crate::services::Services;
use crate::work;

/// The turn is committed: what it left is remembered, what it set in motion is handed on. Returns what goes elsewhere.
pub(super) fn settle(
    inner: &Services,
    turn: &mut Turn,
    result: &TurnResult,
    mut cargo: Cargo,
    mut sent: Sent,
) -> Vec<OutboxIntent> {
    let instance_id = &turn.instance.document.instance_id;
    inner.instances.consumed(instance_id, &turn.messages);
    hand_on_activities(inner, &mut cargo, &sent);
    let own = hand_on_messages(inner, &mut cargo, &sent);
    let intents = std::mem::take(&mut cargo.outgoing.intents);
    if let Some(leftover) = cargo.leftover.take() {
        leftover.remove(inner);
    }
    let known = remembered(inner, turn, result, cargo, &mut sent);
    match (sent.next, known) {
        (Some(next), Some(known)) => next.begin(inner, turn, known, own),
        (Some(next), None) => {
            inner.instances.finish(turn);
            next.lost_sight(inner, turn);
        }
        (None, known) => {
            let known = known.filter(|known| known.instance.document.has_more());
            let execution = sent.instance.current_execution_id;
            inner.instances.finish_committed(turn, known, execution);
        }
    }
    intents
}

/// The instance as the commit left it, if that is known.
fn remembered(
    inner: &Services,
    turn: &mut Turn,
    result: &TurnResult,
    cargo: Cargo,
    sent: &mut Sent,
) -> Option<Remembered> {
    let past = if result.execution_id > turn.instance.document.current_execution_id {
        let read_at = turn.past.as_ref().ok().and_then(|past| past.read_at);
        Ok(Past {
            read_at,
            ..Past::default()
        })
    } else {
        std::mem::replace(&mut turn.past, Ok(Past::default()))
    };
    inner
        .instances
        .release_history(&turn.instance.document.instance_id);
    let past = past.map(|past| past.extended(&result.history_delta, cargo.history_bytes));
    let id = turn.instance.id.clone();
    let instance = sent.stored(id, sent.instance.clone(), sent.instance_operation)?;
    let before = std::mem::take(&mut turn.kv);
    let kv = match (cargo.kv, sent.kv.take()) {
        (Some((pack, contents)), _) => KvState::unpacked(pack, contents),
        (None, Some(written)) => written.applied(before, sent.outcome.as_ref()?),
        (None, None) => Some(before),
    };
    Some(Remembered {
        instance,
        past: past.ok()?,
        kv: kv?,
    })
}

/// Gives new activities to waiting workers: those that were created for them as theirs, the others as hints.
fn hand_on_activities(inner: &Services, cargo: &mut Cargo, sent: &Sent) {
    let workers = std::mem::take(&mut cargo.outgoing.workers);
    for (document, &operation) in workers.into_iter().zip(&sent.placed.workers) {
        let locked = document.lock_token.is_some().then(|| document.clone());
        let id = document.key().to_id().ok();
        let stored = id.and_then(|id| sent.stored(id, document, operation));
        match (stored, locked) {
            (Some(item), Some(_)) => inner.activities.hand_over(item),
            (Some(item), None) => inner.activities.free(item, Duration::ZERO),
            (None, Some(item)) => work::lost_sight(inner, item),
            (None, None) => inner.activities.poll_soon(),
        }
    }
}

/// Notes the turn's messages to its own instance. Returns those that are due.
fn hand_on_messages(inner: &Services, cargo: &mut Cargo, sent: &Sent) -> Vec<Message> {
    let now = sent.instance.updated_at;
    let own = std::mem::take(&mut cargo.outgoing.own);
    let mut due = Vec::new();
    for (document, &operation) in own.into_iter().zip(&sent.placed.own) {
        let after = document.due_at().since(now);
        let (instance_id, execution_id) = (document.instance_id.clone(), document.execution_id);
        let stored = document
            .key()
            .to_id()
            .ok()
            .and_then(|id| sent.stored(id, document, operation));
        match stored.map(|stored| Message::read(stored, Instant::now())) {
            Some(message) if after.is_zero() => due.push(message),
            Some(message) => inner.instances.expect(message),
            None => inner.instances.suspect(&instance_id, execution_id, after),
        }
    }
    if sent.next.is_none() {
        for message in std::mem::take(&mut due) {
            inner.instances.expect(message);
        }
    }
    due
}
