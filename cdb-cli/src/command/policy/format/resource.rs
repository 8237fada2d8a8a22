//! The resource of a container in Azure Resource Manager, which Bicep and azapi declare.

use cdb_model::container::ContainerDefinition;
use serde::Serialize;

/// The API version of containers.
pub(super) const API_VERSION: &str = "2025-04-15";

/// The properties of the resource.
#[derive(Serialize)]
pub(super) struct Properties<'a> {
    resource: Container<'a>,
}

#[derive(Serialize)]
struct Container<'a> {
    id: &'a str,
    #[serde(flatten)]
    definition: &'a ContainerDefinition,
}

impl<'a> Properties<'a> {
    pub(super) fn new(id: &'a str, definition: &'a ContainerDefinition) -> Self {
        Self {
            resource: Container { id, definition },
        }
    }
}
