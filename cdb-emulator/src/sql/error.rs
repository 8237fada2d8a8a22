//! Query errors in the service's form: code, location and cause, as JSON in the message. Clients parse it,
//! and users search for the code.
//!
//! [`check_length`] is the only check here, because it needs no parser.
//!
//! SC1001, SC1010, SC1012, SC2001, SC2005, SC2202, SC2204 and SC3020 are known from users' reports. The codes of
//! other errors are not published; they are SC2000 here.

use std::ops::Range;

use serde_json::json;

use crate::protocol::ServiceError;

/// A range of bytes of the query text.
pub(super) type Location = Range<usize>;

/// Maximum length of a query in characters:
/// <https://learn.microsoft.com/azure/cosmos-db/concepts-limits>.
const MAX_TEXT: usize = 512 * 1024;

/// Returns an error with code, location and cause.
pub(super) fn query_error(text: &str, location: Location, code: &str, cause: &str) -> ServiceError {
    // The service counts UTF-16 units, as .NET does.
    let units = |to: usize| text[..to.min(text.len())].encode_utf16().count();
    let errors = json!({ "errors": [{
        "severity": "Error",
        "location": { "start": units(location.start), "end": units(location.end) },
        "code": code,
        "message": cause,
    }] });
    ServiceError::bad_request(format!("Message: {errors}"))
}

/// Returns the error for an unexpected token.
pub(super) fn syntax(text: &str, location: Location) -> ServiceError {
    let near = text[location.clone()].to_owned();
    let cause = format!("Syntax error, incorrect syntax near '{near}'.");
    query_error(text, location, "SC1001", &cause)
}

pub(super) fn invalid_token(text: &str, location: Location) -> ServiceError {
    let token = text[location.clone()].to_owned();
    let cause = format!("Syntax error, invalid token '{token}'.");
    query_error(text, location, "SC1010", &cause)
}

/// Returns the error for an unterminated or invalid string.
pub(super) fn invalid_string(text: &str, start: usize) -> ServiceError {
    let token: String = text[start..].chars().take(40).collect();
    let cause = format!("Syntax error, invalid string literal token '{token}'.");
    query_error(text, start..start + token.len(), "SC1012", &cause)
}

pub(super) fn unknown_name(text: &str, location: Location, name: &str) -> ServiceError {
    let cause = format!("Identifier '{name}' could not be resolved.");
    query_error(text, location, "SC2001", &cause)
}

/// Returns the error for a sub-query with `ORDER BY` (azure-cosmos-dotnet-v3#1723). Every form is
/// refused: `ARRAY`, `EXISTS`, `FIRST`, `LAST`, scalar, and in FROM (vscode-cosmosdb#3148). `TOP` is not.
pub(super) fn order_by_in_subquery(text: &str, location: Location) -> ServiceError {
    let cause = "'ORDER BY' is not supported in subqueries.";
    query_error(text, location, "SC2202", cause)
}

/// Returns the error for a sub-query with `OFFSET` (azure-cosmos-dotnet-v3#1723, efcore#33968).
pub(super) fn offset_in_subquery(text: &str, location: Location) -> ServiceError {
    let cause = "'OFFSET LIMIT' clause is not supported in subqueries.";
    query_error(text, location, "SC2204", cause)
}

/// Returns an error whose code on the service is unknown.
pub(super) fn semantic(text: &str, location: Location, cause: &str) -> ServiceError {
    query_error(text, location, "SC2000", cause)
}

/// Rejects a text over the service's limit. A text has at least as many bytes as characters, so a short one
/// is not counted.
pub(super) fn check_length(text: &str) -> Result<(), ServiceError> {
    if text.len() <= MAX_TEXT || text.chars().count() <= MAX_TEXT {
        return Ok(());
    }
    let cause = format!("The SQL query text exceeded the maximum limit of {MAX_TEXT} characters.");
    Err(query_error(text, 0..text.len(), "SC3020", &cause))
}
