//! What the client asks of a network: send these bytes, bring back those.
//!
//! A transport never retries, never follows redirects, and says of a failure the one thing that decides about
//! repeating a write: whether the service can have seen the request.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method};

/// Sends one HTTP request.
///
/// ```
/// use cdb_client::{Delivery, HttpRequest, HttpResponse, Transport, TransportError};
///
/// /// A network that is down.
/// #[derive(Debug)]
/// struct Down;
///
/// #[async_trait::async_trait]
/// impl Transport for Down {
///     async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
///         Err(TransportError {
///             delivery: Delivery::NotSent,
///             message: format!("no way to {}", request.url),
///             source: None,
///         })
///     }
/// }
/// ```
#[async_trait]
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// Sends `request` once and reads the whole answer. The caller bounds the time by dropping the future.
    ///
    /// # Errors
    /// When there is no whole answer, see [`TransportError::delivery`].
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError>;
}

/// A request as it goes out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// Absolute; the path is already percent-encoded and must arrive as it is.
    pub url: String,
    /// All headers except those of the connection itself. The authorization is marked sensitive.
    pub headers: HeaderMap,
    /// The body, possibly empty.
    pub body: Bytes,
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// Whether the service can have seen a request that got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// It certainly has not: name resolution, connection or TLS failed.
    NotSent,
    /// It certainly has not, and sending again changes nothing: the server's certificate is not trusted.
    Untrusted,
    /// It may have, and may have acted on it.
    Unknown,
    /// It has answered, with more than a client takes in. Asking again would bring the same.
    TooLong,
}

/// No whole answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    /// Whether the request can have arrived.
    pub delivery: Delivery,
    /// Lower case, no full stop.
    pub message: String,
    /// What the network said.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}
