//! Writes a Bicep resource, with the properties of the resource.
//!
//! Bicep's grammar: keys are bare words; strings are in single quotes, with `\` before `\`, `'` and
//! `${`; members and elements are separated by line breaks.

use cdb_model::container::ContainerDefinition;
use serde_json::Value;

use super::resource::{API_VERSION, Properties};
use super::symbol::symbol;

pub(super) fn write(name: &str, definition: &ContainerDefinition) -> String {
    // The definition holds strings and numbers, which always serialize.
    let properties = serde_json::to_value(Properties::new(name, definition)).unwrap_or_default();
    let mut text = format!(
        "param account string\nparam database string\n\nresource {} \
         'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@{}' = {{\n  \
         name: '${{account}}/${{database}}/{}'\n  properties: ",
        symbol(name),
        API_VERSION,
        escaped(name),
    );
    value(&properties, 1, &mut text);
    text.push_str("\n}");
    text
}

/// Writes a value whose first line is indented to a depth.
fn value(of: &Value, depth: usize, text: &mut String) {
    let line = |depth: usize| format!("\n{}", "  ".repeat(depth));
    match of {
        Value::Object(members) => {
            text.push('{');
            // Sorted, because the order depends on the features of `serde_json`.
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            for (name, member) in members {
                text.push_str(&line(depth + 1));
                text.push_str(name);
                text.push_str(": ");
                value(member, depth + 1, text);
            }
            text.push_str(&line(depth));
            text.push('}');
        }
        Value::Array(elements) => {
            text.push('[');
            for element in elements {
                text.push_str(&line(depth + 1));
                value(element, depth + 1, text);
            }
            text.push_str(&line(depth));
            text.push(']');
        }
        Value::String(string) => text.push_str(&format_string(string)),
        other => text.push_str(&other.to_string()),
    }
}

fn format_string(string: &str) -> String {
    format!("'{}'", escaped(string))
}

fn escaped(string: &str) -> String {
    string
        .replace('\\', "\\\\")
        .replace('\'', "\\'")
        .replace("${", "\\${")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_bicep_are_escaped() {
        assert_eq!(format_string(r#"/"a'b"/?"#), r#"'/"a\'b"/?'"#);
        assert_eq!(format_string(r"\${x}"), r"'\\\${x}'");
    }
}
