//! A turn is committed: what it left is remembered for the next one, and what waits for it in this process is woken.
//!
//! Nothing here sends a request.

use std::time::Duration;

use cdb_model::{Document, DocumentKey};
use tokio::time::Instant;

use super::content::Cargo;
use super::send::Sent;
use crate::activities;
use crate::documents::OutboxIntent;
use crate::instances::{CachedInstance, History, Message, Turn, TurnResult};
use crate::kv::KvState;
use crate::services::Services;

/// The turn is committed: what it left is remembered, what it set in motion is handed on. Returns what goes elsewhere.
pub(crate) fn settle(
    services: &Services,
    turn: &mut Turn,
    result: &TurnResult,
    mut cargo: Cargo,
    mut sent: Sent,
) -> Vec<OutboxIntent> {
    let instance_id = &turn.instance.document.instance_id;
    services.instances().consumed(instance_id, &turn.messages);
    hand_on_activities(services, &mut cargo, &sent);
    let own = hand_on_messages(services, &mut cargo, &sent);
    let intents = std::mem::take(&mut cargo.outgoing.intents);
    if let Some(consumed_chunks) = cargo.consumed_chunks.take() {
        consumed_chunks.remove(services);
    }
    let known = remembered(services, turn, result, cargo, &mut sent);
    match (sent.next, known) {
        (Some(next), Some(known)) => next.begin(services, turn, known, own),
        (Some(next), None) => {
            services.instances().finish(turn);
            next.outcome_unknown(services, turn);
        }
        (None, known) => {
            let known = known.filter(|known| known.instance.document.has_more());
            let execution = sent.instance.current_execution_id;
            services
                .instances()
                .finish_committed(turn, known, execution);
        }
    }
    intents
}

/// The instance as the commit left it, if that is known.
fn remembered(
    services: &Services,
    turn: &mut Turn,
    result: &TurnResult,
    cargo: Cargo,
    sent: &mut Sent,
) -> Option<CachedInstance> {
    let history = if result.execution_id > turn.instance.document.current_execution_id {
        let read_at = turn
            .history
            .as_ref()
            .ok()
            .and_then(|history| history.read_at);
        Ok(History {
            read_at,
            ..History::default()
        })
    } else {
        std::mem::replace(&mut turn.history, Ok(History::default()))
    };
    services
        .instances()
        .release_history(&turn.instance.document.instance_id);
    let history =
        history.map(|history| history.extended(&result.history_delta, cargo.history_bytes));
    let id = turn.instance.id.clone();
    let instance = sent.stored(id, sent.instance.clone(), sent.instance_operation)?;
    let before = std::mem::take(&mut turn.kv);
    let kv = match (cargo.kv, sent.kv.take()) {
        (Some((pack, contents)), _) => KvState::unpacked(pack, contents),
        (None, Some(written)) => written.applied(before, sent.outcome.as_ref()?),
        (None, None) => Some(before),
    };
    Some(CachedInstance {
        instance,
        history: history.ok()?,
        kv: kv?,
    })
}

/// Gives new activities to waiting workers: those that were created for them as theirs, the others as hints.
fn hand_on_activities(services: &Services, cargo: &mut Cargo, sent: &Sent) {
    let workers = std::mem::take(&mut cargo.outgoing.workers);
    for (document, &operation) in workers.into_iter().zip(&sent.placed.workers) {
        let locked = document.lock_token.is_some().then(|| document.clone());
        let id = document.key().to_id().ok();
        let stored = id.and_then(|id| sent.stored(id, document, operation));
        match (stored, locked) {
            (Some(item), Some(_)) => services.activities().hand_over(item),
            (Some(item), None) => services.activities().free(item, Duration::ZERO),
            (None, Some(item)) => activities::outcome_unknown(services, item),
            (None, None) => services.activities().poll_soon(),
        }
    }
}

/// Notes the turn's messages to its own instance. Returns those that are due.
fn hand_on_messages(services: &Services, cargo: &mut Cargo, sent: &Sent) -> Vec<Message> {
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
            Some(message) => services.instances().expect(message),
            None => services
                .instances()
                .suspect(&instance_id, execution_id, after),
        }
    }
    if sent.next.is_none() {
        for message in std::mem::take(&mut due) {
            services.instances().expect(message);
        }
    }
    due
}
