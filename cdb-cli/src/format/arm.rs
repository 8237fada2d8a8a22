//! Writes an ARM template in JSON, with the account and the database as parameters.

use cdb_model::ContainerDefinition;
use serde::Serialize;

/// The API version in ARM and Bicep.
pub(super) const API_VERSION: &str = "2025-04-15";

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

#[derive(Serialize)]
struct Properties<'a> {
    resource: Container<'a>,
}

/// The container resource of ARM and Bicep.
#[derive(Serialize)]
pub(super) struct Container<'a> {
    pub(super) id: &'a str,
    #[serde(flatten)]
    pub(super) definition: &'a ContainerDefinition,
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
            api_version: API_VERSION,
            name: format!(
                "[format('{{0}}/{{1}}/{{2}}', parameters('account'), parameters('database'), '{quoted}')]"
            ),
            properties: Properties {
                resource: Container {
                    id: name,
                    definition,
                },
            },
        }],
    };
    // The template holds strings and numbers, which always serialize.
    serde_json::to_string_pretty(&template).unwrap_or_default()
}
