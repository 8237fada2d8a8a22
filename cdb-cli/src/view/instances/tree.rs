//! An instance and its sub-orchestrations.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

#[cfg(feature = "dashboard")]
use cdb_client::ContainerClient;
use cdb_model::Query;
#[cfg(feature = "dashboard")]
use cdb_provider::documents::Durable;
use cdb_provider::documents::Instance;
use serde::Serialize;

use super::Row;
use crate::container::Orchestrations;
use crate::exit::Failure;
use crate::output::short;

/// The maximum number of instances of a tree.
const MAX_INSTANCES: usize = 1_000;

/// The number of parents per query.
const PARENTS_PER_QUERY: usize = 50;

/// An instance and its children.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Tree {
    #[serde(flatten)]
    pub row: Row,
    pub children: Vec<Tree>,
    /// Whether the tree has more instances than [`MAX_INSTANCES`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// Reads the tree of an instance, level by level.
pub(crate) async fn read(orchestrations: &Orchestrations, root: Instance) -> Result<Tree, Failure> {
    let mut below: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut level = vec![root.instance_id.clone()];
    // Damaged documents may name each other as parents.
    let mut seen = HashSet::from([root.instance_id.clone()]);
    let (mut count, mut cut) = (1, false);
    while !level.is_empty() {
        let parents = std::mem::take(&mut level);
        for parents in parents.chunks(PARENTS_PER_QUERY) {
            if count >= MAX_INSTANCES {
                cut = true;
                break;
            }
            let children = Query::<Instance>::across_partitions()
                .filter(Instance::PARENT_INSTANCE_ID.is_in(parents.iter().cloned().map(Some)))
                .order_by(Instance::BY_CREATED);
            for child in orchestrations.container.query(children).all().await? {
                let child = orchestrations.readable(child.document);
                let Some(parent) = child.parent_instance_id.clone() else {
                    continue;
                };
                if !seen.insert(child.instance_id.clone()) {
                    continue;
                }
                count += 1;
                level.push(child.instance_id.clone());
                below.entry(parent).or_default().push(Row::of(child));
            }
        }
    }
    Ok(build(Row::of(root), &mut below, cut))
}

/// Counts the children of instances, by the id of the parent. Returns `None` when they have more
/// than [`MAX_INSTANCES`] children together.
#[cfg(feature = "dashboard")]
pub(crate) async fn count_children(
    container: &ContainerClient<Durable>,
    parents: &[Row],
) -> Result<Option<BTreeMap<String, usize>>, Failure> {
    let mut counts = BTreeMap::new();
    if parents.is_empty() {
        return Ok(Some(counts));
    }
    let ids = parents.iter().map(|row| Some(row.id.clone()));
    let query = Query::<Instance>::across_partitions()
        .filter(Instance::PARENT_INSTANCE_ID.is_in(ids))
        .values(Instance::PARENT_INSTANCE_ID);
    let page = container.query(query).page(MAX_INSTANCES, None).await?;
    for parent in page.rows.into_iter().flatten() {
        *counts.entry(parent).or_default() += 1;
    }
    Ok(page.next.is_none().then_some(counts))
}

/// Builds the tree.
fn build(row: Row, below: &mut BTreeMap<String, Vec<Row>>, cut: bool) -> Tree {
    let children = below.remove(&row.id).unwrap_or_default();
    let mut children: Vec<Tree> = children
        .into_iter()
        .map(|child| build(child, below, false))
        .collect();
    // By their start. Of those that started together, `x::sub-2` comes before `x::sub-10`.
    children.sort_by_cached_key(|Tree { row, .. }| (row.created_at, row.id.len(), row.id.clone()));
    Tree { row, children, cut }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.branch(f, "", "")?;
        if self.cut {
            writeln!(
                f,
                "the tree has more than the {MAX_INSTANCES} instances shown"
            )?;
        }
        Ok(())
    }
}

impl Tree {
    fn branch(&self, f: &mut fmt::Formatter<'_>, before: &str, below: &str) -> fmt::Result {
        let row = &self.row;
        writeln!(
            f,
            "{before}{} {} {}",
            short(&row.id, 200),
            short(&row.orchestration, 60),
            row.state
        )?;
        for (number, child) in self.children.iter().enumerate() {
            let (corner, line) = if number + 1 == self.children.len() {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            child.branch(f, &format!("{below}{corner}"), &format!("{below}{line}"))?;
        }
        Ok(())
    }
}
