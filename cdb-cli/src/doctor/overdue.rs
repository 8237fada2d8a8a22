//! Overdue messages that no runtime should take yet. They stay due, in any number, so more runtimes do
//! not help.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cdb_model::Query;
use cdb_provider::documents::{FIRST_DUE, Instance, InstanceKey, OrchestratorItem, Status};
use duroxide::providers::WorkItem;

use crate::container::{Orchestrations, begin_pauses};
use crate::exit::Failure;

/// The most messages that are read, oldest first.
const MESSAGES: u32 = 10_000;

/// Returns the number of instances with messages that have been due for longer than a time, if each of
/// these messages waits for its instance, or may wait for a limit that keeps new instances from beginning.
/// `None` if a runtime should take some.
pub(super) async fn at_instances(
    orchestrations: &Orchestrations,
    time: Duration,
) -> Result<Option<usize>, Failure> {
    let container = &orchestrations.container;
    let may_not_begin = !begin_pauses::read(&orchestrations.provider, &orchestrations.container)
        .await?
        .is_empty();
    let overdue = Query::<OrchestratorItem>::across_partitions()
        .filter(OrchestratorItem::VISIBLE_AT.between(FIRST_DUE, container.now() - time))
        .order_by(OrchestratorItem::BY_DUE)
        .limit(MESSAGES);
    let mut pages = container.query(overdue).pages();
    let mut known = BTreeMap::<String, Option<Instance>>::new();
    while let Some(page) = pages.next_page().await? {
        let messages: Vec<_> = page.into_iter().map(|stored| stored.document).collect();
        let ids = messages.iter().map(|message| &message.instance_id);
        let new: BTreeSet<_> = ids.filter(|id| !known.contains_key(*id)).cloned().collect();
        let keys: Vec<_> = new.iter().map(|id| InstanceKey::new(&**id)).collect();
        let found = container.read_many(&keys).await?;
        let found = found.into_iter().map(|found| Some(found?.document));
        known.extend(new.into_iter().zip(found));
        let waits = |message: &OrchestratorItem| {
            let instance = known.get(&message.instance_id).and_then(Option::as_ref);
            waits(message, instance, may_not_begin)
        };
        if !messages.iter().all(waits) {
            return Ok(None);
        }
    }
    Ok(Some(known.len()))
}

/// Returns whether a due message waits for its instance, and not for a runtime. `may_not_begin`: limits may keep
/// instances from beginning.
fn waits(message: &OrchestratorItem, instance: Option<&Instance>, may_not_begin: bool) -> bool {
    let Ok(item) = serde_json::from_str(message.work_item.header()) else {
        return false;
    };
    let is_queued = matches!(item, WorkItem::QueueMessage { .. });
    let may_come_early = is_queued
        || matches!(
            item,
            WorkItem::ExternalRaised { .. } | WorkItem::CancelInstance { .. }
        );
    let is_start = matches!(item, WorkItem::StartOrchestration { .. });
    match instance {
        None if is_start && may_not_begin => true,
        Some(instance) if is_start && !instance.is_created() && instance.attempts.is_empty() => {
            may_not_begin
        }
        Some(instance) if instance.has_more() && instance.held.is_some() => true,
        // Its start is a message, too. If that is overdue, a runtime should take it.
        Some(instance) if !instance.is_created() || instance.status == Status::ContinuedAsNew => {
            may_come_early
        }
        Some(instance) => is_queued && instance.untaken_events.is_some(),
        None => may_come_early,
    }
}
