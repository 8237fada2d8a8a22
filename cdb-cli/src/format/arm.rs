//! Writes an ARM template in JSON, with the account and the database as parameters.

use cdb_model::ContainerDefinition;
use serde::Serialize;

/// The API version in ARM and Bicep.
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

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Template<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    content_version: &'static str,
    parameters: Parameters,
    resources: [Resource<'a>; 1],
}

#[derive(Serialize)]
struct Parameters {
    account: Parameter,
    database: Parameter,
}

#[derive(Serialize)]
struct Parameter {
    r#type: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource<'a> {
    r#type: &'static str,
    api_version: &'static str,
    name: String,
    properties: Properties<'a>,
}

/// The properties of the container resource of ARM, Bicep and azapi.
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

pub(super) fn write(name: &str, definition: &ContainerDefinition) -> String {
    let parameter = || Parameter { r#type: "string" };
    // In an ARM expression a single quote is escaped by doubling.
    let quoted = name.replace('\'', "''");
    let template = Template {
        schema: "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
        content_version: "1.0.0.0",
        parameters: Parameters {
            account: parameter(),
            database: parameter(),
        },
        resources: [Resource {
            r#type: "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers",
            api_version: api_version(definition),
            name: format!(
                "[format('{{0}}/{{1}}/{{2}}', parameters('account'), parameters('database'), '{quoted}')]"
            ),
            properties: Properties::new(name, definition),
        }],
    };
    // The template holds strings and numbers, which always serialize.
    serde_json::to_string_pretty(&template).unwrap_or_default()
}
