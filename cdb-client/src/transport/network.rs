//! The transport over the network: reqwest, HTTP/1.1 with persistent connections.
//!
//! Only this module configures connections. Certificates are checked against the system's
//! trust store. Redirects are not followed, because the signature covers the resource. Proxies from
//! the environment are not used, because signed requests would pass through them unnoticed.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use reqwest::Url;

use crate::error::{Error, Result};
use crate::transport::tls::{self, ServerProof, is_untrusted};
use crate::transport::{Delivery, HttpRequest, HttpResponse, Transport, TransportError};

/// Azure's load balancer closes idle connections after about four minutes.
const IDLE_CONNECTION: Duration = Duration::from_secs(120);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest body that is read. The service's limit is 4 MB (concepts-limits, "maximum response
/// size"), and JSON escapes can make that six times as long.
const LONGEST_ANSWER: usize = 32 * 1024 * 1024;

/// Connections to one account.
#[derive(Debug)]
pub(crate) struct Network {
    proof: ServerProof,
    /// Idle connections that are kept per host.
    idle: usize,
    client: RwLock<reqwest::Client>,
}

impl Network {
    /// Prepares connections without opening one.
    ///
    /// # Errors
    /// When the system has no usable trust store.
    pub(crate) fn new(proof: ServerProof, idle: usize) -> Result<Self> {
        let client = RwLock::new(pool(proof, idle)?);
        Ok(Self {
            proof,
            idle,
            client,
        })
    }

    fn client(&self) -> reqwest::Client {
        let client = self.client.read();
        client.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Creates an empty pool of connections.
fn pool(proof: ServerProof, idle: usize) -> Result<reqwest::Client> {
    tls::configure(reqwest::Client::builder(), proof)?
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .retry(reqwest::retry::never())
        .tcp_nodelay(true)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_CONNECTION)
        .pool_max_idle_per_host(idle)
        .build()
        .map_err(|error| Error::configuration("HTTP client cannot be created").with_source(error))
}

#[async_trait]
impl Transport for Network {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let url = exact_url(&request.url)?;
        let mut outgoing = reqwest::Request::new(request.method, url);
        *outgoing.headers_mut() = request.headers;
        if !request.body.is_empty() {
            *outgoing.body_mut() = Some(request.body.into());
        }
        let response = self.client().execute(outgoing).await.map_err(failed)?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = body(response, LONGEST_ANSWER).await?;
        Ok(HttpResponse {
            status,
            headers,
            body,
        })
    }

    fn reconnect(&self) {
        match pool(self.proof, self.idle) {
            Ok(pool) => *self.client.write().unwrap_or_else(PoisonError::into_inner) = pool,
            Err(error) => tracing::warn!(%error, "connections are kept"),
        }
    }
}

/// Reads a body of at most `longest` bytes, whatever length the server announces.
async fn body(mut response: reqwest::Response, longest: usize) -> Result<Bytes, TransportError> {
    let too_long = || TransportError {
        delivery: Delivery::TooLong,
        message: format!("answer is longer than {longest} bytes; request smaller pages"),
        source: None,
    };
    let announced = response.content_length().unwrap_or(0);
    if usize::try_from(announced).is_ok_and(|length| length > longest) {
        return Err(too_long());
    }
    // Most answers arrive in one chunk, which needs no copy.
    let first = response.chunk().await.map_err(failed)?.unwrap_or_default();
    let mut rest = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        if rest.is_empty() {
            rest.extend_from_slice(&first);
        }
        rest.extend_from_slice(&piece);
        if rest.len() > longest {
            return Err(too_long());
        }
    }
    match rest.is_empty() {
        true if first.len() > longest => Err(too_long()),
        true => Ok(first),
        false => Ok(rest.freeze()),
    }
}

/// Parses `url` and refuses it when parsing changed anything: a normalized path would name another
/// item.
fn exact_url(url: &str) -> Result<Url, TransportError> {
    let refused = |message: String| TransportError {
        delivery: Delivery::NotSent,
        message,
        source: None,
    };
    let parsed =
        Url::parse(url).map_err(|error| refused(format!("`{url}` is not a URL: {error}")))?;
    if parsed.as_str() == url {
        Ok(parsed)
    } else {
        Err(refused(format!("`{url}` would be sent as `{parsed}`")))
    }
}

fn failed(error: reqwest::Error) -> TransportError {
    // Only a failure before the connection exists proves that the service did not receive the
    // request.
    let delivery = if error.is_connect() || error.is_builder() {
        Delivery::NotSent
    } else {
        Delivery::Unknown
    };
    let host = error
        .url()
        .and_then(Url::host_str)
        .unwrap_or_default()
        .to_owned();
    let error = error.without_url();
    let message = innermost(&error);
    if delivery == Delivery::NotSent && is_untrusted(&error) {
        return TransportError {
            delivery: Delivery::Untrusted,
            message: format!(
                "certificate of `{host}` is not trusted ({message}); install its certificate authority on this system, or, \
                 for an emulator on this machine, accept invalid certificates on loopback"
            ),
            source: Some(Box::new(error)),
        };
    }
    TransportError {
        delivery,
        message,
        source: Some(Box::new(error)),
    }
}

/// Returns the text of the innermost source: reqwest's own text is only "error sending request".
fn innermost(error: &reqwest::Error) -> String {
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_url_that_parsing_would_change_is_refused() {
        for exact in [
            "http://127.0.0.1:8081/dbs/d/colls/c/docs/a%2Fb",
            "http://127.0.0.1:8081/dbs/d/colls/c/docs/..%2520",
            "https://x.documents.azure.com/dbs/d/colls/c/docs/a~b%3Ac",
        ] {
            assert_eq!(exact_url(exact).unwrap().as_str(), exact);
        }
        let error = exact_url("http://127.0.0.1:8081/dbs/d/../e").unwrap_err();
        assert_eq!(error.delivery, Delivery::NotSent);
        assert!(error.message.contains("would be sent as"), "{error}");
    }

    #[tokio::test]
    async fn a_request_on_a_refused_connection_was_not_sent() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/dbs", listener.local_addr().unwrap());
        drop(listener);
        let error = get(ServerProof::None, url).await.unwrap_err();
        assert_eq!(error.delivery, Delivery::NotSent);
        assert!(error.to_string().contains("refused"), "{error}");
    }

    #[tokio::test]
    async fn a_connection_closed_without_an_answer_has_an_unknown_outcome() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/dbs", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            stream.readable().await.unwrap();
        });
        let error = Network::new(ServerProof::None, 1)
            .unwrap()
            .send(HttpRequest {
                method: http::Method::POST,
                url,
                headers: http::HeaderMap::new(),
                body: Bytes::from_static(b"{}"),
            })
            .await
            .unwrap_err();
        server.await.unwrap();
        assert_eq!(error.delivery, Delivery::Unknown, "{error}");
    }

    /// Starts a server with a self-signed certificate that answers one request with 200. Returns
    /// its URL.
    async fn self_signed_server() -> String {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key =
            rustls::pki_types::PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![signed.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/dbs", listener.local_addr().unwrap());
        tokio::spawn(async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate closes the connection here.
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            let mut first_byte = [0];
            stream.read_exact(&mut first_byte).await.unwrap();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
        });
        url
    }

    async fn get(proof: ServerProof, url: String) -> Result<HttpResponse, TransportError> {
        let request = HttpRequest {
            method: http::Method::GET,
            url,
            headers: http::HeaderMap::new(),
            body: Bytes::new(),
        };
        Network::new(proof, 1).unwrap().send(request).await
    }

    #[tokio::test]
    async fn a_self_signed_certificate_is_refused_unless_any_certificate_is_accepted() {
        let url = self_signed_server().await;
        let error = get(ServerProof::TrustedCertificate, url).await.unwrap_err();
        assert_eq!(error.delivery, Delivery::Untrusted);
        let text = error.to_string();
        assert!(
            text.contains("certificate of `127.0.0.1` is not trusted"),
            "{text}"
        );
        let url = self_signed_server().await;
        assert_eq!(
            get(ServerProof::AnyCertificate, url).await.unwrap().status,
            200
        );
    }

    /// Starts a server that answers one request with these bytes and closes the connection. Returns
    /// its URL.
    async fn server_that_sends(answer: Vec<u8>) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/dbs", listener.local_addr().unwrap());
        tokio::spawn(async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut first_byte = [0];
            stream.read_exact(&mut first_byte).await.unwrap();
            // A client that refuses the length closes the connection before the end.
            let _closed = stream.write_all(&answer).await;
        });
        url
    }

    async fn body_of(answer: Vec<u8>, longest: usize) -> Result<Bytes, TransportError> {
        let url = server_that_sends(answer).await;
        let network = Network::new(ServerProof::None, 1).unwrap();
        let response = network.client().get(url).send().await.unwrap();
        body(response, longest).await
    }

    fn chunked(pieces: usize, size: usize) -> Vec<u8> {
        let mut answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        for _ in 0..pieces {
            answer.extend_from_slice(format!("{size:x}\r\n{}\r\n", "x".repeat(size)).as_bytes());
        }
        answer.extend_from_slice(b"0\r\n\r\n");
        answer
    }

    #[tokio::test]
    async fn an_answer_is_read_up_to_the_limit() {
        assert_eq!(body_of(chunked(4, 1000), 4000).await.unwrap().len(), 4000);
        assert_eq!(body_of(chunked(0, 0), 4000).await.unwrap().len(), 0);
        for too_long in [
            chunked(5, 1000),
            chunked(1, 4001),
            // Refused by its content length, before the body is read.
            b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n".to_vec(),
        ] {
            let error = body_of(too_long, 4000).await.unwrap_err();
            assert_eq!(error.delivery, Delivery::TooLong);
            assert!(error.to_string().contains("smaller pages"), "{error}");
        }
    }
}
