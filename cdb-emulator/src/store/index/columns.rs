//! The two sort keys of a stored path: the rank of the value's type, and the value. An indexed path
//! has columns for them, which each write fills; other paths are read from the body.

use rusqlite::types::Value as Sql;
use serde_json::Value;

use crate::sql::value::rank;

/// The sort keys of a stored path as SQL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathKeys {
    pub(crate) path: String,
    /// The rank of the value's type in the order of the query language: undefined is 0, objects are 6.
    pub(crate) rank: String,
    /// The value that comparisons within a type use; NULL for arrays and objects, which have no
    /// order.
    pub(crate) value: String,
}

impl PathKeys {
    /// Returns the columns of an indexed path.
    pub(in crate::store) fn columns(path: String) -> Self {
        let name = column_name(&path);
        Self {
            rank: format!("\"rank{name}\""),
            value: format!("\"value{name}\""),
            path,
        }
    }

    /// Returns expressions on the body.
    pub(in crate::store) fn in_body(path: String) -> Self {
        let name = json_name(&path);
        Self {
            rank: format!(
                "CASE json_type(body, {name}) WHEN 'null' THEN 1 WHEN 'false' THEN 2 WHEN 'true' THEN 2 \
                 WHEN 'integer' THEN 3 WHEN 'real' THEN 3 WHEN 'text' THEN 4 WHEN 'array' THEN 5 \
                 WHEN 'object' THEN 6 ELSE 0 END"
            ),
            value: format!(
                "CASE WHEN json_type(body, {name}) NOT IN ('array', 'object') THEN json_extract(body, {name}) END"
            ),
            path,
        }
    }
}

/// Returns the sort keys of a document's value at a path.
pub(in crate::store) fn keys_of(document: &Value, path: &str) -> [Sql; 2] {
    let mut names = path.split('/').skip(1);
    let value = names.try_fold(document, |at, name| at.get(name));
    let key = value.and_then(sql_value).unwrap_or(Sql::Null);
    [Sql::Integer(rank(value).into()), key]
}

/// Returns a value in the form that SQLite extracts from JSON; `None` for null, arrays and objects.
pub(crate) fn sql_value(value: &Value) -> Option<Sql> {
    match value {
        Value::String(text) => Some(Sql::Text(text.clone())),
        Value::Bool(value) => Some(Sql::Integer((*value).into())),
        Value::Number(number) => number
            .as_i64()
            .map(Sql::Integer)
            .or_else(|| number.as_f64().map(Sql::Real)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the value at a stored path.
pub(in crate::store) fn json_path(path: &str) -> String {
    format!("json_extract(body, {})", json_name(path))
}

/// Returns a stored path as a quoted JSON path of SQLite.
fn json_name(path: &str) -> String {
    let mut json = String::from("$");
    for name in path.split('/').filter(|name| !name.is_empty()) {
        json.push_str(".\"");
        json.push_str(name);
        json.push('"');
    }
    format!("'{}'", json.replace('\'', "''"))
}

/// Returns a name that is unique although SQLite ignores the case of names. Paths have no quotation
/// marks.
fn column_name(path: &str) -> String {
    let mut name = String::new();
    for letter in path.chars() {
        if letter.is_ascii_uppercase() || letter == '^' {
            name.push('^');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;

    use crate::op::rows_of;
    use crate::store::{Container, Database, Store, StoredDocument};

    #[test]
    fn paths_that_differ_in_case_have_columns_of_their_own() {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        Database::create(&connection, "d", 0).unwrap();
        let definition = json!({
            "id": "c", "partitionKey": { "paths": ["/id"] }, "indexingPolicy": {
                "includedPaths": [{ "path": "/a/?" }, { "path": "/A/?" }, { "path": "/\"^a\"/?" }],
                "excludedPaths": [{ "path": "/*" }],
            },
        });
        let container = Container::create(&connection, "d", &definition, 1, 0).unwrap();
        let document = StoredDocument {
            pk: "1".to_owned(),
            id: "1".to_owned(),
            body: json!({ "id": "1", "a": 1, "A": 2, "^a": 3 }).to_string(),
            epk: String::new(),
            etag: String::new(),
            lsn: 1,
            ts: 0,
            expires: None,
        };
        container.write(&connection, &document).unwrap();
        for (condition, count) in [
            ("c.a = 1 AND c.A = 2 AND c['^a'] = 3", 1),
            ("c.a = 2", 0),
            ("c.A = 3", 0),
            ("c['^a'] = 1", 0),
        ] {
            let text = format!("SELECT * FROM c WHERE {condition}");
            let rows = rows_of(&connection, &container, &text, HashMap::new(), 10).unwrap();
            assert_eq!(rows.len(), count, "{condition}");
        }
    }
}
