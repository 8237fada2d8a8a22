//! The errors of scripts in the service's form.

use rquickjs::{Ctx, Function, Object};
use serde::Deserialize;
use serde_json::json;

use crate::error::ServiceError;

/// An exception that a script did not catch, as the driver describes it.
#[derive(Debug, Deserialize)]
struct Exception {
    text: String,
    /// The stack without the frames of the API.
    frames: Vec<String>,
    /// The number of `new Error(number, message)`, or of the error of an operation.
    number: i64,
}

/// Returns the error for the pending exception. Its sub-status is the number of the exception, as on
/// the service (microsoft/fhir-server#449); form: azure-cosmos-dotnet-v2#518.
pub(super) fn uncaught<'js>(ctx: &Ctx<'js>, driver: &Object<'js>) -> ServiceError {
    let thrown = ctx.catch();
    let described = driver
        .get::<_, Function<'_>>("describe")
        .and_then(|describe| describe.call::<_, String>((thrown,)));
    // The description fails if the script exhausted the memory, or threw what has no text.
    let exception = described
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok());
    let Exception {
        text,
        frames,
        number,
    } = exception.unwrap_or(Exception {
        text: "the script failed without a readable exception".to_owned(),
        frames: Vec::new(),
        number: 0,
    });
    let frames: String = frames.iter().flat_map(|frame| ["\n", frame]).collect();
    let cause = format!(
        "Encountered exception while executing function. Exception = {text}\r\nStack trace: {text}{frames}"
    );
    let mut error = failed(&cause);
    error.substatus = u32::try_from(number).unwrap_or_default();
    error
}

/// Returns the error for a script that fails for this cause.
pub(super) fn failed(cause: &str) -> ServiceError {
    ServiceError::bad_request(format!("Message: {}", json!({ "Errors": [cause] })))
}

/// Returns the error for a script that took too much time: "the stored procedure, trigger, or UDF
/// (within a query) does not complete execution within the maximum execution time"
/// (http-status-codes-for-cosmosdb, 408).
pub(super) fn timed_out() -> ServiceError {
    let message = "The script exceeded the maximum execution time.";
    ServiceError::new(408, 0, "RequestTimeout", message)
}
