//! An instance and its sub-orchestrations.

use std::collections::BTreeMap;
use std::fmt;

use cdb_client::ContainerClient;
use cdb_model::Query;
use cdb_provider::documents::{Durable, Instance};
use serde::Serialize;

use super::instances::Row;
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
pub(crate) async fn read(
    container: &ContainerClient<Durable>,
    root: Instance,
) -> Result<Tree, Failure> {
    let mut below: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut level = vec![root.instance_id.clone()];
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
            for child in container.query(children).all().await? {
                let child = child.document;
                let Some(parent) = child.parent_instance_id.clone() else {
                    continue;
                };
                count += 1;
                level.push(child.instance_id.clone());
                below.entry(parent).or_default().push(Row::of(child));
            }
        }
    }
    Ok(build(Row::of(root), &mut below, cut))
}

/// Builds the tree. Removes each child from `below`, so that a cycle of parents ends.
fn build(row: Row, below: &mut BTreeMap<String, Vec<Row>>, cut: bool) -> Tree {
    let children = below.remove(&row.id).unwrap_or_default();
    let children = children
        .into_iter()
        .map(|child| build(child, below, false))
        .collect();
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
            row.status
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
