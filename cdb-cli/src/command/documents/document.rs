//! A document as a line of JSON, without the properties that the service sets.

use std::fmt;

use cdb_model::value::AnyPartitionKey;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The properties that the service sets at every write.
const SET_BY_SERVICE: [&str; 6] = ["_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"];

/// The properties of a document, in their order and each as it is written.
struct Properties<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Deserialize<'a> for Properties<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'a> Visitor<'a> for Members {
            type Value = Properties<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Properties(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Returns the line of a document. Values are copied byte for byte.
///
/// # Errors
/// When the text is not a JSON object.
pub(super) fn line(json: &str) -> Result<String, serde_json::Error> {
    let Properties(members) = serde_json::from_str(json)?;
    let own = members
        .into_iter()
        .filter(|(name, _)| !SET_BY_SERVICE.contains(&&**name));
    let mut line = String::with_capacity(json.len());
    for (name, value) in own {
        line.push(if line.is_empty() { '{' } else { ',' });
        line += &serde_json::to_string(&name)?;
        line.push(':');
        line += value.get();
    }
    line.push('}');
    Ok(line)
}

/// Where a line belongs.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) partition: AnyPartitionKey,
    pub(super) id: String,
}

/// Why a line has no place.
#[derive(Debug)]
pub(super) struct Misplaced {
    /// Where in the line the text is not JSON.
    pub(super) column: Option<usize>,
    pub(super) why: String,
}

impl From<String> for Misplaced {
    fn from(why: String) -> Self {
        Self { column: None, why }
    }
}

impl From<serde_json::Error> for Misplaced {
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let error = error.to_string();
        // The caller knows the line of the file.
        let position = format!(" at line {line} column {column}");
        let error = error.strip_suffix(&position).unwrap_or(&error);
        Self {
            column: Some(column),
            why: format!("not a JSON document: {error}; write one document per line"),
        }
    }
}

/// Returns the partition key and the id of a line. `paths` are the container's paths of the key.
///
/// # Errors
/// Says what the line lacks.
pub(super) fn place(line: &str, paths: &[String]) -> Result<Place, Misplaced> {
    let document: Value = serde_json::from_str(line)?;
    let kind = match &document {
        Value::Object(_) => None,
        Value::Array(_) => Some("an array"),
        _ => Some("a single value"),
    };
    if let Some(kind) = kind {
        let why = format!("the line is {kind}, and not a JSON object; write one document per line");
        return Err(why.into());
    }
    let id = document.get("id").and_then(Value::as_str);
    let id = id
        .ok_or_else(|| "the document has no id; give it a string `id`".to_owned())?
        .to_owned();
    let partition = AnyPartitionKey::of(&document, paths).map_err(|path| {
        format!(
            "the document `{id}` has an object or an array at {path}, the container's partition key"
        )
    })?;
    Ok(Place { partition, id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_order_and_spelling_and_drops_what_the_service_sets() {
        let stored = r#"{"b":1.50,"_rid":"x","a":{"_ts":[1e2, "\u00e9"]},"\u0061b":null,"_ts":7}"#;
        let expected = r#"{"b":1.50,"a":{"_ts":[1e2, "\u00e9"]},"ab":null}"#;
        assert_eq!(line(stored).unwrap(), expected);
        assert_eq!(line(expected).unwrap(), expected);
        assert!(line("[1]").is_err());
    }

    #[test]
    fn a_place_is_read_from_the_partition_key_paths() {
        let line = r#"{"id":"1","tenant":"a","user":{"id":7}}"#;
        let paths = ["/tenant".to_owned(), "/user/id".to_owned()];
        let found = place(line, &paths).unwrap();
        assert_eq!(found.partition.to_header(), r#"["a",7]"#);
        let refused = place(line, &["/user".to_owned()]).unwrap_err();
        assert!(
            refused
                .why
                .contains("`1` has an object or an array at /user"),
            "{refused:?}"
        );
        let refused = place("{}", &["/user".to_owned()]).unwrap_err();
        assert_eq!(refused.why, "the document has no id; give it a string `id`");
    }
}
