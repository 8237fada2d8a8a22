//! A request before it is sent: operation, resource, headers, body, and whether it may be repeated.

use bytes::Bytes;
use cdb_model::value::AnyPartitionKey;
use cdb_model::{ETag, PartitionKey};
use http::header::{CONTENT_TYPE, IF_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::error::{Error, RequestKind, Result};
use crate::partitions::{EpkPart, PhysicalPartitionId, SessionScope};
use crate::protocol::{Repeat, Resource, Route, header};

/// The content type of a document, and of a definition.
pub(crate) const JSON: &str = "application/json";

/// A request, ready for any number of attempts.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub kind: RequestKind,
    pub method: Method,
    pub resource: Resource,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub repeat: Repeat,
    pub session: SessionScope,
    /// The logical partition, if the request names one.
    pub partition: Option<PartitionKey>,
}

impl Request {
    /// Creates a request without body and session token. Only a read may be repeated after an
    /// unknown outcome.
    pub(crate) fn new(kind: RequestKind, method: Method, resource: Resource) -> Self {
        Self {
            kind,
            method,
            resource,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            repeat: if kind.is_read() {
                Repeat::Always
            } else {
                Repeat::IfNotExecuted
            },
            session: SessionScope::None,
            partition: None,
        }
    }

    /// Creates the request for the account document.
    pub(crate) fn for_account() -> Self {
        Self::new(RequestKind::ReadAccount, Method::GET, Resource::account())
    }

    pub(crate) fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }

    pub(crate) fn session(mut self, session: SessionScope) -> Self {
        self.session = session;
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// Adds a header with a value from data.
    ///
    /// # Errors
    /// When `value` contains characters that a header cannot.
    pub(crate) fn header_value(mut self, name: HeaderName, value: &str) -> Result<Self> {
        let value = HeaderValue::from_str(value).map_err(|_| {
            Error::configuration(format!(
                "value of `{name}` contains characters that a header cannot"
            ))
        })?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Addresses a logical partition.
    ///
    /// # Errors
    /// When the key has an integer that the service rounds, or a value that is too long.
    pub(crate) fn in_partition(mut self, key: &PartitionKey) -> Result<Self> {
        if !key.is_exact() {
            return Err(Error::configuration(format!(
                "partition key {key} has an integer beyond ±(2^53 - 1), where the service rounds integers; use a string"
            )));
        }
        key.check_length().map_err(Error::key_too_long)?;
        self.partition = Some(key.clone());
        self.header_value(header::PARTITION_KEY, &key.to_header())
    }

    /// Addresses the partition of a document of any program. One that no document of a model can have
    /// is not located.
    ///
    /// # Errors
    /// When the key has a value that is too long.
    pub(crate) fn in_any_partition(mut self, key: &AnyPartitionKey) -> Result<Self> {
        key.check_length().map_err(Error::key_too_long)?;
        self.partition = key.known().cloned();
        self.header_value(header::PARTITION_KEY, key.to_header())
    }

    pub(crate) fn in_range(self, range: &str) -> Result<Self> {
        self.header_value(header::RANGE_ID, range)
    }

    /// Addresses a part of a physical partition. Without the type, the service ignores or refuses the
    /// bounds. They are left out for a whole physical partition, with which the gateway refuses them
    /// (azure-cosmos-dotnet-v3 `RequestInvokerHandler.cs`, azure_data_cosmos_driver
    /// `operation_pipeline.rs`).
    pub(crate) fn in_part(
        self,
        range: &PhysicalPartitionId,
        part: Option<&EpkPart>,
    ) -> Result<Self> {
        let request = self.in_range(range.as_str())?;
        let Some(EpkPart { min, max }) = part else {
            return Ok(request);
        };
        request
            .header(header::READ_KEY_TYPE, "EffectivePartitionKeyRange")
            .header_value(header::START_EPK, &min.to_string())?
            .header_value(header::END_EPK, &max.to_string())
    }

    pub(crate) fn if_match(self, etag: &ETag) -> Result<Self> {
        self.header_value(IF_MATCH, etag.as_str())
    }

    /// Sets the body and its type. The type has no charset: the service refuses it on queries.
    pub(crate) fn body(self, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let mut request = self.header(CONTENT_TYPE, content_type);
        request.body = body.into();
        request
    }

    pub(crate) fn json<T: serde::Serialize + ?Sized>(
        self,
        content_type: &'static str,
        value: &T,
    ) -> Result<Self> {
        let body = serde_json::to_vec(value).map_err(Error::encode)?;
        Ok(self.body(content_type, body))
    }

    /// Returns which regions can serve the request. Only the write region knows the latest committed
    /// state, and a container that was just created.
    pub(crate) fn route(&self) -> Route {
        if self.kind == RequestKind::ReadAccount {
            Route::Account
        } else if self.kind.is_metadata() {
            Route::Metadata
        } else if self.kind.is_read() && !self.reads_latest() {
            Route::Read
        } else {
            Route::Write
        }
    }

    /// Whether the request reads the latest committed state. It then carries no session token: a
    /// quorum knows everything that the session has seen, and a token of a lagging range would only
    /// cause 404/1002 (azure_data_cosmos_driver, `ReadConsistencyStrategy::is_session_effective`).
    pub(crate) fn reads_latest(&self) -> bool {
        self.headers.contains_key(header::READ_CONSISTENCY)
    }

    /// Returns the physical partition that the request names; the caller has to handle its split.
    pub(crate) fn range(&self) -> Option<&str> {
        self.headers.get(header::RANGE_ID)?.to_str().ok()
    }
}
