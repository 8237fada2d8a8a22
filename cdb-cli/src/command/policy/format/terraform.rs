//! Writes a resource of Terraform's azurerm provider, `azurerm_cosmosdb_sql_container`; for what that
//! resource cannot declare, one of the azapi provider.

use std::fmt::Write as _;

use cdb_model::container::{ContainerDefinition, PartitionKeyKind};
use cdb_model::policy::IndexingMode;
use cdb_model::shape::Direction;

use super::resource::{API_VERSION, Properties};
use super::symbol::symbol;

pub(super) fn write(name: &str, definition: &ContainerDefinition) -> String {
    if needs_azapi(definition) {
        return azapi(name, definition);
    }
    let key = &definition.partition_key;
    let kind = match key.kind {
        PartitionKeyKind::Hash => "Hash",
        PartitionKeyKind::MultiHash => "MultiHash",
        PartitionKeyKind::Range => "Range",
    };
    let mut text = format!(
        "resource \"azurerm_cosmosdb_sql_container\" {} {{\n  \
         name                  = {}\n  \
         resource_group_name   = var.resource_group\n  \
         account_name          = var.account\n  \
         database_name         = var.database\n  \
         partition_key_paths   = {}\n  \
         partition_key_kind    = {}\n  \
         partition_key_version = {}\n",
        string(&symbol(name)),
        string(name),
        list(&key.paths),
        string(kind),
        key.version,
    );
    if let Some(seconds) = definition.default_ttl {
        line(&mut text, 1, &format!("default_ttl           = {seconds}"));
    }
    for unique in &definition.unique_key_policy.unique_keys {
        line(
            &mut text,
            0,
            &format!(
                "\n  unique_key {{\n    paths = {}\n  }}",
                list(&unique.paths)
            ),
        );
    }
    indexing_policy(definition, &mut text);
    text.push('}');
    text
}

/// Whether azurerm cannot declare the container: computed properties, vectors and full texts.
fn needs_azapi(definition: &ContainerDefinition) -> bool {
    !definition.computed_properties.is_empty()
        || !definition
            .vector_embedding_policy
            .vector_embeddings
            .is_empty()
        || !definition.full_text_policy.full_text_paths.is_empty()
}

/// Writes the ARM resource.
fn azapi(name: &str, definition: &ContainerDefinition) -> String {
    // The definition holds strings and numbers, which always serialize.
    let json = serde_json::to_string_pretty(&Properties::new(name, definition)).unwrap_or_default();
    let json = json.replace("${", "$${").replace("%{", "%%{");
    let json: Vec<String> = json.lines().map(|line| format!("        {line}")).collect();
    format!(
        "# azurerm cannot declare computed properties, vectors and full texts.\n\
         resource \"azapi_resource\" {} {{\n  \
         type      = \"Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@{}\"\n  \
         name      = {}\n  \
         parent_id = var.database_id\n  \
         body = {{\n    properties = jsondecode(<<-JSON\n{}\n      JSON\n    )\n  }}\n}}",
        string(&symbol(name)),
        API_VERSION,
        string(name),
        json.join("\n"),
    )
}

fn indexing_policy(definition: &ContainerDefinition, text: &mut String) {
    let policy = &definition.indexing_policy;
    let mode = match policy.indexing_mode {
        IndexingMode::None => "none",
        IndexingMode::Consistent | IndexingMode::Lazy => "consistent",
    };
    line(text, 0, "\n  indexing_policy {");
    line(text, 2, &format!("indexing_mode = {}", string(mode)));
    for path in &policy.included_paths {
        line(
            text,
            0,
            &format!(
                "\n    included_path {{\n      path = {}\n    }}",
                string(&path.path)
            ),
        );
    }
    for path in &policy.excluded_paths {
        line(
            text,
            0,
            &format!(
                "\n    excluded_path {{\n      path = {}\n    }}",
                string(&path.path)
            ),
        );
    }
    for composite in &policy.composite_indexes {
        line(text, 0, "\n    composite_index {");
        for path in composite {
            let order = match path.order {
                Direction::Ascending => "ascending",
                Direction::Descending => "descending",
            };
            let (path, order) = (string(&path.path), string(order));
            line(
                text,
                3,
                &format!("index {{\n        path  = {path}\n        order = {order}\n      }}"),
            );
        }
        line(text, 2, "}");
    }
    line(text, 1, "}");
}

fn line(text: &mut String, depth: usize, content: &str) {
    // `write` to a `String` cannot fail.
    let _ = writeln!(text, "{}{content}", "  ".repeat(depth));
}

/// Quotes a string for HCL: with the escapes of JSON, and with both template markers escaped.
fn string(text: &str) -> String {
    let quoted = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{}\"", quoted.replace("${", "$${").replace("%{", "%%{"))
}

fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| string(text)).collect();
    format!("[{}]", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use cdb_model::Container as _;
    use cdb_model::policy::ComputedProperty;

    use super::*;

    #[test]
    fn a_container_with_computed_properties_is_a_resource_of_azapi() {
        let mut definition = cdb_provider::documents::Durable::definition();
        definition.computed_properties.push(ComputedProperty {
            name: "lower".to_owned(),
            query: "SELECT VALUE LOWER(c[\"${x}\"]) FROM c".to_owned(),
        });
        let text = write("shop", &definition);
        assert!(
            text.contains("resource \"azapi_resource\" \"shop\" {\n"),
            "{text}"
        );
        let json = text
            .split("<<-JSON\n")
            .nth(1)
            .and_then(|rest| rest.split("\n      JSON").next());
        let json = json.unwrap().replace("$${", "${");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let resource = json["resource"].clone();
        assert_eq!(resource["id"], "shop");
        let read: ContainerDefinition = serde_json::from_value(resource).unwrap();
        assert_eq!(read, definition);
    }

    #[test]
    fn template_markers_of_hcl_are_escaped() {
        assert_eq!(string(r#"/"a${b}%{c}"/?"#), r#""/\"a$${b}%%{c}\"/?""#);
    }
}
