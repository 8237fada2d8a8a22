//! The effect of a turn on its instance.

use cdb_model::Timestamp;
use duroxide::providers::ExecutionMetadata;

use super::outgoing::Origin;
use crate::queue::instances::lock::remove_attempts;
use crate::queue::instances::{Room, Turn, TurnResult, pack_version};
use crate::queue::ledger;
use crate::stored::custom_status;
use crate::stored::documents::{Execution, Instance, Status, Text};

/// Returns the instance after the turn, unlocked.
pub(super) fn advance(
    turn: &Turn,
    result: &TurnResult,
    output: Option<&Text>,
    new_documents: u64,
    origin: &Origin<'_>,
) -> Instance {
    let now = origin.now;
    let mut instance = turn.instance.document.clone();
    let messages = turn.messages.iter();
    let messages = messages.filter_map(|message| message.stored.document.request_units);
    let charge = messages.sum::<f64>() + origin.charge;
    instance.request_units = ledger::add(instance.request_units, charge);
    if !instance.is_created() {
        let messages = turn.messages.iter();
        let mut origins = messages.filter_map(|message| message.stored.document.origin.clone());
        instance.origin = origins.next();
        instance.parent_created_at = turn.parent_created_at();
    }
    instance.lock_token = None;
    instance.locked_until = None;
    instance.commit_token = Some(turn.token.clone());
    instance.updated_at = now;
    instance.held = None;
    remove_attempts(&mut instance.attempts, &turn.messages);
    let is_new_execution = result.execution_id > instance.current_execution_id;
    if is_new_execution {
        start_execution(&mut instance, result.execution_id, now);
    }
    if result.execution_id == instance.current_execution_id
        && let Some(count) = instance.history_documents.as_mut()
    {
        *count += new_documents;
    }
    apply_identity(&mut instance, &result.metadata);
    instance.started_at.get_or_insert(now);
    let is_outdated = matches!(instance.status, Status::Pending | Status::ContinuedAsNew);
    if is_outdated && instance.is_created() {
        instance.status = Status::Running;
    }
    if let Some(status) = &result.metadata.status {
        instance.status = Status::from(status.clone());
        instance.output = output.cloned();
        instance.completed_at = Some(now);
        if !instance.has_more() {
            // Clears counts that an expired lock left on deleted messages.
            instance.attempts.clear();
        }
    }
    if let Some(status) = custom_status::change_in(&result.history_delta) {
        instance.custom_status = status;
        instance.custom_status_version += 1;
    }
    let events = turn.events().filter(|_| !is_new_execution);
    let events = events.iter().flat_map(|events| events.iter());
    let room = Room::of(events.chain(&result.history_delta));
    instance.untaken_events = match instance.status {
        // What the execution has not received waits for a rewind.
        Status::Failed => Some(room.untaken()),
        Status::Running => room.full(),
        _ => None,
    };
    instance
}

fn start_execution(instance: &mut Instance, execution_id: u64, now: Timestamp) {
    instance.current_execution_id = execution_id;
    instance.status = Status::Running;
    instance.output = None;
    instance.pinned_duroxide_version_packed = None;
    instance.history_documents = Some(0);
    instance.started_at = Some(now);
    instance.completed_at = None;
}

/// Sets name, versions and parent if the turn provides them. The first parent stays for the life of
/// the instance.
fn apply_identity(instance: &mut Instance, metadata: &ExecutionMetadata) {
    if let Some(name) = &metadata.orchestration_name {
        instance.orchestration_name.clone_from(name);
    }
    if let Some(version) = &metadata.orchestration_version {
        instance.orchestration_version = Some(version.clone());
    }
    if instance.parent_instance_id.is_none() {
        instance
            .parent_instance_id
            .clone_from(&metadata.parent_instance_id);
    }
    if let Some(version) = &metadata.pinned_duroxide_version {
        instance.pinned_duroxide_version_packed = Some(pack_version(version));
    }
}

/// Returns the document of the execution that this turn replaces; `None` if there is none.
pub(super) fn ended_execution(
    before: &Instance,
    result: &TurnResult,
    now: Timestamp,
) -> Option<Execution> {
    if result.execution_id <= before.current_execution_id {
        return None;
    }
    before.started_at?;
    let ended = Execution::newest(before);
    let is_terminal = ended.status.is_terminal();
    Some(Execution {
        completed_at: ended.completed_at.or(is_terminal.then_some(now)),
        ..ended
    })
}
