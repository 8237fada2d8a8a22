//! An instance and the sub-orchestrations below it.

use std::collections::BTreeMap;
use std::fmt;

use cdb_client::ContainerClient;
use cdb_model::Query;
use cdb_provider::documents::{Durable, Instance};
use serde::Serialize;

use super::instances::Row;
use crate::exit::Failure;
use crate::output::short;

/// Most instances of a tree; what is below them is left out, and said so.
const MOST: usize = 1_000;

/// How many parents are asked about at once.
const AT_ONCE: usize = 50;

/// An instance and its children.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Tree {
    #[serde(flatten)]
    pub row: Row,
    pub children: Vec<Tree>,
    /// Whether there is more below than is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// Reads the tree below an instance, level by level.
pub(crate) async fn read(
    container: &ContainerClient<Durable>,
    root: Instance,
) -> Result<Tree, Failure> {
    let mut below: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut level = vec![root.instance_id.clone()];
    let (mut count, mut cut) = (1, false);
    while !level.is_empty() {
        let parents = std::mem::take(&mut level);
        for some in parents.chunks(AT_ONCE) {
            if count >= MOST {
                cut = true;
                break;
            }
            let children = Query::<Instance>::across_partitions()
                .filter(Instance::PARENT_INSTANCE_ID.is_in(some.iter().cloned().map(Some)))
                .order_by(Instance::BY_CREATED.asc());
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

/// Puts the children below their parents. Whoever is put somewhere is taken out, so that a cycle ends.
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
            writeln!(f, "there is more below than the {MOST} instances shown")?;
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
            let (turn, line) = if number + 1 == self.children.len() {
                ("└─ ", "   ")
            } else {
                ("├─ ", "│  ")
            };
            child.branch(f, &format!("{below}{turn}"), &format!("{below}{line}"))?;
        }
        Ok(())
    }
}
