//! Names of databases and containers.

use serde_json::Value;

use crate::protocol::ServiceError;

/// Maximum length of a name in characters (concepts-limits).
const LONGEST: usize = 255;

/// Checks the name in the definition of a database or container and returns it.
pub(crate) fn name(definition: &Value) -> Result<&str, ServiceError> {
    let Some(name) = definition["id"].as_str() else {
        return Err(ServiceError::bad_request(
            "The input content is invalid because the required properties - 'id; ' - are missing",
        ));
    };
    if name.is_empty() || name.chars().count() > LONGEST || name.ends_with(' ') {
        return Err(ServiceError::bad_request(format!(
            "The input name '{name}' is invalid. Ensure to provide a unique non-empty string less than \
             '{LONGEST}' characters that does not end in a space."
        )));
    }
    // Also names that the path of a request cannot contain.
    let illegal = |c: &char| matches!(c, '/' | '\\' | '?' | '#') || c.is_control();
    if let Some(c) = name.chars().find(illegal).or_else(|| {
        let dots_only = name == "." || name == "..";
        dots_only.then_some('.')
    }) {
        return Err(ServiceError::bad_request(format!(
            "The input name '{}' is invalid: it contains '{}', which is not allowed.",
            name.escape_debug(),
            c.escape_debug()
        )));
    }
    Ok(name)
}
