//! All that waits, for a health check.

use std::collections::BTreeSet;

use cdb_client::Result;
use cdb_model::Timestamp;

use super::limits;
use super::members::{self, Group};
use super::overdue::Overdue;
use super::queues::{self, Look, Queues, Width};
use super::running;
use super::sample::{self, Container};
use super::stuck::{self, StuckActivity, StuckInstance};
use super::unstarted::{self, Unstarted};
use crate::stored::Store;
use crate::stored::documents::{OrchestratorItem, Selector, WorkerItem};
use crate::timing::{HIDDEN_START, OVERDUE_WORK};

/// The number of activities, due first and due last, among which stuck ones are searched.
const ACTIVITIES: u32 = 200;

/// The number of oldest messages whose instances may be stuck. The messages of a held instance stay due, and there may
/// be many.
const MESSAGES: u32 = 2_000;

/// The most instances that are searched for stuck ones.
const INSTANCES: usize = 200;

/// What waits in a container, and what keeps it from going on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The queues.
    pub queues: Queues,
    /// The runtimes of the default membership group.
    pub members: Group,
    /// The instances whose start is queued, among those of the 200 oldest messages.
    pub unstarted: Vec<Unstarted>,
    /// The instances with overdue messages, if each of these messages waits for its instance and none for a runtime:
    /// the instance is held or takes its events later, or a limit may keep it from beginning. `None` if no message is
    /// overdue, or a runtime should take some.
    pub overdue_at_instances: Option<usize>,
    /// Instances that do not go on, among those of the 2,000 oldest messages, of at most 200 instances.
    pub stuck_instances: Vec<StuckInstance>,
    /// Activities that do not end, among the 200 that are due first and the 200 that are due last.
    pub stuck_activities: Vec<StuckActivity>,
    /// The selectors of limits that select no activity, see
    /// [`LimitsInUse::without_activities`](super::LimitsInUse::without_activities).
    pub idle_limits: Vec<Selector>,
}

/// Reads all that waits.
pub(super) async fn read(store: &Store) -> Result<Health> {
    let container = &store.container;
    let look = Look::at(container, Width::Stuck(ACTIVITIES)).await?;
    let (now, limits) = (look.now, look.limits.as_ref());
    let (members, pauses, candidates, latest) = futures::try_join!(
        Box::pin(members::read(container, None)),
        Box::pin(unstarted::pauses(container, limits)),
        Box::pin(candidates(container, &look)),
        Box::pin(latest(container, &look)),
    )?;
    let overdue = Overdue {
        sample: &look.messages,
        before: now - OVERDUE_WORK,
        may_not_begin: !pauses.is_empty(),
    };
    let mut ids = candidates.clone();
    ids.extend(overdue.instances());
    ids.extend(unstarted::ids(&look.messages.items));
    let instances = &sample::instances(container, ids).await?;
    let unstarted = unstarted::of(&look.messages.items, instances, &pauses, now);
    let mut queues = look.queues(&unstarted);
    if queues::has_waited(&queues) {
        queues.busy = busy(container, &look, &members, now).await?;
    }
    let idle_limits = limits
        .zip(look.permits.as_ref())
        .map(|(limits, permits)| {
            limits::without_activities(limits, permits, &look.activities.items, &unstarted)
        })
        .unwrap_or_default();
    let first = look.activities.items.iter().take(ACTIVITIES as usize);
    Ok(Health {
        overdue_at_instances: overdue.at_instances(container, instances).await?,
        stuck_instances: stuck::instances(candidates.iter(), instances, &store.payloads, now),
        stuck_activities: stuck::activities(first.chain(&latest), now),
        idle_limits,
        queues,
        members,
        unstarted,
    })
}

/// Returns the instances of the oldest messages, some of them.
async fn candidates(container: &Container, look: &Look) -> Result<BTreeSet<String>> {
    let ids: BTreeSet<String> = if look.messages.is_complete {
        let messages = look.messages.items.iter();
        messages
            .map(|message| message.instance_id.clone())
            .collect()
    } else {
        let messages = sample::due_messages(look.now + HIDDEN_START).limit(MESSAGES);
        let messages = messages.values(OrchestratorItem::INSTANCE_ID);
        container.query(messages).all().await?.into_iter().collect()
    };
    Ok(ids.into_iter().take(INSTANCES).collect())
}

/// Returns the activities that are due last.
async fn latest(container: &Container, look: &Look) -> Result<Vec<WorkerItem>> {
    if !look.activities.is_complete {
        return sample::latest_activities(container, ACTIVITIES).await;
    }
    let latest = look.activities.items.iter().rev().take(ACTIVITIES as usize);
    Ok(latest.cloned().collect())
}

async fn busy(
    container: &Container,
    look: &Look,
    members: &Group,
    now: Timestamp,
) -> Result<Vec<running::BusyRuntime>> {
    if look.activities.is_complete {
        return Ok(running::of(look.activities.items.iter(), members, now));
    }
    running::read(container, now).await
}
