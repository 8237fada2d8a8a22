//! The rules of indexing policies: the mode, the grammar of paths, and limits. Source: Microsoft Learn,
//! index-policy and concepts-limits.

use std::collections::HashSet;

use serde_json::Value;

use crate::protocol::ServiceError;

/// Maximum number of paths of a list.
const MOST_PATHS: usize = 1500;
/// The valid number of paths of a composite index.
const COMPOSITE: std::ops::RangeInclusive<usize> = 2..=8;
/// Maximum number of paths of all composite indexes.
const MOST_COMPOSITE_PATHS: usize = 100;

/// Checks an indexing policy. Time to live requires an index, so it is rejected with the mode
/// `none`.
pub(super) fn check(policy: &Value, has_time_to_live: bool) -> Result<(), ServiceError> {
    let mode = policy["indexingMode"].as_str().unwrap_or("consistent");
    match mode.to_ascii_lowercase().as_str() {
        "consistent" => {}
        "none" if has_time_to_live => {
            return Err(ServiceError::bad_request(
                "The defaultTtl property cannot be set when the indexing mode is 'None'.",
            ));
        }
        "none" => return Ok(()),
        _ => {
            return Err(ServiceError::bad_request(format!(
                "The value '{mode}' specified for 'indexingMode' is invalid. It has to be 'consistent' or 'none'."
            )));
        }
    }
    let included = paths(policy, "includedPaths")?;
    let excluded = paths(policy, "excludedPaths")?;
    let lists = [included.as_slice(), excluded.as_slice()].concat();
    for path in &lists {
        if !is_path(path) {
            return Err(invalid(path));
        }
    }
    let mut seen = HashSet::new();
    if let Some(twice) = lists.iter().find(|path| !seen.insert(**path)) {
        return Err(ServiceError::bad_request(format!(
            "The indexing path '{twice}' is given twice; give it once, included or excluded."
        )));
    }
    if !lists.contains(&"/*") {
        return Err(ServiceError::bad_request(
            "The special mandatory indexing path \"/\" is not provided in any of the path type sets. Please provide \
             this path in one of the sets.",
        ));
    }
    check_composites(policy)
}

fn paths<'a>(policy: &'a Value, list: &str) -> Result<Vec<&'a str>, ServiceError> {
    let entries = match &policy[list] {
        Value::Null => return Ok(Vec::new()),
        Value::Array(entries) => entries,
        _ => {
            return Err(ServiceError::bad_request(format!(
                "'{list}' has to be an array."
            )));
        }
    };
    if entries.len() > MOST_PATHS {
        return Err(ServiceError::bad_request(format!(
            "'{list}' has {} paths, {MOST_PATHS} are allowed.",
            entries.len()
        )));
    }
    let path = |entry: &'a Value| {
        entry["path"].as_str().ok_or_else(|| {
            ServiceError::bad_request(format!("An entry of '{list}' has no 'path'."))
        })
    };
    entries.iter().map(path).collect()
}

fn check_composites(policy: &Value) -> Result<(), ServiceError> {
    let mut total = 0;
    for composite in policy["compositeIndexes"].as_array().into_iter().flatten() {
        let paths = composite.as_array().map_or(&[][..], Vec::as_slice);
        if !COMPOSITE.contains(&paths.len()) {
            return Err(ServiceError::bad_request(format!(
                "A composite index has {} paths, {} to {} are allowed.",
                paths.len(),
                COMPOSITE.start(),
                COMPOSITE.end()
            )));
        }
        total += paths.len();
        for entry in paths {
            let path = entry["path"].as_str().unwrap_or_default();
            // A path of a composite has no `/?` at its end.
            if path.ends_with('*') || path.ends_with('?') || !is_path(&format!("{path}/?")) {
                return Err(invalid(path));
            }
            if !matches!(
                entry["order"].as_str(),
                None | Some("ascending" | "descending")
            ) {
                return Err(ServiceError::bad_request(
                    "The 'order' of a path in a composite index has to be 'ascending' or 'descending'.",
                ));
            }
        }
    }
    if total > MOST_COMPOSITE_PATHS {
        return Err(ServiceError::bad_request(format!(
            "The composite indexes have {total} paths together, {MOST_COMPOSITE_PATHS} are allowed."
        )));
    }
    Ok(())
}

fn invalid(path: &str) -> ServiceError {
    ServiceError::bad_request(format!(
        "The indexing path '{}' could not be accepted. Please ensure that the path is valid. Common errors include \
         invalid characters or absence of quotes around labels.",
        path.escape_debug()
    ))
}

/// Returns whether a path is `/*`, or names separated by `/` with the end `/?` or `/*`. A name
/// consists of letters, digits and `_`, or is quoted, or is `[]` for the elements of an array.
fn is_path(path: &str) -> bool {
    let Some(names) = path.strip_suffix("/?").or_else(|| path.strip_suffix("/*")) else {
        return false;
    };
    let mut rest = names;
    if rest.is_empty() {
        return path == "/*";
    }
    while let Some(name) = rest.strip_prefix('/') {
        let end = match name.strip_prefix('"') {
            Some(quoted) => match quoted.find('"') {
                Some(end) if end > 0 && !quoted[..end].contains(char::is_control) => end + 2,
                _ => return false,
            },
            None => name.find('/').unwrap_or(name.len()),
        };
        let (name, after) = name.split_at(end);
        let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_') && !name.is_empty();
        if !(plain || name == "[]" || name.starts_with('"')) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_paths_are_accepted() {
        for good in [
            "/*",
            "/a/?",
            "/a/*",
            "/a/b_1/?",
            "/a/[]/b/?",
            "/a/[]/*",
            "/\"a-b\"/?",
            "/\"_etag\"/?",
            "/größe/?",
        ] {
            assert!(is_path(good), "{good}");
        }
        for bad in [
            "",
            "/",
            "/?",
            "a/?",
            "/a",
            "/a?",
            "/a-b/?",
            "//?",
            "/\"a/?",
            "/\"\"/?",
            "/a/[0]/?",
            "/a\0b/?",
            "/\"a\"b/?",
        ] {
            assert!(!is_path(bad), "{bad}");
        }
    }
}
