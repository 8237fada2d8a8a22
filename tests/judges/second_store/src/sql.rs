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

/// Writes `'text'` for `"text"`, also in `c["name"]`. The service takes both ("Constants in Azure
/// Cosmos DB for NoSQL", "Quoted property operator"); to theirs, double quotes enclose an identifier
/// (`scan_quoted_identifier` of its lexer).
pub(crate) fn in_single_quotes(sql: &str) -> String {
    let mut written = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(at) = rest.find(['"', '\'']) {
        let (before, quoted) = rest.split_at(at);
        written += before;
        let end = end_of_string(quoted);
        let (token, after) = quoted.split_at(end);
        match serde_json::from_str::<String>(token) {
            Ok(text) => {
                written.push('\'');
                written += &text.replace('\'', "''");
                written.push('\'');
            }
            _ => written += token,
        }
        rest = after;
    }
    written + rest
}

/// Returns the length of the string literal that a text begins with.
fn end_of_string(text: &str) -> usize {
    let quote = text.chars().next();
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        if Some(character) == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::in_single_quotes;

    #[test]
    fn double_quotes_become_single_quotes() {
        let sql = r#"SELECT {"x": c["a"]["b c"]} FROM c WHERE c["d"] IN ("it's", "\"", 'q"') OR c.e ? "f" : "g""#;
        let expected = r#"SELECT {'x': c['a']['b c']} FROM c WHERE c['d'] IN ('it''s', '"', 'q"') OR c.e ? 'f' : 'g'"#;
        assert_eq!(in_single_quotes(sql), expected);
    }
}
