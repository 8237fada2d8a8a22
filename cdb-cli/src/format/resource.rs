//! The resource of a container in Azure Resource Manager, which Bicep and azapi declare.

use cdb_model::ContainerDefinition;
use serde::Serialize;

/// The API version of containers.
const API_VERSION: &str = "2025-04-15";
/// The API version of global secondary indexes, which stable versions cannot declare.
const INDEX_API_VERSION: &str = "2025-11-01-preview";
/// The smallest maximum of autoscale throughput, which a global secondary index needs.
const INDEX_THROUGHPUT: u32 = 1_000;

/// Returns the API version that a definition needs.
pub(super) fn api_version(definition: &ContainerDefinition) -> &'static str {
    if definition.index_of.is_some() {
        INDEX_API_VERSION
    } else {
        API_VERSION
    }
}

/// The properties of the resource.
#[derive(Serialize)]
pub(super) struct Properties<'a> {
    resource: Container<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<Options>,
}

#[derive(Serialize)]
struct Container<'a> {
    id: &'a str,
    #[serde(flatten)]
    definition: &'a ContainerDefinition,
}

/// The throughput.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Options {
    autoscale_settings: Autoscale,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Autoscale {
    max_throughput: u32,
}

impl<'a> Properties<'a> {
    pub(super) fn new(id: &'a str, definition: &'a ContainerDefinition) -> Self {
        let autoscale_settings = Autoscale {
            max_throughput: INDEX_THROUGHPUT,
        };
        let is_index = definition.index_of.is_some();
        Self {
            resource: Container { id, definition },
            options: is_index.then_some(Options { autoscale_settings }),
        }
    }
}
