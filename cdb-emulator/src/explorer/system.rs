//! The documents that libraries keep beside those of a program.
//!
//! The emulator knows the libraries by their stored form only: a type of the list, and an id that
//! begins with the partition's key and a colon. A program's own type of the same name has other
//! ids, so its documents stay visible. Partitions whose key begins with `cdb:` are reserved.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The start of the keys of reserved partitions.
const RESERVED: &str = "cdb:";

/// The types of the provider, of change processors and of work handlers. Events of the event store
/// are content.
const TYPES: &[&str] = &[
    "changeProcessor",
    "chunk",
    "event_head",
    "event_snapshot",
    "execution",
    "feedMember",
    "feedPart",
    "history",
    "inbox",
    "instance",
    "kv",
    "kv_delta",
    "kv_pack",
    "member",
    "orch_queue",
    "outbox_intent",
    "limits",
    "limitedKey",
    "runtimeLease",
    "schema",
    "session",
    "spill",
    "work_member",
    "work_message",
    "work_partition",
    "work_settings",
    "work_stream",
    "worker_queue",
];

#[derive(Deserialize)]
struct Row {
    id: String,
    #[serde(rename = "type", default)]
    kind: Value,
    /// Only a whole document has it.
    #[serde(rename = "_rid")]
    _rid: String,
    #[serde(flatten)]
    fields: serde_json::Map<String, Value>,
}

/// Returns whether a row is a document that a library keeps, in a container with these paths of the
/// partition key.
pub(super) fn is_system(row: &RawValue, partition_key: &[String]) -> bool {
    let Ok(row) = serde_json::from_str::<Row>(row.get()) else {
        return false;
    };
    let is_listed = row.kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    let mut keys = partition_key.iter().filter_map(|path| key(&row, path));
    keys.any(|key| {
        let rest = row.id.strip_prefix(key);
        key.starts_with(RESERVED) || (is_listed && rest.is_some_and(|rest| rest.starts_with(':')))
    })
}

/// Returns the text at a path of the partition key, such as `/tenant/id`.
fn key<'a>(row: &'a Row, path: &str) -> Option<&'a str> {
    let mut names = path.trim_start_matches('/').split('/');
    let first = match names.next()? {
        "id" => return Some(&row.id),
        "type" => &row.kind,
        name => row.fields.get(name)?,
    };
    names
        .try_fold(first, |value, name| value.get(name))?
        .as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;

    fn hides(row: &Value) -> bool {
        is_system(&to_raw_value(row).unwrap(), &["/owner".to_owned()])
    }

    #[test]
    fn a_document_is_a_system_document_by_its_type_and_id_or_its_partition() {
        let system = json!({ "id": "a:instance", "owner": "a", "type": "instance", "_rid": "x" });
        assert!(hides(&system));
        let reserved = json!({ "id": "x", "owner": "cdb:schema", "_rid": "x" });
        assert!(hides(&reserved));
        for own in [
            json!({ "id": "history:7", "owner": "a", "type": "history", "_rid": "x" }),
            json!({ "id": "a:order", "owner": "a", "type": "order", "_rid": "x" }),
            json!({ "id": "ab:kv", "owner": "a", "type": "kv", "_rid": "x" }),
            json!({ "id": "a:instance", "owner": "a", "type": "instance" }),
            json!({ "id": "a:instance", "type": 7, "_rid": "x" }),
            json!(7),
        ] {
            assert!(!hides(&own), "{own}");
        }
    }
}
