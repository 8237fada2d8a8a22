//! A request as the server received it.

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde::de::DeserializeOwned;

use super::error::ServiceError;
use super::operation::OperationKind;
use super::route::{self, Resource, flag, header, is_plan_request, is_query};

/// Which region a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Any,
    /// A region that accepts writes: each one, if the account has several write regions.
    Writable,
    /// The region that accepts the writes of this physical partition, or of the account.
    Hub,
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The path; empty for a request that the Explorer makes.
    pub(crate) path: String,
    /// What the path names.
    pub(crate) resource: Resource,
    /// The kind of operation, judged by resource, method and headers.
    pub(crate) kind: OperationKind,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The region whose endpoint received the request; `None` for the global endpoint.
    pub(crate) region: Option<usize>,
    /// Whether a listing of physical partitions is that before the last split, because of a fault.
    pub(crate) stale_ranges: bool,
}

impl Request {
    /// Returns a request without a body that arrived at the global endpoint.
    pub(crate) fn new(method: Method, path: &str, headers: HeaderMap) -> Self {
        Self {
            path: path.to_owned(),
            ..Self::of(Resource::parse(path), method, headers)
        }
    }

    /// Returns a request for a resource, without a body.
    pub(crate) fn of(resource: Resource, method: Method, headers: HeaderMap) -> Self {
        Self {
            kind: route::kind(&method, &resource, &headers),
            method,
            path: String::new(),
            resource,
            headers,
            body: Bytes::new(),
            region: None,
            stale_ranges: false,
        }
    }

    /// Parses the body as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, ServiceError> {
        serde_json::from_slice(&self.body).map_err(ServiceError::invalid_payload)
    }

    /// Returns which region accepts this request.
    ///
    /// With several write regions, a write without the header goes to the first one only
    /// (azure_data_cosmos_driver `operation_pipeline.rs`, `apply_tentative_writes_header`), and so
    /// do changes of databases and containers. A read with the header of hub regions is refused by
    /// others (azure-cosmos-dotnet-v3 `ClientRetryPolicy.cs`: "Received 403.3").
    pub(crate) fn needs(&self) -> Needs {
        let is_metadata = self.kind == OperationKind::Metadata;
        if self.is_write() {
            let tentative = flag(&self.headers, "x-ms-cosmos-allow-tentative-writes");
            return if tentative && !is_metadata {
                Needs::Writable
            } else {
                Needs::Hub
            };
        }
        let of_hub = flag(&self.headers, "x-ms-cosmos-hub-region-processing-only");
        if of_hub && !is_metadata {
            Needs::Writable
        } else {
            Needs::Any
        }
    }

    /// Returns whether this is a write.
    fn is_write(&self) -> bool {
        let headers = &self.headers;
        match self.kind {
            OperationKind::Read | OperationKind::Query | OperationKind::Feed => false,
            OperationKind::Metadata => {
                let reads =
                    self.method == Method::POST && (is_query(headers) || is_plan_request(headers));
                self.method != Method::GET && !reads
            }
            _ => true,
        }
    }

    /// Returns the maximum page size that the caller set; `None` when the service chooses.
    pub(crate) fn page_size(&self) -> Result<Option<usize>, ServiceError> {
        let Some(text) = header(&self.headers, "x-ms-max-item-count") else {
            return Ok(None);
        };
        match text.trim().parse::<i128>() {
            Ok(-1) => Ok(None),
            Ok(count) if count > 0 => Ok(Some(usize::try_from(count).unwrap_or(usize::MAX))),
            _ => Err(ServiceError::bad_request(format!(
                "The value '{text}' specified for the header 'x-ms-max-item-count' is invalid. It has to be a positive \
                 number, or -1."
            ))),
        }
    }
}
