//! An instance and its sub-orchestrations.

use std::fmt;

use cdb_provider::observe::ObservedTree;
use serde::Serialize;

use crate::container::Orchestrations;
use crate::exit::Failure;
use crate::output::short;

/// An instance and its children.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Tree(ObservedTree);

/// Reads the tree of an instance.
///
/// # Errors
/// Fails with a finding when the instance does not exist.
pub(crate) async fn read(orchestrations: &Orchestrations, id: &str) -> Result<Tree, Failure> {
    let found = orchestrations.provider.observe().tree(id).await?;
    Ok(Tree(orchestrations.existing(id, found).await?))
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        branch(&self.0, f, "", "")?;
        if self.0.is_cut {
            writeln!(f, "the tree has more than the 1000 instances shown")?;
        }
        Ok(())
    }
}

fn branch(
    tree: &ObservedTree,
    f: &mut fmt::Formatter<'_>,
    before: &str,
    below: &str,
) -> fmt::Result {
    let row = &tree.instance;
    writeln!(
        f,
        "{before}{} {} {}",
        short(&row.id, 200),
        short(&row.orchestration, 60),
        row.state
    )?;
    for (number, child) in tree.children.iter().enumerate() {
        let (corner, line) = if number + 1 == tree.children.len() {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        branch(
            child,
            f,
            &format!("{below}{corner}"),
            &format!("{below}{line}"),
        )?;
    }
    Ok(())
}
