//! Pauses and resumes instances.
//!
//! The document of a paused instance says so, and every turn depends on that document: one that had
//! begun before the pause finds another version and is not committed. What is due during the pause is
//! held back: activities by the pause, messages by the runtime that finds them. An activity that runs
//! goes on, and is held back when it would have to run again.
//!
//! A pause stores itself first, and a resumption removes it last, both under the lock of the
//! instance. So an interrupted change leaves a paused instance, and can be repeated.

use cdb_client::ContainerClient;
use cdb_model::{BulkBatch, Patch, Query, Timestamp};

use crate::error::{Error, Result};
use crate::operate::admin::instances;
use crate::operate::rewind::open_children;
use crate::queue::Services;
use crate::queue::activities::lock::held_back;
use crate::stored::documents::{
    Durable, IntentItem, IntentQueue, NEVER, OperatorAction, OrchestratorItem, OutboxIntent,
    PAUSED, WorkerItem,
};
use crate::stored::{history, schema};
use crate::timing::{OPERATOR_ATTEMPTS, RETRY_PAUSE};
use crate::turn::{ExclusiveTurn, exclusively};

/// The instances that a pause or a resumption concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The instance alone. Its sub-orchestrations go on, and their ends wait for it.
    Alone,
    /// The instance, the sub-orchestrations that it waits for, and theirs.
    Tree,
}

/// Pauses instances. Returns those that were not paused before.
pub(crate) async fn pause(
    services: &Services,
    root: &str,
    extent: Extent,
    by: &str,
) -> Result<Vec<String>> {
    let instance = instances::existing(services.container(), root).await?;
    if !instance.has_more() {
        let status = instance.status;
        return Err(Error::Refused(format!(
            "instance `{root}` has ended: {status}"
        )));
    }
    // Versions that do not know pauses are those that do not know limits.
    schema::note_limits(services.container()).await?;
    let mut paused = Vec::new();
    // A paused instance schedules no more children, so they are known once it is paused.
    let mut open = vec![root.to_owned()];
    while let Some(id) = open.pop() {
        if Box::pin(pause_one(services, &id, by)).await? {
            paused.push(id.clone());
        }
        if extent == Extent::Tree {
            open.extend(children(services, &id).await?);
        }
    }
    Ok(paused)
}

/// Resumes instances. Returns those that were paused.
pub(crate) async fn resume(services: &Services, root: &str, extent: Extent) -> Result<Vec<String>> {
    instances::existing(services.container(), root).await?;
    let mut found = vec![root.to_owned()];
    let mut next = 0;
    while extent == Extent::Tree && next < found.len() {
        let children = children(services, &found[next]).await?;
        found.extend(children);
        next += 1;
    }
    let mut resumed = Vec::new();
    // Children first: as long as the root is paused, an interrupted resumption finds them again.
    for id in found.into_iter().rev() {
        if Box::pin(resume_one(services, &id)).await? {
            resumed.push(id);
        }
    }
    Ok(resumed)
}

/// Returns the sub-orchestrations that an instance waits for and that have not ended, whether they
/// have started or not.
async fn children(services: &Services, parent: &str) -> Result<Vec<String>> {
    let latest = services.container().latest_committed();
    let Some(found) = history::read_instance(&latest, parent).await? else {
        return Ok(Vec::new());
    };
    let execution = found.document.current_execution_id;
    let events = history::read_execution(&latest, parent, execution).await?;
    let mut children = Vec::new();
    for child in open_children(&events, parent) {
        if has_not_ended(&latest, parent, &child).await? {
            children.push(child);
        }
    }
    Ok(children)
}

/// Returns whether a scheduled child is running or still to start.
async fn has_not_ended(
    latest: &ContainerClient<Durable>,
    parent: &str,
    child: &str,
) -> Result<bool> {
    if let Some(found) = history::read_instance(latest, child).await? {
        return Ok(found.document.has_more());
    }
    // In the order of a start: an intent, a message, an instance. One without any was deleted.
    let starts = is_start_sent(latest, parent, child).await? || has_messages(latest, child).await?;
    let found = history::read_instance(latest, child).await?;
    Ok(found.map_or(starts, |found| found.document.has_more()))
}

async fn is_start_sent(
    latest: &ContainerClient<Durable>,
    parent: &str,
    child: &str,
) -> Result<bool> {
    let intents = Query::<OutboxIntent>::in_partition(parent);
    let intents = latest.query(intents).row_by_row().all().await?;
    let mut intents = intents.into_iter().flatten();
    // An intent with many messages does not name all its targets.
    Ok(intents.any(|intent| {
        let intent = &intent.document;
        intent.more.is_some() || intent.target_instance_id == child
    }))
}

async fn has_messages(latest: &ContainerClient<Durable>, instance: &str) -> Result<bool> {
    let messages = Query::<OrchestratorItem>::in_partition(instance)
        .filter(OrchestratorItem::VISIBLE_AT.lt(NEVER))
        .count();
    let counts = latest.query(messages).all().await?;
    Ok(counts.iter().sum::<u64>() > 0)
}

/// Pauses an instance, unless it has ended. Returns whether it was not paused before.
async fn pause_one(services: &Services, id: &str, by: &str) -> Result<bool> {
    let execution = services.instances().newest_execution(id);
    let mut turn = exclusively(services, id, execution).await?;
    let paused = store_pause(services, &mut turn, by).await;
    turn.release(services).await;
    paused
}

async fn store_pause(services: &Services, turn: &mut ExclusiveTurn, by: &str) -> Result<bool> {
    let instance = &turn.0.instance.document;
    if !instance.has_more() {
        return Ok(false);
    }
    let id = instance.instance_id.clone();
    let is_new = instance.paused.is_none();
    if is_new {
        let (at, by) = (services.store.now(), by.to_owned());
        let what = "paused".to_owned();
        let paused = OperatorAction { at, by, what };
        turn.set_paused(services, Some(paused)).await?;
    }
    // Again for one that is paused: an earlier pause may have been interrupted.
    turn.while_doing(services, Change::Hold.apply(services, &id))
        .await?;
    Ok(is_new)
}

/// Resumes an instance. Returns whether it was paused.
async fn resume_one(services: &Services, id: &str) -> Result<bool> {
    let latest = services.container().latest_committed();
    let found = history::read_instance(&latest, id).await?;
    let Some(found) = found.filter(|found| found.document.paused.is_some()) else {
        return Ok(false);
    };
    let execution = found.document.current_execution_id;
    let mut turn = exclusively(services, id, execution).await?;
    let released = Change::Release.apply(services, id);
    let resumed = match turn.while_doing(services, released).await {
        Ok(()) => turn.set_paused(services, None).await,
        failed => failed,
    };
    turn.release(services).await;
    resumed.map(|()| true)
}

/// What becomes of the documents of an instance.
#[derive(Clone, Copy)]
enum Change {
    /// All activities are held back.
    Hold,
    /// What was held back is released. The lock of the instance keeps runtimes from holding back
    /// more.
    Release,
}

impl Change {
    /// Reads and writes until a read finds nothing more to write. A document that changes between
    /// the two is read again.
    async fn apply(self, services: &Services, id: &str) -> Result<()> {
        let latest = services.container().latest_committed();
        for _ in 0..OPERATOR_ATTEMPTS {
            let patches = self.patches(services, &latest, id).await?;
            if patches.is_empty() && !self.is_awaited(services, &latest, id).await? {
                return Ok(());
            }
            for written in latest.execute_bulk(&patches).await {
                match written {
                    Err(error) if error.is_precondition_failed() || error.is_not_found() => {}
                    Err(error) if error.is_ambiguous() => {}
                    written => drop(written?),
                }
            }
            if patches.is_empty() {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
        Err(Error::Retryable(
            "activities of the instance are still being delivered or released; try again"
                .to_owned(),
        ))
    }

    async fn patches(
        self,
        services: &Services,
        latest: &ContainerClient<Durable>,
        id: &str,
    ) -> Result<BulkBatch<Durable>> {
        let corrupt = &services.store.corrupt_documents;
        let mut patches = BulkBatch::new();
        let activities = Query::<WorkerItem>::in_partition(id);
        let activities = latest.query(activities).row_by_row().all().await?;
        for item in corrupt.readable(activities) {
            let patch = match self {
                Self::Hold => hold(&item.document, services.store.now()),
                Self::Release => release(&item.document),
            };
            if let Some(patch) = patch {
                patches.add(patch.at(&item))?;
            }
        }
        if matches!(self, Self::Hold) {
            return Ok(patches);
        }
        let messages = Query::<OrchestratorItem>::in_partition(id)
            .filter(OrchestratorItem::VISIBLE_AT.eq(PAUSED));
        let messages = latest.query(messages).row_by_row().all().await?;
        for message in corrupt.readable(messages) {
            let patch = Patch::<OrchestratorItem>::new()
                .set(OrchestratorItem::PAUSED, None)
                .set(OrchestratorItem::VISIBLE_AT, message.document.due_at());
            patches.add(patch.at(&message))?;
        }
        Ok(patches)
    }

    /// Returns whether an intent is still to deliver activities that are to be held back. Dead
    /// letters deliver nothing.
    async fn is_awaited(
        self,
        services: &Services,
        latest: &ContainerClient<Durable>,
        id: &str,
    ) -> Result<bool> {
        if matches!(self, Self::Release) {
            return Ok(false);
        }
        let waiting = Query::<OutboxIntent>::in_partition(id);
        let waiting = waiting.filter(OutboxIntent::CREATED_AT.lt(NEVER));
        let waiting = latest.query(waiting).row_by_row().all().await?;
        let waiting = services.store.corrupt_documents.readable(waiting);
        Ok(waiting.iter().any(|intent| {
            let intent = &intent.document;
            let mut items = intent.items.iter();
            let is_activity = |item: &IntentItem| item.queue == IntentQueue::Worker;
            intent.more.is_some() || intent.payload.is_some() || items.any(is_activity)
        }))
    }
}

/// Returns the patch that holds back an activity, or marks a running one, which is held back when it
/// would have to run again; `None` for one that has it.
fn hold(item: &WorkerItem, now: Timestamp) -> Option<Patch<WorkerItem>> {
    if item.paused.is_some() {
        return None;
    }
    let is_locked = item.locked_until.is_some_and(|until| until > now);
    Some(if is_locked {
        Patch::<WorkerItem>::new().set(WorkerItem::PAUSED, Some(item.visible_at))
    } else {
        held_back(item)
    })
}

/// Returns the patch that releases an activity; `None` for one that is not held back.
fn release(item: &WorkerItem) -> Option<Patch<WorkerItem>> {
    let due_at = item.paused?;
    let patch = Patch::<WorkerItem>::new().set(WorkerItem::PAUSED, None);
    Some(if item.visible_at == PAUSED {
        patch.set(WorkerItem::VISIBLE_AT, due_at)
    } else {
        patch
    })
}
