//! The trait that sends HTTP requests.
//!
//! A transport never retries and never follows redirects. For a failure, it reports whether the
//! service can have received the request, which decides whether a write may be repeated.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method};

/// Sends one HTTP request.
///
/// ```
/// use cdb_client::transport::{
///     Delivery, HttpRequest, HttpResponse, Transport, TransportError, async_trait,
/// };
///
/// /// A network that is down.
/// #[derive(Debug)]
/// struct Down;
///
/// #[async_trait]
/// impl Transport for Down {
///     async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
///         Err(TransportError {
///             delivery: Delivery::NotSent,
///             message: format!("no route to {}", request.url),
///             source: None,
///         })
///     }
/// }
/// ```
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends `request` once and reads the whole answer. The caller limits the time by dropping the
    /// future.
    ///
    /// # Errors
    /// When no complete answer arrives, see [`TransportError::delivery`].
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError>;

    /// Drops idle connections, so that the next request resolves the host name again. Requests in
    /// flight continue. Called when a region refuses the account or its writes.
    fn reconnect(&self) {}
}

/// An outgoing request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// The absolute URL. The path is percent-encoded and must arrive unchanged.
    pub url: String,
    /// All headers except those of the connection itself. The authorization is marked sensitive.
    pub headers: HeaderMap,
    /// The body, possibly empty.
    pub body: Bytes,
}

/// An incoming answer.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// Whether the service can have received a request that got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// The request was not sent: name resolution, connection or TLS failed.
    NotSent,
    /// The request was not sent because the server's certificate is not trusted. A retry would fail
    /// too.
    Untrusted,
    /// The service may have received and executed the request.
    Unknown,
    /// The service answered, but the answer exceeds the client's limit. A retry would fail too.
    TooLong,
}

/// Why no complete answer arrived.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    /// Whether the service can have received the request.
    pub delivery: Delivery,
    /// The message, in lower case, without a full stop.
    pub message: String,
    /// The error of the network.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}
