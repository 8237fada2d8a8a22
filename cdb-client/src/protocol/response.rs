//! An answer of the service: status, charge, headers, body.

use std::time::Duration;

use bytes::Bytes;
use cdb_model::ETag;
use http::{HeaderMap, HeaderName};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::error::{Error, ResponseStatus, Result};
use crate::protocol::{OperationResult, header};
use crate::transport::HttpResponse;

/// An answer to a request.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub status: ResponseStatus,
    /// Request units of this attempt.
    pub charge: f64,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The operation that failed an atomic batch. `status` is then the status of this operation.
    pub failed_operation: Option<FailedOperation>,
}

/// The operation that failed an atomic batch.
#[derive(Clone, Debug)]
pub(crate) struct FailedOperation {
    pub index: usize,
    message: Option<String>,
    retry_after: Option<Duration>,
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(default)]
    message: String,
}

impl Response {
    pub(crate) fn new(answer: HttpResponse) -> Self {
        let number = |name: HeaderName| text(&answer.headers, &name).and_then(|v| v.parse().ok());
        let sub = number(header::SUBSTATUS).unwrap_or(0);
        let charge = text(&answer.headers, &header::CHARGE)
            .and_then(|charge| charge.parse().ok())
            // An invalid charge would corrupt every sum.
            .filter(|charge: &f64| charge.is_finite() && *charge >= 0.0)
            .unwrap_or(0.0);
        Self {
            status: ResponseStatus::new(answer.status, sub),
            charge,
            headers: answer.headers,
            body: answer.body,
            failed_operation: None,
        }
    }

    /// Replaces the status of a failed atomic batch by that of the operation that failed it: the
    /// HTTP status only says that an operation failed.
    pub(crate) fn with_failed_operation_of_batch(mut self) -> Self {
        if !self.status.is_success() {
            return self;
        }
        let Ok(results) = self.json::<Vec<OperationResult>>() else {
            return self;
        };
        let failed_operation = OperationResult::failed_operation_of(&results);
        if let Some((index, result)) = failed_operation.and_then(|at| Some((at, results.get(at)?)))
        {
            self.status = result.status();
            self.failed_operation = Some(FailedOperation {
                index,
                message: result.message().map(str::to_owned),
                retry_after: result.retry_after(),
            });
        }
        self
    }

    /// Returns the value of a header, if it exists and is text.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        text(&self.headers, name)
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        if let Some(failed_operation) = &self.failed_operation {
            return failed_operation.retry_after;
        }
        let millis: f64 = self.header(&header::RETRY_AFTER_MS)?.parse().ok()?;
        let delay = Duration::try_from_secs_f64(millis / 1000.0).ok();
        // Zero asks for nothing: the client's own delays grow.
        delay.filter(|delay| !delay.is_zero())
    }

    /// Returns the new version of the written resource.
    ///
    /// # Errors
    /// [`ErrorKind::Protocol`](crate::ErrorKind::Protocol) when the answer has no ETag.
    pub(crate) fn etag(&self) -> Result<ETag> {
        self.header(&http::header::ETAG)
            .map(ETag::new)
            .ok_or_else(|| Error::protocol("answer has no ETag"))
    }

    pub(crate) fn continuation(&self) -> Option<String> {
        self.header(&header::CONTINUATION)
            .filter(|token| !token.is_empty())
            .map(str::to_owned)
    }

    /// Returns the body as text.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub(crate) fn text(&self) -> Result<&str> {
        std::str::from_utf8(&self.body)
            .map_err(|error| Error::protocol("answer is not UTF-8").with_source(error))
    }

    /// Reads the body as JSON.
    ///
    /// # Errors
    /// When the body is not JSON of this type.
    pub(crate) fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(unparsed)
    }

    /// Reads the body as JSON about the account, a container or its ranges. A member that is null
    /// counts as missing: tools of Azure write null for what a container does not use, and no source
    /// says that the service does not.
    ///
    /// # Errors
    /// When the body is not JSON of this type.
    pub(crate) fn metadata<T: DeserializeOwned>(&self) -> Result<T> {
        without_nulls(self.json::<Value>()?).map_err(unparsed)
    }

    /// Returns the service's error message in one line.
    pub(crate) fn message(&self) -> String {
        if let Some(failed_operation) = &self.failed_operation {
            let message = failed_operation.message.as_deref();
            return message.map_or_else(|| "batch was rolled back".to_owned(), one_line);
        }
        let message = match serde_json::from_slice::<ErrorBody>(&self.body) {
            Ok(body) if !body.message.is_empty() => body.message,
            _ => String::from_utf8_lossy(&self.body).into_owned(),
        };
        one_line(&message)
    }
}

fn unparsed(error: serde_json::Error) -> Error {
    Error::protocol(format!("answer cannot be parsed: {error}")).with_source(error)
}

/// Reads a value whose members that are null count as missing.
pub(crate) fn without_nulls<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let mut value = Value::deserialize(deserializer)?;
    remove_nulls(&mut value);
    serde_json::from_value(value).map_err(D::Error::custom)
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(remove_nulls);
        }
        _ => {}
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the first line. The others contain an activity id, which the error shows already.
fn one_line(message: &str) -> String {
    const LONGEST: usize = 400;
    let line = message.lines().next().unwrap_or("").trim();
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => "no reason given".to_owned(),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn an_invalid_charge_counts_as_zero() {
        for (text, charge) in [
            ("2.5", 2.5),
            ("NaN", 0.0),
            ("inf", 0.0),
            ("-3", 0.0),
            ("a lot", 0.0),
        ] {
            let headers = HeaderMap::from_iter([(header::CHARGE, HeaderValue::from_static(text))]);
            let answer = HttpResponse {
                status: 200,
                headers,
                body: Bytes::new(),
            };
            let read = Response::new(answer).charge;
            assert!((read - charge).abs() < f64::EPSILON, "{text}: {read}");
        }
    }
}
