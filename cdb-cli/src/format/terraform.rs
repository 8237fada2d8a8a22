//! Writes a resource of Terraform's azurerm provider, `azurerm_cosmosdb_sql_container`.

use std::fmt::Write as _;

use cdb_model::{ContainerDefinition, Direction, IndexingMode, PartitionKeyKind};

use super::symbol::symbol;

pub(super) fn write(name: &str, definition: &ContainerDefinition) -> String {
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
    use super::*;

    #[test]
    fn template_markers_of_hcl_are_escaped() {
        assert_eq!(string(r#"/"a${b}%{c}"/?"#), r#""/\"a$${b}%%{c}\"/?""#);
    }
}
