//! The result of one operation of a batch or bulk request.

use std::time::Duration;

use cdb_model::container::MemberOf;
use cdb_model::stored::decode;
use cdb_model::{Container, ETag, Stored};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, ResponseStatus, Result};

/// The result of one operation of a batch or bulk.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationResult {
    status_code: u16,
    // The official clients disagree on the case of this name.
    #[serde(default, alias = "substatusCode")]
    sub_status_code: u32,
    #[serde(default)]
    request_charge: f64,
    #[serde(default)]
    e_tag: Option<ETag>,
    #[serde(default)]
    resource_body: Option<Box<RawValue>>,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    retry_after_milliseconds: Option<f64>,
}

impl OperationResult {
    /// Returns the status of this operation.
    pub fn status(&self) -> ResponseStatus {
        ResponseStatus::new(self.status_code, self.sub_status_code)
    }

    /// Returns the request units of this operation; 0 when the service does not report them.
    pub fn charge(&self) -> f64 {
        self.request_charge
    }

    /// Returns the new version of the item; `None` after a deletion.
    pub fn etag(&self) -> Option<&ETag> {
        self.e_tag.as_ref()
    }

    /// Returns the item that a read found; `None` for a write.
    ///
    /// # Errors
    /// When the item is not a `D`.
    pub fn document<C: Container, D: MemberOf<C>>(&self) -> Result<Option<Stored<D>>> {
        self.resource_body
            .as_deref()
            .filter(|body| body.get() != "null")
            .map(|body| decode::<C, D>(body.get()).map_err(Error::decode))
            .transpose()
    }

    pub(crate) fn message(&self) -> Option<&str> {
        self.message
            .as_deref()
            .filter(|message| !message.is_empty())
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let millis = self
            .retry_after_milliseconds
            .filter(|&millis| millis > 0.0)?;
        Duration::try_from_secs_f64(millis / 1000.0).ok()
    }

    /// Returns the index of the operation that failed an atomic batch: the first failure that is
    /// not 424, the status of the operations that were rolled back or not executed.
    pub(crate) fn failed_operation_of(results: &[Self]) -> Option<usize> {
        let failed = |result: &Self| result.status_code >= 400;
        results
            .iter()
            .position(|result| failed(result) && result.status_code != 424)
            .or_else(|| results.iter().position(failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(codes: &[u16]) -> Vec<OperationResult> {
        let parts: Vec<String> = codes
            .iter()
            .map(|code| format!("{{\"statusCode\":{code}}}"))
            .collect();
        serde_json::from_str(&format!("[{}]", parts.join(","))).unwrap()
    }

    #[test]
    fn the_culprit_is_the_first_failure_that_is_not_424() {
        let failed_operation =
            |codes: &[u16]| OperationResult::failed_operation_of(&results(codes));
        assert_eq!(failed_operation(&[424, 424, 404, 424]), Some(2));
        assert_eq!(failed_operation(&[412, 424]), Some(0));
        assert_eq!(failed_operation(&[201, 200, 304, 204]), None);
        assert_eq!(failed_operation(&[424, 424]), Some(0));
    }

    #[test]
    fn both_spellings_of_the_sub_status_are_accepted() {
        for name in ["subStatusCode", "substatusCode"] {
            let json = format!("{{\"statusCode\":409,\"{name}\":3301,\"eTag\":\"\\\"a\\\"\"}}");
            let result: OperationResult = serde_json::from_str(&json).unwrap();
            assert_eq!(result.status(), ResponseStatus::UNIQUE_KEY_TAKEN);
            assert_eq!(result.etag().unwrap().as_str(), "\"a\"");
        }
    }
}
