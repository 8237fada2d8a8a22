//! SQL expressions of a stored path. Queries and indexes have to use the same text, or SQLite does
//! not use the index.

/// Returns the value at a stored path.
pub(super) fn json_path(path: &str) -> String {
    format!("json_extract(body, {})", json_name(path))
}

/// Returns the rank of a value's type in the order of the query language: undefined is 0, objects
/// are 6.
pub(crate) fn json_rank(path: &str) -> String {
    let name = json_name(path);
    format!(
        "CASE json_type(body, {name}) WHEN 'null' THEN 1 WHEN 'false' THEN 2 WHEN 'true' THEN 2 WHEN 'integer' THEN 3 \
         WHEN 'real' THEN 3 WHEN 'text' THEN 4 WHEN 'array' THEN 5 WHEN 'object' THEN 6 ELSE 0 END"
    )
}

/// Returns the value that comparisons within a type use; NULL for arrays and objects, which have no
/// order.
pub(crate) fn json_value(path: &str) -> String {
    let name = json_name(path);
    format!(
        "CASE WHEN json_type(body, {name}) NOT IN ('array', 'object') THEN json_extract(body, {name}) END"
    )
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
