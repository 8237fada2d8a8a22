//! A request as the server received it.

use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::error::ServiceError;
use crate::observe::OperationKind;
use crate::route::{self, Resource, header};

/// A request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The region whose endpoint received the request; `None` for the global endpoint.
    pub(crate) region: Option<usize>,
    /// Whether a listing of physical partitions is that before the last split, because of a fault.
    pub(crate) stale_ranges: bool,
}

impl Request {
    /// Returns the kind of operation, judged by path, method and headers.
    pub(crate) fn kind(&self) -> OperationKind {
        Resource::parse(&self.path).map_or(OperationKind::Metadata, |resource| {
            route::kind(&self.method, &resource, &self.headers)
        })
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
