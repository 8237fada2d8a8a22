//! Deletes instances by force, with all their descendants, whether they run or not.
//!
//! An instance is [fenced](super::fence) before its children are read, and so are they. So a tree that
//! grows stops to grow where the deletion has come. Starts of children that are on their way are
//! delivered or withdrawn first: one that is delivered afterwards would start a child without a parent.
//!
//! Work that was handed out before may begin a moment later. The deletion waits for that.

use std::collections::HashSet;

use cdb_model::Query;
use duroxide::providers::DeleteInstanceResult;

use super::fence::{fence, find};
use super::removal::{Condition, Removal, add};
use super::{instances, withdraw};
use crate::error::{Error, Result};
use crate::queue::Services;
use crate::stored::documents::{Instance, NEVER, OutboxIntent};
use crate::stored::history;
use crate::timing::{HAND_OUTS_END, RETRY_PAUSE};

/// How often each instance of a tree may lose its fence, on average, because the deletion takes long.
const LOST_FENCES: usize = 10;

/// The waits for starts of children that a runtime delivers just now, [`RETRY_PAUSE`] apart.
const DELIVERIES: u32 = 5;

/// Deletes instances with all their descendants.
///
/// # Errors
/// Fails when the service does not answer, when a message to another instance is not delivered, or
/// when an instance keeps changing. A repeated call finishes the deletion.
pub(super) async fn delete_trees(
    services: &Services,
    roots: &[String],
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
                member.id
            )));
        }
        left -= 1;
        // It may have new children.
        open.extend(deletion.fence_trees(&[member.id]).await?);
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
    async fn fence_trees(&mut self, roots: &[String]) -> Result<Vec<Member>> {
        let mut seen: HashSet<String> = roots.iter().cloned().collect();
        let mut open = roots.to_vec();
        let mut tree = Vec::<Member>::new();
        let mut next = 0;
        while next < open.len() {
            let id = open[next].clone();
            next += 1;
            let fenced = fence(self.services, &id).await?;
            let latest = self.services.container().latest_committed();
            let mut children = instances::all_children(&latest, &id).await?;
            if let Some(instance) = &fenced {
                let begun = self.scheduled(&id, instance, &children).await?;
                children.extend(begun);
            }
            open.extend(children.into_iter().filter(|id| seen.insert(id.clone())));
            self.known.push(id.clone());
            let is_running = fenced.is_some();
            tree.push(Member { id, is_running });
        }
        Ok(tree)
    }

    /// Returns the children of a fenced instance that begin just now, besides those that are found.
    /// Deletes those that have not begun: no query finds them.
    async fn scheduled(
        &mut self,
        parent: &str,
        instance: &Instance,
        found: &[String],
    ) -> Result<Vec<String>> {
        let mut scheduled = self.withdraw_starts(parent).await?;
        let latest = self.services.container().latest_committed();
        let newest = instance.current_execution_id;
        // A child that an execution has cancelled may begin during the next one.
        for execution in newest.saturating_sub(1).max(1)..=newest {
            match history::read_execution(&latest, parent, execution).await {
                Ok(events) => scheduled.extend(history::open_children(&events, parent)),
                Err(error) if error.is_retryable() => return Err(error),
                // A damaged history names no children. It must not keep its instance from being
                // deleted.
                Err(_) => {}
            }
        }
        let mut begun = Vec::new();
        scheduled.retain(|child| !found.contains(child));
        for child in scheduled {
            let is_child = |child: &Instance| child.parent_instance_id.as_deref() == Some(parent);
            if !self.remove_unbegun(&child, Some(parent)).await?
                && let Some(found) = find(self.services, &child).await?
                && is_child(&found.document)
            {
                begun.push(child);
            }
        }
        Ok(begun)
    }

    /// Prevents the delivery of children's starts. Returns the children. Waits a moment for starts that
    /// are delivered just now, because a withdrawn one leaves a trace.
    async fn withdraw_starts(&mut self, parent: &str) -> Result<Vec<String>> {
        let latest = self.services.container().latest_committed();
        let mut children = Vec::new();
        loop {
            let intents = Query::<OutboxIntent>::in_partition(parent);
            let intents = latest.query(intents).row_by_row().all().await?;
            let intents = intents.into_iter().flatten().map(|found| found.document);
            let intents: Vec<_> = intents.filter(starts_others).collect();
            if self.waits == 0 || intents.iter().all(|intent| intent.created_at == NEVER) {
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
    async fn remove_unbegun(&mut self, id: &str, parent: Option<&str>) -> Result<bool> {
        let condition = Condition::NotBegun { parent };
        let removal = Removal::of_instance(self.services, id).only_if(Some(condition));
        let is_removed = self.run(removal, true).await?;
        if is_removed {
            self.known.push(id.to_owned());
        }
        Ok(is_removed)
    }

    /// Deletes a fenced instance. Returns `false` if its fence has ended.
    async fn remove(&mut self, member: &Member) -> Result<bool> {
        if self.known.len() > 1 {
            // A message that is delivered after the deletion of its target would wait for it.
            withdraw::drop_intents(self.services.container(), &member.id, &self.known).await?;
        }
        let now = self.services.store.now();
        let removal = Removal::of_instance(self.services, &member.id);
        let removal = removal.only_if(Some(Condition::Fenced { now }));
        self.run(removal, member.is_running).await
    }

    /// Runs a removal. Returns whether its condition held.
    async fn run(&mut self, mut removal: Removal<'_>, is_running: bool) -> Result<bool> {
        let now = self.services.store.now();
        let removed = removal.remove().await?;
        add(&mut self.deleted, &removed);
        self.may_begin |= is_running && removal.may_begin(now);
        Ok(removed.instances_deleted > 0)
    }
}

/// An instance of a tree that is being deleted.
struct Member {
    id: String,
    is_running: bool,
}

/// Returns whether an undelivered intent may start other instances.
fn starts_others(intent: &OutboxIntent) -> bool {
    let has_messages =
        intent.more.is_some() || intent.payload.is_some() || !intent.items.is_empty();
    has_messages && (intent.more.is_some() || intent.target_instance_id != intent.instance_id)
}
