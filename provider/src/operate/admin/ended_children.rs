//! Decides which ended children may be deleted while their parents run.
//!
//! A parent needs the completion of its child, not the child: the message holds the result, and
//! [`State::Ended`](super::condition::State) checks that the child has delivered it. But an intent of
//! the parent may still start the child. Delivered after the deletion, it would start the child a
//! second time.
//!
//! A child whose parent has ended is deleted with its parent.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use cdb_client::ContainerClient;
use cdb_model::Query;
use cdb_model::query::Filter;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::error::Result;
use crate::stored::documents::{Durable, Incarnation, Instance, OutboxIntent};

/// The number of parents that are read concurrently.
const CONCURRENCY: usize = 8;

/// The children of one parent that must be kept.
enum Needed {
    All,
    /// The targets of undelivered intents.
    Targets(HashSet<String>),
}

/// Returns the children that may be deleted.
pub(super) async fn deletable(
    container: &ContainerClient<Durable>,
    mut children: Vec<Instance>,
) -> Result<Vec<Incarnation>> {
    let parents = children.iter();
    let parents = parents.filter_map(|child| child.parent_instance_id.clone());
    let parents: BTreeSet<String> = parents.collect();
    // A stale replica may show a delivered intent, and must not miss a pending one.
    let latest = container.latest_committed();
    let needed: BTreeMap<String, Needed> = stream::iter(parents)
        .map(|parent| {
            let latest = latest.clone();
            async move {
                Ok::<_, crate::error::Error>((parent.clone(), needed_by(&latest, &parent).await?))
            }
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await?;
    let is_needed = |child: &Instance| {
        let parent = child.parent_instance_id.as_ref();
        match parent.and_then(|parent| needed.get(parent)) {
            Some(Needed::Targets(targets)) => targets.contains(&child.instance_id),
            Some(Needed::All) | None => true,
        }
    };
    children.retain(|child| !is_needed(child));
    Ok(children.iter().map(Incarnation::of).collect())
}

/// Returns the children that a parent needs. A parent that does not exist needs none.
async fn needed_by(container: &ContainerClient<Durable>, parent: &str) -> Result<Needed> {
    let wanted = Filter::<Durable>::of_type::<Instance>() | Filter::of_type::<OutboxIntent>();
    let query = Query::<Durable>::in_partition(parent).filter(wanted);
    let mut targets = HashSet::new();
    for row in container.query(query).row_by_row().all().await? {
        match row.map(|stored| stored.document) {
            Ok(Durable::Instance(instance)) if !instance.has_more() => return Ok(Needed::All),
            Ok(Durable::OutboxIntent(intent)) if intent.more.is_some() => return Ok(Needed::All),
            Ok(Durable::OutboxIntent(intent)) => {
                targets.insert(intent.target_instance_id);
            }
            Ok(_) => {}
            // It may be an ended parent, or an intent.
            Err(_) => return Ok(Needed::All),
        }
    }
    Ok(Needed::Targets(targets))
}
