//! Commits a turn: one atomic batch, conditional on the lock, and its effects.

mod advance;
mod apply;
mod attributes;
mod cancelled;
mod detached;
mod handed_over;
mod outgoing;
mod plan;
mod segments;
mod send;

use cdb_client::clock::machine_now;
use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};
use metrics::counter;
use tokio::sync::MutexGuard;
use tokio::time::Instant;

use super::exclusive::ExclusiveTurn;
use super::hold::{self, Ended};
use crate::delivery;
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::queue::activities::FreeWorkers;
use crate::queue::instances::{Instances, RejectedCommit, Turn, TurnResult};
use crate::queue::local_queue::{Caller, Shared};
use crate::stored::documents::{Labels, OperatorAction, OutboxIntent, dropped_events};
use crate::stored::payload::Payloads;
use crate::stored::{admission, custom_status};
use crate::timing::COMMIT_TIME;
use apply::apply_commit;
pub(crate) use detached::commit;
use handed_over::HandedOver;
use outgoing::Origin;
use plan::{PlanContext, plan};

/// Commits or holds a turn.
async fn end(
    services: &Services,
    running: &Shared<Instances>,
    mut result: TurnResult,
) -> Result<Ended> {
    let mut turn = running.lock().await;
    note_time(services, &turn, &result);
    if !turn.holds(services.store.now()) {
        services.instances().finish(&mut turn);
        return Err(Error::LockLost("it has expired"));
    }
    if let Some(rejected) = turn.rejected.take() {
        rejected.complete(&mut result);
    }
    if let Some(reason) = hold::nondeterminism(services, &result) {
        let Some(cancelled) = hold::cancelled(services, &turn)? else {
            hold::hold(services, &mut turn, reason).await;
            return Ok(Ended::Held);
        };
        result = cancelled;
    }
    commit_locked(services, turn, &mut result).await
}

/// Notes how long the code of a turn took.
fn note_time(services: &Services, turn: &Turn, result: &TurnResult) {
    if services.queues.hand_over.is_off() {
        return;
    }
    let instances = services.instances().local();
    let since = instances.with(|queue, now| queue.time_of(&turn.token, now));
    let orchestration = result.metadata.orchestration_name.as_ref();
    let orchestration = orchestration.unwrap_or(&turn.instance.document.orchestration_name);
    if let Some(time) = since {
        services.queues.hand_over.turn_took(orchestration, time);
    }
}

/// Commits a turn that this process holds, and delivers its messages.
pub(super) async fn commit_locked(
    services: &Services,
    mut turn: MutexGuard<'_, Turn>,
    result: &mut TurnResult,
) -> Result<Ended> {
    // The process is alive: its dispatchers must not take the turn over when a renewal is slow.
    let until = services.store.now() + COMMIT_TIME;
    let until = services.store.local_time(until);
    services.instances().local().extend(&turn.token, until);
    let instance_id = turn.instance.document.instance_id.clone();
    let charge = services.ledger.take(&instance_id);
    let send = plan_and_send(services, &mut turn, result, charge);
    let intents = match services.ledger.charge(&instance_id, send).await {
        Ok(intents) => intents,
        Err(error) => {
            services.ledger.note(&instance_id, charge);
            if !error.is_retryable() && !turn.ended {
                // The runtime fails the orchestration with this error, in a second commit.
                turn.rejected = Some(RejectedCommit::of(turn.history.as_ref().ok(), result));
            }
            return Err(error);
        }
    };
    let caller = turn.caller;
    drop(turn);
    delivery::deliver_all(services, intents, caller).await;
    Ok(Ended::Committed)
}

/// Commits the new course of a rewound or forked instance. Its payloads are encoded already.
pub(crate) async fn commit_course(
    services: &Services,
    ExclusiveTurn(turn, first_due): &mut ExclusiveTurn,
    course: &TurnResult,
    action: OperatorAction,
) -> Result<()> {
    let mut context = plan_context(services, turn, course, 0.0);
    context.origin.before = Some(*first_due);
    let mut plan = plan(turn, course, &context)?;
    plan.note(turn, action)?;
    let mut none = HandedOver::default();
    if let Err(error) = send::send(services, turn, &mut plan, &mut none).await {
        plan.spilling.release(&services.store);
        return Err(error);
    }
    delivery::deliver_all(services, plan.outgoing.intents, Caller::Single).await;
    Ok(())
}

/// Encodes the payloads of a turn.
fn encode(payloads: &Payloads, result: &mut TurnResult) -> Result<()> {
    payloads.encode_events(&mut result.history_delta)?;
    payloads.encode_messages(&mut result.worker_items)?;
    payloads.encode_messages(&mut result.orchestrator_items)?;
    payloads.encode_all(&mut result.metadata.output)
}

/// Rejects items that could be committed but neither delivered nor stored.
fn check_sent(result: &TurnResult) -> Result<()> {
    let items = result.orchestrator_items.iter().chain(&result.worker_items);
    for item in items {
        admission::check_item(item)?;
    }
    match custom_status::change_in(&result.history_delta) {
        Some(Some(status)) => admission::check_custom_status(&status),
        _ => Ok(()),
    }
}

/// Returns the inputs of a plan without prelocks.
fn plan_context<'a>(
    services: &Services,
    turn: &'a Turn,
    result: &TurnResult,
    charge: f64,
) -> PlanContext<'a> {
    let instance = &turn.instance.document;
    let attributes = attributes::at_commit(&services.store.payloads, turn, result);
    // The first turn names the orchestration.
    let orchestration = result.metadata.orchestration_name.as_ref();
    let orchestration = orchestration.unwrap_or(&instance.orchestration_name);
    let of_instance = services.store.labels.of(&instance.instance_id);
    PlanContext {
        origin: Origin {
            instance_id: &instance.instance_id,
            token: &turn.token,
            now: services.store.now(),
            before: None,
            created_at: instance.created_at,
            parent_created_at: turn.parent_created_at(),
            machine_now: machine_now(),
            charge,
            labels: Labels::of_turn(orchestration, of_instance),
        },
        limits: services.store.limits,
        workers: None,
        attributes,
    }
}

/// Returns the number of events of a turn that the orchestration drops, because it does not wait for
/// them yet.
fn dropped(turn: &Turn, result: &TurnResult) -> usize {
    let new = &result.history_delta;
    let raised = |event: &Event| matches!(event.kind, EventKind::ExternalEvent { .. });
    let (Some(first), Ok(history)) = (new.iter().find(|event| raised(event)), &turn.history) else {
        return 0;
    };
    let is_new_execution = result.execution_id > turn.instance.document.current_execution_id;
    let before = history.events.iter().filter(|_| !is_new_execution);
    let dropped = dropped_events(before.chain(new)).into_iter();
    dropped.filter(|id| *id >= first.event_id).count()
}

fn report_dropped(instance: &str, dropped: usize) {
    if dropped > 0 {
        tracing::warn!(
            instance,
            dropped,
            "the orchestration has dropped events that were raised before it waited for them; \
             enqueue such events (`Client::enqueue_event`)"
        );
        counter!("cdb.provider.events.dropped").increment(dropped as u64);
    }
}

/// Returns the names of the events that came after the end of the instance.
fn events_after_end(turn: &Turn) -> Vec<&str> {
    if turn.instance.document.has_more() {
        return Vec::new();
    }
    let items = turn.messages.iter().filter_map(|m| m.content.item());
    let events = items.filter_map(|item| match item {
        WorkItem::QueueMessage { name, .. } | WorkItem::ExternalRaised { name, .. } => {
            Some(&**name)
        }
        _ => None,
    });
    events.collect()
}

fn report_events_after_end(turn: &Turn) {
    let events = events_after_end(turn);
    if !events.is_empty() {
        counter!("cdb.provider.events.dropped").increment(events.len() as u64);
        let instance = &turn.instance.document.instance_id;
        tracing::warn!(
            instance,
            ?events,
            "events came after the end of the orchestration, which does not receive them"
        );
    }
}

/// Commits the turn. Returns the intents to deliver.
async fn plan_and_send(
    services: &Services,
    turn: &mut Turn,
    result: &mut TurnResult,
    charge: f64,
) -> Result<Vec<OutboxIntent>> {
    cancelled::drop_never_started(turn, result);
    check_sent(result)?;
    encode(&services.store.payloads, result)?;
    let context = PlanContext {
        workers: FreeWorkers::of(services, handed_over::freed_workers(turn)),
        ..plan_context(services, turn, result, charge)
    };
    let mut plan = plan(turn, result, &context)?;
    let mut handed_over = HandedOver::default();
    let dropped = dropped(turn, result);
    let begun = Instant::now();
    match send::send(services, turn, &mut plan, &mut handed_over).await {
        Ok(outcome) => {
            services.queues.hand_over.commit_took(begun.elapsed());
            handed_over.committed(services, outcome.as_ref());
            report_dropped(&turn.instance.document.instance_id, dropped);
            report_events_after_end(turn);
            Ok(apply_commit(services, turn, result, plan, outcome.as_ref()))
        }
        Err(error) => {
            handed_over.release();
            plan.spilling.release(&services.store);
            Err(error)
        }
    }
}
