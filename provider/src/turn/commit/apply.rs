//! The effects of a commit in this process. Nothing here sends a request.

use cdb_client::write::BatchOutcome;
use duroxide::providers::WorkItem;
use metrics::histogram;
use tracing::Span;

use super::plan::CommitPlan;
use crate::queue::Services;
use crate::queue::activities;
use crate::queue::instances::{CachedInstance, History, Message, Turn, TurnResult};
use crate::stored::documents::{Durable, Instance, OutboxIntent};

/// Caches the committed instance and puts its work into the local queues. Returns the intents to
/// deliver. `outcome` is `None` when the commit took place but its answer was lost.
pub(super) fn apply_commit(
    services: &Services,
    turn: &mut Turn,
    result: &TurnResult,
    mut plan: CommitPlan,
    outcome: Option<&BatchOutcome<Durable>>,
) -> Vec<OutboxIntent> {
    let instances = services.instances();
    instances.consumed(&turn.instance.document.instance_id, &turn.messages);
    give_up_cancelled(services, turn, result);
    queue_activities(services, &mut plan, outcome);
    note_own_messages(services, &mut plan, outcome);
    let intents = std::mem::take(&mut plan.outgoing.intents);
    std::mem::take(&mut plan.consumed_chunks).remove(&services.store);
    let execution = plan.instance.current_execution_id;
    record_charge(&plan.instance);
    let cached = cached(services, turn, result, plan, outcome);
    let cached = cached.filter(|cached| cached.instance.document.has_more());
    instances.finish_committed(turn, cached, execution);
    intents
}

/// Leaves the completions of cancelled activities to their acknowledgements, which find that they are lost.
fn give_up_cancelled(services: &Services, turn: &Turn, result: &TurnResult) {
    if result.cancelled.is_empty() {
        return;
    }
    let is_cancelled = |message: &Message| {
        let item = message.content.item();
        matches!(item, Some(
            WorkItem::ActivityCompleted { execution_id, id, .. }
            | WorkItem::ActivityFailed { execution_id, id, .. }
        ) if result.cancelled.iter().any(|of| (of.execution_id, of.activity_id) == (*execution_id, *id)))
    };
    let instances = services.instances();
    let instance_id = &turn.instance.document.instance_id;
    let cancelled = result.cancelled.iter();
    let cancelled = cancelled.map(|activity| (activity.execution_id, activity.activity_id));
    instances.correct(instance_id, |known| {
        known.give_up_unstored(is_cancelled);
        known.cancelled(cancelled);
    });
}

/// Records the request units of an instance that has ended.
fn record_charge(instance: &Instance) {
    if let Some(charge) = instance.request_units.filter(|_| !instance.has_more()) {
        Span::current().record("cdb.request_units", charge);
        histogram!("cdb.provider.instance.request_units").record(charge);
    }
}

/// Returns the committed instance; `None` when an ETag is unknown.
fn cached(
    services: &Services,
    turn: &mut Turn,
    result: &TurnResult,
    plan: CommitPlan,
    outcome: Option<&BatchOutcome<Durable>>,
) -> Option<CachedInstance> {
    let before = &turn.instance.document;
    // The commit extends the shared history, which would be copied.
    let instances = services.instances();
    instances.correct(&before.instance_id, |known| known.history = None);
    let is_new_execution = result.execution_id > before.current_execution_id;
    let history = std::mem::replace(&mut turn.history, Ok(History::default())).ok();
    let history = if is_new_execution {
        History {
            read_at: history.and_then(|history| history.read_at),
            ..History::default()
        }
    } else {
        history?
    };
    let history = history.extended(&result.history_delta, plan.history.bytes);
    let operation = plan.operations.instance?;
    let instance = plan.stored(outcome, plan.instance.clone(), operation)?;
    let kv = std::mem::take(&mut turn.kv);
    let kv = plan.kv.applied(kv, &plan.operations.kv, outcome)?;
    Some(CachedInstance {
        instance,
        history,
        kv,
    })
}

/// Puts new activities into the local queue: prelocked ones for the workers they were locked for,
/// the others as free.
fn queue_activities(
    services: &Services,
    plan: &mut CommitPlan,
    outcome: Option<&BatchOutcome<Durable>>,
) {
    let workers = std::mem::take(&mut plan.outgoing.workers);
    for (document, &operation) in workers.into_iter().zip(&plan.operations.sent.workers) {
        let locked = document.lock_token.is_some().then(|| document.clone());
        let stored = plan.stored(outcome, document, operation);
        match (stored, locked) {
            (Some(item), _) => activities::created(services, item),
            (None, Some(item)) => activities::outcome_unknown(services, item),
            (None, None) => services.activities().local().poll_soon(),
        }
    }
}

/// Notes the messages of the turn to its own instance.
fn note_own_messages(
    services: &Services,
    plan: &mut CommitPlan,
    outcome: Option<&BatchOutcome<Durable>>,
) {
    let own = std::mem::take(&mut plan.outgoing.own);
    for (document, &operation) in own.into_iter().zip(&plan.operations.sent.own) {
        let due_at = document.due_at();
        let (instance_id, execution_id) = (document.instance_id.clone(), document.execution_id);
        let stored = plan.stored(outcome, document, operation);
        match stored.map(|stored| Message::read(stored, plan.planned_at)) {
            Some(message) => services.instances().note_message(message),
            None => services
                .instances()
                .recheck(&instance_id, execution_id, due_at),
        }
    }
}
