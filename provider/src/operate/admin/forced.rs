//! Deletes instances by force, with all their descendants, whether they run or not.
//!
//! An instance is [fenced](super::fence) before its children are read, and so are they. So a tree that
//! grows stops to grow where the deletion has come. Starts of children that are on their way are
//! delivered or withdrawn first: one that is delivered afterwards would start a child without a parent.
//!
//! The deletion may stand still until its fences end, and others may delete the tree meanwhile and start
//! instances with the same ids. So what was read of an instance counts only if it is the same one
//! afterwards.
//!
//! Work that was handed out before may begin a moment later. The deletion waits for that.

use std::collections::{HashSet, VecDeque};

use cdb_model::Query;
use duroxide::providers::DeleteInstanceResult;

use super::condition::State;
use super::fence::{Fenced, fence};
use super::removal::{Removal, Removed, add};
use super::{instances, withdraw};
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::documents::{Incarnation, Instance, NEVER, OutboxIntent};
use crate::stored::{found, history};
use crate::timing::{HAND_OUTS_END, RETRY_PAUSE};

/// How often each instance of a tree may lose its fence, on average, because the deletion takes long.
const LOST_FENCES: usize = 10;

/// The waits for starts of children that a runtime delivers just now, [`RETRY_PAUSE`] apart.
const DELIVERIES: u32 = 5;

/// Deletes instances of these ids with all their descendants: those that were found, and those that
/// have not begun.
///
/// # Errors
/// As [`delete_trees`].
pub(super) async fn delete(
    services: &Services,
    ids: &[String],
    found: &[Incarnation],
) -> Result<DeleteInstanceResult> {
    let mut deleted = delete_trees(services, found.to_vec()).await?;
    for id in ids {
        if found.iter().all(|found| found.instance_id != *id)
            && let Some(more) = delete_unbegun(services, id).await?
        {
            add(&mut deleted, &more);
        }
    }
    Ok(deleted)
}

/// Deletes instances with all their descendants.
///
/// # Errors
/// Fails when the service does not answer, when a message to another instance is not delivered, or
/// when an instance keeps changing. A repeated call finishes the deletion.
pub(super) async fn delete_trees(
    services: &Services,
    roots: Vec<Incarnation>,
) -> Result<DeleteInstanceResult> {
    let mut deletion = Deletion::new(services);
    let mut open = deletion.fence_trees(roots).await?;
    let mut left = LOST_FENCES * open.len();
    // Children first: while the parent exists, an interrupted deletion can be found and repeated.
    while let Some(member) = open.pop() {
        if deletion.remove(&member).await? {
            continue;
        }
        if left == 0 {
            return Err(Error::Retryable(format!(
                "instance {} continues while it is deleted; try again",
                member.instance.instance_id
            )));
        }
        left -= 1;
        // It may have new children.
        open.extend(deletion.fence_trees(vec![member.instance]).await?);
    }
    Ok(deletion.finish().await)
}

/// Deletes an instance without a parent that was started and has not begun. Returns `None` if there
/// is none.
pub(super) async fn delete_unbegun(
    services: &Services,
    id: &str,
) -> Result<Option<DeleteInstanceResult>> {
    let mut deletion = Deletion::new(services);
    let is_deleted = deletion.remove_unbegun(id, None).await?;
    Ok(if is_deleted {
        Some(deletion.finish().await)
    } else {
        None
    })
}

/// A deletion, with what it has deleted so far.
struct Deletion<'a> {
    services: &'a Services,
    deleted: DeleteInstanceResult,
    /// The instances that are deleted, or will be.
    known: Vec<String>,
    /// Whether work of running instances may have been handed out.
    may_begin: bool,
    /// The waits for deliveries that are left.
    waits: u32,
}

impl<'a> Deletion<'a> {
    fn new(services: &'a Services) -> Self {
        Self {
            services,
            deleted: DeleteInstanceResult::default(),
            known: Vec::new(),
            may_begin: false,
            waits: DELIVERIES,
        }
    }

    /// Waits for work that was handed out, and returns the counts.
    async fn finish(self) -> DeleteInstanceResult {
        if self.may_begin {
            tokio::time::sleep(HAND_OUTS_END).await;
        }
        self.deleted
    }

    /// Fences instances and all their descendants. Returns them, ancestors first. Deletes those that
    /// have not begun.
    async fn fence_trees(&mut self, roots: Vec<Incarnation>) -> Result<Vec<Member>> {
        let ids = roots.iter().map(|root| root.instance_id.clone());
        let mut seen: HashSet<String> = ids.collect();
        let mut open = VecDeque::from(roots);
        let mut tree = Vec::<Member>::new();
        while let Some(instance) = open.pop_front() {
            let running = match fence(self.services, &instance).await? {
                Fenced::Running(running) => Some(running),
                Fenced::Ended => None,
                Fenced::Gone => continue,
            };
            let latest = self.services.container().latest_committed();
            let mut children = instances::all_children(&latest, &instance.instance_id).await?;
            if let Some(running) = &running {
                let begun = self.scheduled(&instance, running, &children).await?;
                children.extend(begun);
            }
            // Otherwise they are the children of a later instance.
            if !children.is_empty() && found::is_there(&latest, &instance).await? {
                let new = |child: &Incarnation| seen.insert(child.instance_id.clone());
                open.extend(children.into_iter().filter(new));
            }
            self.known.push(instance.instance_id.clone());
            let is_running = running.is_some();
            tree.push(Member {
                instance,
                is_running,
            });
        }
        Ok(tree)
    }

    /// Returns the children of a fenced instance that begin just now, besides those that are found.
    /// Deletes those that have not begun: no query finds them.
    async fn scheduled(
        &mut self,
        parent: &Incarnation,
        instance: &Instance,
        found: &[Incarnation],
    ) -> Result<Vec<Incarnation>> {
        let id = &*parent.instance_id;
        let mut scheduled = self.withdraw_starts(parent).await?;
        let latest = self.services.container().latest_committed();
        let newest = instance.current_execution_id;
        // A child that an execution has cancelled may begin during the next one.
        for execution in newest.saturating_sub(1).max(1)..=newest {
            match history::read_execution(&latest, id, execution).await {
                Ok(events) => scheduled.extend(history::open_children(&events, id)),
                Err(error) if error.is_retryable() => return Err(error),
                // A damaged history names no children. It must not keep its instance from being
                // deleted.
                Err(_) => {}
            }
        }
        let mut begun = Vec::new();
        scheduled.retain(|child| found.iter().all(|found| found.instance_id != *child));
        for child in scheduled {
            if !self.remove_unbegun(&child, Some(parent)).await?
                && let Some(found) = found::find(&latest, &child).await?
                && found.incarnation.parent.as_deref() == Some(id)
            {
                begun.push(found.incarnation);
            }
        }
        Ok(begun)
    }

    /// Prevents the delivery of children's starts. Returns the children. Waits a moment for starts that
    /// are delivered just now, because a withdrawn one leaves a trace.
    async fn withdraw_starts(&mut self, parent: &Incarnation) -> Result<Vec<String>> {
        let latest = self.services.container().latest_committed();
        let mut children = Vec::new();
        loop {
            let intents = Query::<OutboxIntent>::in_partition(&*parent.instance_id);
            let intents = latest.query(intents).row_by_row().all().await?;
            let intents = intents.into_iter().flatten().map(|found| found.document);
            let intents: Vec<_> = intents.filter(starts_others).collect();
            if self.waits == 0 || intents.iter().all(|intent| intent.created_at == NEVER) {
                if !intents.is_empty() && !found::is_there(&latest, parent).await? {
                    return Ok(Vec::new());
                }
                for intent in &intents {
                    children.extend(withdraw::starts(&latest, intent).await?);
                }
                return Ok(children);
            }
            self.waits -= 1;
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Deletes an instance that has not begun, if this parent or none starts it. Returns whether it
    /// did.
    async fn remove_unbegun(&mut self, id: &str, parent: Option<&Incarnation>) -> Result<bool> {
        let removal = Removal::of_unbegun(self.services, id, parent);
        let removed = self.run(removal, true).await?;
        let is_removed = removed.counts.instances_deleted > 0;
        if is_removed {
            self.known.push(id.to_owned());
        }
        Ok(is_removed)
    }

    /// Deletes a fenced instance. Returns `false` if its fence has ended.
    async fn remove(&mut self, member: &Member) -> Result<bool> {
        let instance = &member.instance;
        if self.known.len() > 1 {
            // A message that is delivered after the deletion of its target would wait for it.
            withdraw::drop_intents(self.services.container(), instance, &self.known).await?;
        }
        let now = self.services.store.now();
        let removal = Removal::of_instance(self.services, instance, State::Fenced { now });
        let removed = self.run(removal, member.is_running).await?;
        Ok(!removed.is_kept)
    }

    /// Runs a removal, and counts what it has removed.
    async fn run(&mut self, mut removal: Removal<'_>, is_running: bool) -> Result<Removed> {
        let now = self.services.store.now();
        let removed = removal.run().await?;
        add(&mut self.deleted, &removed.counts);
        self.may_begin |= is_running && removal.may_begin(now);
        Ok(removed)
    }
}

/// An instance of a tree that is being deleted.
struct Member {
    instance: Incarnation,
    is_running: bool,
}

/// Returns whether an undelivered intent may start other instances.
fn starts_others(intent: &OutboxIntent) -> bool {
    let has_messages =
        intent.more.is_some() || intent.payload.is_some() || !intent.items.is_empty();
    has_messages && (intent.more.is_some() || intent.target_instance_id != intent.instance_id)
}
