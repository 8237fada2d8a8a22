//! Pauses and resumes instances.
//!
//! The document of a paused instance says so, and every turn depends on that document: one that had
//! begun before the pause finds another version and is not committed. What is due during the pause is
//! withheld: activities by the pause, messages by the runtime that finds them. An activity that runs
//! goes on, and is withheld when it would have to run again.
//!
//! A pause stores itself first, and a resumption removes it last, both under the lock of the
//! instance. So an interrupted change leaves a paused instance, and can be repeated. Every batch is
//! conditional on the instance, so an operator who stood still changes nothing after another one, and
//! nothing of a later instance with the same id.

mod withheld;

use std::collections::HashSet;

use cdb_client::ContainerClient;
use cdb_model::{Patch, Query, Stored, Timestamp};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use withheld::{
    DueAgain, DueChange, activities, has_reserved, has_undelivered_activities, has_withheld,
    messages, pause_patch, write_all,
};

use crate::delivery;
use crate::error::{Error, Result};
use crate::operate::admin::instances;
use crate::queue::Services;
use crate::stored::documents::{
    Durable, Incarnation, Instance, NEVER, OperatorAction, OrchestratorItem, PAUSED, WorkerItem,
};
use crate::stored::found::{self, Found};
use crate::stored::history;
use crate::stored::schema::{self, Uses};
use crate::timing::{HAND_OUTS_END, MOMENT, OPERATOR_ATTEMPTS, RETRY_PAUSE};
use crate::turn::{ExclusiveTurn, Written, exclusively};

/// The attempts of a change whose lock another process takes meanwhile.
const LOCKS: u32 = 3;

/// The instances that a pause or a resumption concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeScope {
    /// The instance alone. Its sub-orchestrations go on, and their ends wait for it.
    Alone,
    /// The instance, the sub-orchestrations that it waits for, and theirs.
    Tree,
}

/// Pauses instances. Returns those that were not paused before. No activity begins afterwards.
pub(crate) async fn pause(
    services: &Services,
    root: &str,
    scope: TreeScope,
    by: &str,
) -> Result<Vec<String>> {
    let top = running(services, root).await?;
    // Versions that do not know pauses are those that do not know limits.
    schema::note(services.container(), Uses::Limits).await?;
    let (mut paused, mut may_begin) = (Vec::new(), false);
    let mut seen = HashSet::from([root.to_owned()]);
    // A paused instance schedules no more children, so they are known once it is paused.
    let mut open = vec![(top, None)];
    while let Some((instance, parent)) = open.pop() {
        let id = &instance.instance_id;
        let change = || pause_one(services, &instance, parent.as_ref(), by).boxed();
        let one = Box::pin(again_if_lost(id, change)).await?;
        let Some(one) = one else {
            // Another operator has deleted it.
            if id == root {
                return Err(instances::not_found(root));
            }
            continue;
        };
        may_begin |= one.may_begin;
        if one.is_new {
            paused.push(id.clone());
        }
        if scope == TreeScope::Tree {
            let children = children(services, &instance).await?.into_iter();
            // Children may wait for each other.
            let new = children.filter(|child| seen.insert(child.instance_id.clone()));
            open.extend(new.map(|child| (child, Some(instance.clone()))));
        }
    }
    if may_begin {
        tokio::time::sleep(HAND_OUTS_END).await;
    }
    Ok(paused)
}

/// Resumes instances. Returns those that were paused, or had something withheld.
pub(crate) async fn resume(
    services: &Services,
    root: &str,
    scope: TreeScope,
) -> Result<Vec<String>> {
    let Some(top) = read(services, root).await? else {
        // One that is started and not paused has nothing to resume.
        return running(services, root).await.map(|_| Vec::new());
    };
    let mut found = vec![top.incarnation];
    let mut seen = HashSet::from([root.to_owned()]);
    let mut next = 0;
    while scope == TreeScope::Tree && next < found.len() {
        let children = children(services, &found[next]).await?.into_iter();
        found.extend(children.filter(|child| seen.insert(child.instance_id.clone())));
        next += 1;
    }
    let mut resumed = Vec::new();
    // Children first: as long as the root is paused, an interrupted resumption finds them again.
    for instance in found.into_iter().rev() {
        let id = &instance.instance_id;
        let one = again_if_lost(id, || resume_one(services, &instance).boxed());
        if Box::pin(one).await? {
            resumed.push(instance.instance_id);
        }
    }
    Ok(resumed)
}

/// Returns an instance that has not ended. It need not have begun, if its start has arrived.
///
/// # Errors
/// Fails when the instance does not exist or has ended.
async fn running(services: &Services, id: &str) -> Result<Incarnation> {
    let latest = services.container().latest_committed();
    let find = || history::read_instance(&latest, id);
    let is_there = |found: &Stored<Instance>| found.document.is_begun_or_paused();
    let mut found = find().await?.filter(is_there);
    if found.is_none() {
        // The first turn consumes the start, and creates the instance.
        let starts = delivery::queued_starts(&latest, id).await?;
        found = find().await?.filter(is_there);
        if found.is_none() {
            let start = starts.into_iter().next();
            let start = start.ok_or_else(|| instances::not_found(id))?;
            return Ok(Incarnation::started_by(start.parent, id));
        }
    }
    match found.map(|found| found.document) {
        Some(instance) if instance.has_more() => Ok(Incarnation::of(&instance)),
        Some(instance) => Err(Error::Refused(format!(
            "instance `{id}` has ended: {}",
            instance.status
        ))),
        None => Err(instances::not_found(id)),
    }
}

/// Repeats a change whose lock another process has taken. The futures are boxed, because those of a
/// borrowing closure are not `Send` for every lifetime.
async fn again_if_lost<'a, T>(
    id: &str,
    change: impl Fn() -> BoxFuture<'a, Result<T>>,
) -> Result<T> {
    for _ in 0..LOCKS {
        match change().await {
            Err(Error::LockLost(_)) => {}
            changed => return changed,
        }
    }
    Err(Error::Retryable(format!(
        "other processes change instance `{id}` at the same time; try again"
    )))
}

/// Reads an instance that exists or is paused, whether it can be decoded or not.
async fn read(services: &Services, id: &str) -> Result<Option<Found>> {
    let found = found::find(services.container(), id).await?;
    Ok(found.filter(|found| found.stored.document.is_begun_or_paused()))
}

/// Returns the sub-orchestrations that an instance waits for and that have not ended, whether they
/// have started or not.
async fn children(services: &Services, parent: &Incarnation) -> Result<Vec<Incarnation>> {
    let latest = services.container().latest_committed();
    let id = &*parent.instance_id;
    let Some(found) = history::read_instance(&latest, id).await? else {
        return Ok(Vec::new());
    };
    let execution = found.document.current_execution_id;
    let events = history::read_execution(&latest, id, execution).await?;
    let mut children = Vec::new();
    for child in history::open_children(&events, id) {
        children.extend(not_ended(&latest, id, &child).await?);
    }
    // Otherwise they are the children of a later instance.
    if !children.is_empty() && !found::is_there(&latest, parent).await? {
        children.clear();
    }
    Ok(children)
}

/// Returns a scheduled child that is running or still to start.
async fn not_ended(
    latest: &ContainerClient<Durable>,
    parent: &str,
    child: &str,
) -> Result<Option<Incarnation>> {
    let find = || history::read_instance(latest, child);
    let is_there = |found: &Stored<Instance>| found.document.is_begun_or_paused();
    let mut found = find().await?.filter(is_there);
    if found.is_none() {
        // In the order of a start: an intent, a message, an instance. One without any was deleted.
        let starts = delivery::is_start_sent(latest, parent, child).await?
            || has_messages(latest, child).await?;
        found = find().await?.filter(is_there);
        if found.is_none() {
            let parent = Some(parent.to_owned());
            return Ok(starts.then(|| Incarnation::started_by(parent, child)));
        }
    }
    let found = found.map(|found| found.document);
    // The id may have an instance of its own.
    let is_child = |found: &Instance| found.parent_instance_id.as_deref() == Some(parent);
    let found = found.filter(|found| found.has_more() && is_child(found));
    Ok(found.as_ref().map(Incarnation::of))
}

async fn has_messages(latest: &ContainerClient<Durable>, instance: &str) -> Result<bool> {
    let messages = Query::<OrchestratorItem>::in_partition(instance)
        .filter(OrchestratorItem::VISIBLE_AT.lt(NEVER))
        .count();
    let counts = latest.query(messages).all().await?;
    Ok(counts.iter().sum::<u64>() > 0)
}

/// A pause of one instance.
struct Paused {
    /// Whether it was not paused before.
    is_new: bool,
    /// Whether processes have locked activities or reserved messages that they may be about to begin.
    may_begin: bool,
}

/// Pauses an instance, unless it has ended. Returns `None` if it is not there any more, or was to be
/// started by a parent that is not.
async fn pause_one(
    services: &Services,
    instance: &Incarnation,
    parent: Option<&Incarnation>,
    by: &str,
) -> Result<Option<Paused>> {
    let execution = services.instances().newest_execution(&instance.instance_id);
    let Some(mut turn) = exclusively(services, instance, execution).await? else {
        return Ok(None);
    };
    // A pause that stands still after this check stores nothing once the instance is deleted.
    let is_expected = if instance.has_begun() {
        Ok(true)
    } else {
        is_expected_by(services, &turn, instance, parent).await
    };
    if !matches!(is_expected, Ok(true)) {
        turn.discard(services).await;
        return is_expected.map(|_| None);
    }
    let paused = store_pause(services, &mut turn, instance.parent.clone(), by).await;
    turn.release(services).await;
    paused.map(Some)
}

/// Returns whether a locked instance that had not begun has begun since, or is still to start, for this
/// parent.
async fn is_expected_by(
    services: &Services,
    turn: &ExclusiveTurn,
    instance: &Incarnation,
    parent: Option<&Incarnation>,
) -> Result<bool> {
    let latest = services.container().latest_committed();
    let id = &*instance.instance_id;
    if !turn.0.instance.document.is_begun_or_paused() {
        let is_sent = match &instance.parent {
            Some(parent) => delivery::is_start_sent(&latest, parent, id).await?,
            None => false,
        };
        let starts = delivery::queued_starts(&latest, id).await?;
        let is_queued = starts.iter().any(|start| start.parent == instance.parent);
        if !is_sent && !is_queued {
            return Ok(false);
        }
    }
    match parent {
        Some(parent) => found::is_there(&latest, parent).await,
        None => Ok(true),
    }
}

async fn store_pause(
    services: &Services,
    turn: &mut ExclusiveTurn,
    parent: Option<String>,
    by: &str,
) -> Result<Paused> {
    let mut instance = turn.0.instance.document.clone();
    let is_new = instance.paused.is_none() && instance.has_more();
    if is_new {
        let (at, by) = (services.store.now(), by.to_owned());
        let what = "paused".to_owned();
        instance.paused = Some(OperatorAction { at, by, what });
        // One that has not begun is deleted with its parent.
        instance.parent_instance_id = instance.parent_instance_id.or(parent);
        while turn.0.instance.document.paused.is_none() {
            turn.write(services, instance.clone(), |_| Ok(())).await?;
        }
    }
    if !instance.has_more() {
        let may_begin = false;
        return Ok(Paused { is_new, may_begin });
    }
    let id = &*instance.instance_id;
    services.instances().note_pause(id);
    // Again for one that is paused: an earlier pause may have been interrupted.
    let is_locked = withhold_all(services, turn).await?;
    let latest = services.container().latest_committed();
    let may_begin = is_locked || has_reserved(services, &latest, id).await?;
    Ok(Paused { is_new, may_begin })
}

/// Withholds the activities of an instance, until a read finds no more of them. Returns whether
/// workers have locked some, which are withheld when they would have to run again.
async fn withhold_all(services: &Services, turn: &mut ExclusiveTurn) -> Result<bool> {
    let id = turn.0.instance.document.instance_id.clone();
    let latest = services.container().latest_committed();
    for _ in 0..OPERATOR_ATTEMPTS {
        let found = turn.while_doing(services, async {
            let activities = activities(services, &latest, &id).await?;
            let comes_more = has_undelivered_activities(services, &latest, &id).await?;
            Ok((activities, comes_more))
        });
        let (activities, comes_more) = found.await?;
        let now = services.store.now();
        let is_locked = |item: &WorkerItem| item.locked_until.is_some_and(|until| until > now);
        let may_begin = activities.iter().any(|item| is_locked(&item.document));
        let mut changes = Vec::new();
        for item in activities {
            if let Some(patch) = pause_patch(&item.document, now) {
                changes.push(DueChange::Activity(item, patch));
            }
        }
        if changes.is_empty() && !comes_more {
            return Ok(may_begin);
        }
        if changes.is_empty() {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        // The newest first: workers take the oldest.
        write_all(services, turn, changes, DueChange::enqueued_at).await?;
    }
    Err(keeps_changing(&id))
}

/// Resumes an instance. Returns whether it was paused, or something was withheld.
async fn resume_one(services: &Services, instance: &Incarnation) -> Result<bool> {
    let id = &*instance.instance_id;
    let found = read(services, id).await?;
    let Some(found) = found.filter(|found| found.incarnation.is(instance)) else {
        return Ok(false);
    };
    let current = &found.stored.document;
    // A runtime of a version without pauses may have replaced the instance without its pause.
    if current.paused.is_none() && !has_withheld(services, id).await? {
        return Ok(false);
    }
    let locked = exclusively(services, &found.incarnation, current.current_execution_id).await?;
    let Some(mut turn) = locked else {
        return Ok(false);
    };
    let resumed = release_all(services, &mut turn).await;
    services.instances().forget_pause(id);
    turn.release(services).await;
    resumed.map(|()| true)
}

/// Releases what is withheld, and then the instance on the version on which nothing was left.
async fn release_all(services: &Services, turn: &mut ExclusiveTurn) -> Result<()> {
    let id = turn.0.instance.document.instance_id.clone();
    let latest = services.container().latest_committed();
    let resumed_at = services.store.now();
    for _ in 0..OPERATOR_ATTEMPTS {
        let found = turn.while_doing(services, async {
            let activities = activities(services, &latest, &id).await?;
            Ok((activities, messages(services, &latest, &id).await?))
        });
        let (activities, messages) = found.await?;
        let (messages, due): (Vec<_>, Vec<_>) = messages
            .into_iter()
            .partition(|message| message.document.visible_at == PAUSED);
        let mut changes: Vec<DueChange> = activities
            .into_iter()
            .filter(|item| item.document.paused.is_some() || item.document.visible_at == PAUSED)
            .map(|item| DueChange::Activity(item, Patch::new().set(WorkerItem::PAUSED, None)))
            .collect();
        let message =
            |item| DueChange::Message(item, Patch::new().set(OrchestratorItem::PAUSED, None));
        changes.extend(messages.into_iter().map(message));
        if changes.is_empty() {
            let mut after = turn.0.instance.document.clone();
            after.paused = None;
            match turn.write(services, after, |_| Ok(())).await? {
                Written::Done => return Ok(()),
                Written::Refused(_) | Written::Unknown => continue,
            }
        }
        // An interrupted resumption has released the newest ones, which are due after the others.
        let due = due.iter().map(|message| message.document.due_at() - MOMENT);
        let before = due.fold(resumed_at, Timestamp::min);
        let again = DueAgain::new(before, changes.iter().map(DueChange::due_at));
        let changes = changes.into_iter().map(|change| change.released(&again));
        // The newest first: what is withheld again after an interruption keeps its order.
        write_all(services, turn, changes.collect(), DueChange::due_at).await?;
    }
    Err(keeps_changing(&id))
}

fn keeps_changing(id: &str) -> Error {
    Error::Retryable(format!(
        "activities of instance `{id}` are still being delivered or released; try again"
    ))
}
