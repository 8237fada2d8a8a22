//! SQL that their parser reads otherwise than the service.

use serde_json::Value;

/// Rewrites the SQL in the body of a query, as their parser needs it.
pub fn query_body(body: &[u8]) -> Vec<u8> {
    let mut query: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(sql) = query["query"].as_str() else {
        return body.to_vec();
    };
    query["query"] = in_single_quotes(sql).into();
    query.to_string().into_bytes()
}

/// Writes `c['name']` for `c["name"]`: the quoted property operator takes both (Azure Cosmos DB for NoSQL,
/// "Quoted property operator"), theirs reads an alias `name`.
pub(crate) fn in_single_quotes(sql: &str) -> String {
    let mut written = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find("[\"") {
        let (before, quoted) = rest.split_at(at);
        written += before;
        let quoted = &quoted[2..];
        let follows_a_path = written.ends_with(|last: char| last.is_alphanumeric() || last == ']');
        match quoted.split_once("\"]") {
            Some((name, after)) if follows_a_path && !name.contains(['"', '\'', '\\']) => {
                written += &format!("['{name}']");
                rest = after;
            }
            _ => {
                written += "[\"";
                rest = quoted;
            }
        }
    }
    written + rest
}

#[cfg(test)]
mod tests {
    use super::in_single_quotes;

    #[test]
    fn paths_change_and_arrays_do_not() {
        let sql =
            r#"SELECT c["a"]["b c"] FROM c WHERE c["d"] IN ("x") OR ARRAY_CONTAINS(["e"], c.f)"#;
        let expected =
            r#"SELECT c['a']['b c'] FROM c WHERE c['d'] IN ("x") OR ARRAY_CONTAINS(["e"], c.f)"#;
        assert_eq!(in_single_quotes(sql), expected);
    }
}
