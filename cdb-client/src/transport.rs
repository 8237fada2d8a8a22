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
/// use cdb_client::{Delivery, HttpRequest, HttpResponse, Transport, TransportError, async_trait};
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
///
/// ```
/// use cdb_client::{HttpRequest, HttpResponse, Transport, TransportError, async_trait, bytes::Bytes, http};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{OrderKey, shop_over};
/// # tokio::runtime::Runtime::new()?.block_on(async {
///
/// /// An account without documents, whoever asks.
/// #[derive(Debug)]
/// struct Empty;
///
/// #[async_trait]
/// impl Transport for Empty {
///     async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
///         assert_eq!(request.method, http::Method::GET);
///         assert!(request.url.ends_with("/dbs/shop/colls/orders/docs/ann%3Aorder%3A1"));
///         assert!(request.headers[http::header::AUTHORIZATION].is_sensitive());
///         let (headers, body) = (http::HeaderMap::new(), Bytes::new());
///         Ok(HttpResponse { status: 404, headers, body })
///     }
/// }
///
/// assert!(shop_over(Empty)?.read(&OrderKey::new("ann", 1_u64)).await?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// use cdb_client::{HttpRequest, HttpResponse, Transport, TransportError, async_trait, bytes::Bytes, http};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{OrderKey, shop_over};
/// # tokio::runtime::Runtime::new()?.block_on(async {
///
/// /// Always gives the same answer.
/// #[derive(Debug)]
/// struct Same(HttpResponse);
///
/// #[async_trait]
/// impl Transport for Same {
///     async fn send(&self, _: HttpRequest) -> Result<HttpResponse, TransportError> {
///         Ok(self.0.clone())
///     }
/// }
///
/// let mut headers = http::HeaderMap::new();
/// headers.insert("x-ms-request-charge", http::HeaderValue::from_static("2.5"));
/// let refusal = HttpResponse { status: 403, headers, body: Bytes::from(r#"{"message":"not you"}"#) };
///
/// let error = shop_over(Same(refusal))?.delete(&OrderKey::new("ann", 1_u64)).await.unwrap_err();
/// assert!(error.to_string().contains("not you"));
/// assert_eq!(error.call().map(|call| call.charge), Some(5.0)); // signed anew and sent twice
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// use cdb_client::{Delivery, HttpRequest, HttpResponse, Transport, TransportError, async_trait};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{order, shop_over};
/// # tokio::runtime::Runtime::new()?.block_on(async {
///
/// /// Loses every answer.
/// #[derive(Debug)]
/// struct Lossy;
///
/// #[async_trait]
/// impl Transport for Lossy {
///     async fn send(&self, _: HttpRequest) -> Result<HttpResponse, TransportError> {
///         let (delivery, message) = (Delivery::Unknown, "connection was reset".to_owned());
///         Err(TransportError { delivery, message, source: None })
///     }
/// }
///
/// let error = shop_over(Lossy)?.create(&order(1)).await.unwrap_err();
/// assert!(error.is_ambiguous()); // after `NotSent` it would have been sent again
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
///
/// ```
/// use cdb_client::{Delivery, TransportError};
///
/// // What a transport makes of a failure, here of one while it waited for the answer.
/// let lost = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
/// let error = TransportError {
///     delivery: Delivery::Unknown,
///     message: format!("no answer: {lost}"),
///     source: Some(lost.into()),
/// };
/// assert_eq!(error.to_string(), "no answer: connection reset");
/// ```
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
