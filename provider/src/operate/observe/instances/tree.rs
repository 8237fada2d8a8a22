//! Instances and their sub-orchestrations.

use std::collections::{BTreeMap, HashSet};

use cdb_client::Result;
use cdb_model::Query;
use serde::Serialize;

use super::super::sample::Container;
use super::presence;
use super::row::{ObservedInstance, readable};
use crate::stored::Store;
use crate::stored::documents::Instance;

/// The most instances of a tree.
const MAX_INSTANCES: usize = 1_000;

/// The number of parents per query.
const PARENTS_PER_QUERY: usize = 50;

/// An instance and its children.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ObservedTree {
    /// The instance.
    #[serde(flatten)]
    pub instance: ObservedInstance,
    /// Its children, in the order of their start.
    pub children: Vec<ObservedTree>,
    /// Of the root: whether the tree has more than about 1,000 instances, so that some are left out.
    #[serde(rename = "cut", skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
}

/// Reads the tree of an instance, level by level; `None` if the instance does not exist.
pub(in super::super) async fn read(store: &Store, id: &str) -> Result<Option<ObservedTree>> {
    let Some(root) = presence::instance(store, id).await? else {
        return Ok(None);
    };
    let mut below: BTreeMap<String, Vec<ObservedInstance>> = BTreeMap::new();
    let mut level = vec![root.id.clone()];
    // Damaged documents may name each other as parents.
    let mut seen = HashSet::from([root.id.clone()]);
    let (mut count, mut is_cut) = (1, false);
    while !level.is_empty() {
        let parents = std::mem::take(&mut level);
        for parents in parents.chunks(PARENTS_PER_QUERY) {
            if count >= MAX_INSTANCES {
                is_cut = true;
                break;
            }
            let children = Query::<Instance>::across_partitions()
                .filter(Instance::PARENT_INSTANCE_ID.is_in(parents.iter().cloned().map(Some)))
                .order_by(Instance::BY_CREATED);
            for child in store.container.query(children).all().await? {
                let child = readable(&store.payloads, child.document);
                let Some(parent) = child.parent_instance_id.clone() else {
                    continue;
                };
                if !seen.insert(child.instance_id.clone()) {
                    continue;
                }
                count += 1;
                level.push(child.instance_id.clone());
                let siblings = below.entry(parent).or_default();
                siblings.push(ObservedInstance::of(child));
            }
        }
    }
    Ok(Some(build(root, &mut below, is_cut)))
}

fn build(
    instance: ObservedInstance,
    below: &mut BTreeMap<String, Vec<ObservedInstance>>,
    is_cut: bool,
) -> ObservedTree {
    let children = below.remove(&instance.id).unwrap_or_default();
    let children = children.into_iter();
    let mut children: Vec<_> = children.map(|child| build(child, below, false)).collect();
    // By their start. Of those that started together, `x::sub-2` comes before `x::sub-10`.
    children.sort_by_cached_key(|ObservedTree { instance, .. }| {
        (instance.created_at, instance.id.len(), instance.id.clone())
    });
    ObservedTree {
        instance,
        children,
        is_cut,
    }
}

/// Counts the children of instances, by the id of the parent. Returns `None` when they have more than 1,000 children
/// together.
pub(in super::super) async fn child_counts(
    container: &Container,
    parents: impl Iterator<Item = String>,
) -> Result<Option<BTreeMap<String, usize>>> {
    let mut counts = BTreeMap::new();
    let ids: Vec<_> = parents.map(Some).collect();
    if ids.is_empty() {
        return Ok(Some(counts));
    }
    let query = Query::<Instance>::across_partitions()
        .filter(Instance::PARENT_INSTANCE_ID.is_in(ids))
        .values(Instance::PARENT_INSTANCE_ID);
    let page = container.query(query).page(MAX_INSTANCES, None).await?;
    for parent in page.rows.into_iter().flatten() {
        *counts.entry(parent).or_default() += 1;
    }
    Ok(page.next.is_none().then_some(counts))
}
