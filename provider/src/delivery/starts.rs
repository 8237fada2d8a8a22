//! The way of a start: from an intent of the parent to a message of the instance, which its first turn
//! consumes. Who reads the three in this order misses no start.

use cdb_client::ContainerClient;
use cdb_model::Query;
use duroxide::providers::WorkItem;

use crate::error::Result;
use crate::stored::documents::{Durable, NEVER, OrchestratorItem, OutboxIntent};

/// Returns whether a message starts a child of this instance.
pub(crate) fn starts_child_of(parent: &str, item: &WorkItem) -> bool {
    matches!(item, WorkItem::StartOrchestration { parent_instance: Some(of), .. } if of == parent)
}

/// Returns whether an intent of the parent may hold the start of an instance, dead letters included.
pub(crate) async fn is_start_sent(
    latest: &ContainerClient<Durable>,
    parent: &str,
    child: &str,
) -> Result<bool> {
    let intents = Query::<OutboxIntent>::in_partition(parent);
    let intents = latest.query(intents).row_by_row().all().await?;
    let mut intents = intents.into_iter();
    // Chunks are not read, and an unreadable intent may hold anything.
    Ok(intents.any(|intent| match intent {
        Ok(intent) => {
            let intent = &intent.document;
            let mut items = intent.items.iter().map(|item| item.work_item.header());
            let is_unknown = intent.more.is_some() || intent.payload.is_some();
            is_unknown || items.any(|item| starts(child, item))
        }
        Err(_) => true,
    }))
}

fn starts(child: &str, item: &str) -> bool {
    let item = serde_json::from_str(item);
    item.is_ok_and(
        |item| matches!(item, WorkItem::StartOrchestration { instance, .. } if instance == child),
    )
}

/// A queued start of an instance.
#[derive(Debug)]
pub(crate) struct QueuedStart {
    pub(crate) parent: Option<String>,
}

/// Returns the starts that wait in the queue of an instance.
pub(crate) async fn queued_starts(
    latest: &ContainerClient<Durable>,
    instance: &str,
) -> Result<Vec<QueuedStart>> {
    let queued = OrchestratorItem::VISIBLE_AT.lt(NEVER);
    let queued = Query::<OrchestratorItem>::in_partition(instance).filter(queued);
    let rows = latest.query(queued).row_by_row().all().await?;
    let rows = rows.into_iter().flatten();
    let items =
        rows.filter_map(|found| serde_json::from_str(found.document.work_item.header()).ok());
    let starts = items.filter_map(|item| match item {
        WorkItem::StartOrchestration {
            parent_instance, ..
        } => Some(QueuedStart {
            parent: parent_instance,
        }),
        _ => None,
    });
    Ok(starts.collect())
}
