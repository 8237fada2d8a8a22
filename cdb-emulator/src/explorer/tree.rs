//! Databases, their containers, and the definitions of both.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::samples::{self, Sample};
use crate::account::Service;
use crate::protocol::ServiceError;
use crate::store::{Container, Database, Lane};

/// The content of the account, without documents.
#[derive(Debug, Serialize)]
pub(super) struct Tree {
    endpoint: String,
    version: &'static str,
    databases: Vec<DatabaseNode>,
}

#[derive(Debug, Serialize)]
struct DatabaseNode {
    id: String,
    containers: Vec<ContainerNode>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerNode {
    id: String,
    partition_key: Vec<String>,
    /// The ids of its physical partitions.
    ranges: Vec<String>,
    /// The definition in the form that clients read.
    definition: Value,
    samples: Vec<Sample>,
}

/// Reads the tree.
pub(super) async fn read(service: &Arc<Service>) -> Result<Tree, ServiceError> {
    let reader = service.clone();
    let work = move || {
        let connection = reader.store.read()?;
        let mut databases = Vec::new();
        for database in Database::all(&connection)? {
            let containers = Container::all(&connection, &database.id)?;
            databases.push(DatabaseNode {
                containers: containers.iter().map(node).collect(),
                id: database.id,
            });
        }
        Ok(databases)
    };
    Ok(Tree {
        endpoint: service.account.endpoint.clone(),
        version: env!("CARGO_PKG_VERSION"),
        databases: service.store.run(Lane::Scan, work).await?,
    })
}

fn node(container: &Container) -> ContainerNode {
    ContainerNode {
        id: container.definition["id"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        partition_key: container.partition_key_paths(),
        ranges: container
            .ranges
            .iter()
            .map(|range| range.id.clone())
            .collect(),
        definition: container.to_json(),
        samples: samples::of(&container.definition),
    }
}
