//! The real network: reqwest over rustls, HTTP/1.1 with connections kept open.
//!
//! The only place that configures TLS and connections. Certificates are checked against the system's trust store.
//! Redirects and proxies from the environment are off: a data service that redirects is not the one that was meant, and
//! a signed request has no business at a proxy nobody chose.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use reqwest::Url;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::error::{Error, Result};
use crate::loopback_certificate::AnyCertificate;
use crate::transport::{Delivery, HttpRequest, HttpResponse, Transport, TransportError};

/// Azure's load balancer cuts idle connections after about four minutes.
const IDLE_CONNECTION: Duration = Duration::from_secs(120);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest answer that is taken in. The service's limit is 4 MB (concepts-limits, "maximum response size"), which
/// JSON's escapes can make six times as long.
const LONGEST_ANSWER: usize = 32 * 1024 * 1024;

/// How the server has to prove who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerProof {
    /// Plain HTTP, for emulators.
    None,
    /// A certificate that the system trusts.
    TrustedCertificate,
    /// Any certificate. The configuration grants it to loopback hosts alone.
    AnyCertificate,
}

/// Connections to one account.
#[derive(Debug)]
pub(crate) struct Network {
    client: reqwest::Client,
}

impl Network {
    /// Prepares connections; nothing is opened yet.
    ///
    /// # Errors
    /// When the system has no usable trust store.
    pub(crate) fn new(proof: ServerProof) -> Result<Self> {
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(proof)?)
            .tls_danger_accept_invalid_certs(proof == ServerProof::AnyCertificate)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .retry(reqwest::retry::never())
            .tcp_nodelay(true)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_CONNECTION)
            .build()
            .map_err(|error| {
                Error::configuration("HTTP client cannot be set up").with_source(error)
            })?;
        Ok(Self { client })
    }
}

/// rustls with ring: the default of rustls needs cmake and minutes of compiling for the same ciphers.
fn tls(proof: ServerProof) -> Result<ClientConfig> {
    let broken =
        |error: rustls::Error| Error::configuration("TLS cannot be set up").with_source(error);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(broken)?;
    Ok(match proof {
        ServerProof::TrustedCertificate => builder
            .with_platform_verifier()
            .map_err(|error| {
                Error::configuration(
                    "system trusts no certificate authority; install its CA certificates",
                )
                .with_source(error)
            })?
            .with_no_client_auth(),
        ServerProof::None => builder
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth(),
        ServerProof::AnyCertificate => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate::new(provider)))
            .with_no_client_auth(),
    })
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
        let response = self.client.execute(outgoing).await.map_err(failed)?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = body(response, LONGEST_ANSWER).await?;
        Ok(HttpResponse {
            status,
            headers,
            body,
        })
    }
}

/// Reads a body of at most `longest` bytes. What the server announces is not believed.
async fn body(mut response: reqwest::Response, longest: usize) -> Result<Bytes, TransportError> {
    let too_long = || TransportError {
        delivery: Delivery::TooLong,
        message: format!("answer is longer than {longest} bytes; ask for smaller pages"),
        source: None,
    };
    let announced = response.content_length().unwrap_or(0);
    if usize::try_from(announced).is_ok_and(|length| length > longest) {
        return Err(too_long());
    }
    // Most answers come in one piece, which needs no copy.
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

/// Parses `url` and refuses it when parsing changed anything: a tidied path would name another item.
fn exact_url(url: &str) -> Result<Url, TransportError> {
    let refused = |message: String| TransportError {
        delivery: Delivery::NotSent,
        message,
        source: None,
    };
    let parsed = Url::parse(url).map_err(|error| refused(format!("`{url}` is no URL: {error}")))?;
    if parsed.as_str() == url {
        Ok(parsed)
    } else {
        Err(refused(format!("`{url}` would be sent as `{parsed}`")))
    }
}

fn failed(error: reqwest::Error) -> TransportError {
    // Only what happens before a connection stands is certain not to have reached the service.
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
                "certificate of `{host}` is not trusted ({message}); install the authority that signed it on this system, or, \
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

/// reqwest's own text says only "error sending request"; the reason is at the end of the chain.
fn innermost(error: &reqwest::Error) -> String {
    let mut reason: &dyn std::error::Error = error;
    while let Some(source) = reason.source() {
        reason = source;
    }
    reason.to_string()
}

/// Whether the server's certificate was the reason. `source` of an I/O error skips the error that it wraps.
fn is_untrusted(error: &reqwest::Error) -> bool {
    let mut reason: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = reason {
        let wrapped = error
            .downcast_ref::<std::io::Error>()
            .and_then(|io| io.get_ref());
        let tls = match wrapped {
            Some(wrapped) => wrapped.downcast_ref::<rustls::Error>(),
            None => error.downcast_ref::<rustls::Error>(),
        };
        if let Some(tls) = tls {
            return matches!(tls, rustls::Error::InvalidCertificate(_));
        }
        reason = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_arrives_as_it_was_built_or_not_at_all() {
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
    async fn a_refused_connection_was_certainly_not_sent() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/dbs", listener.local_addr().unwrap());
        drop(listener);
        let error = get(ServerProof::None, url).await.unwrap_err();
        assert_eq!(error.delivery, Delivery::NotSent);
        assert!(error.to_string().contains("refused"), "{error}");
    }

    #[tokio::test]
    async fn a_connection_closed_without_an_answer_leaves_the_outcome_open() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/dbs", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            stream.readable().await.unwrap();
        });
        let error = Network::new(ServerProof::None)
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

    /// A server that shows a certificate nobody knows, and answers every request with 200.
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
            // A client that does not trust us hangs up here.
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
        Network::new(proof).unwrap().send(request).await
    }

    #[tokio::test]
    async fn a_certificate_that_nobody_signed_is_refused_unless_that_was_asked_for() {
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

    /// Answers one request with what `answer` says, and closes.
    async fn server_that_says(answer: Vec<u8>) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/dbs", listener.local_addr().unwrap());
        tokio::spawn(async move {
            use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut first_byte = [0];
            stream.read_exact(&mut first_byte).await.unwrap();
            // A client that has read enough hangs up before the end.
            let _cut = stream.write_all(&answer).await;
        });
        url
    }

    async fn body_of(answer: Vec<u8>, longest: usize) -> Result<Bytes, TransportError> {
        let url = server_that_says(answer).await;
        let network = Network::new(ServerProof::None).unwrap();
        let response = network.client.get(url).send().await.unwrap();
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
    async fn an_answer_is_taken_in_up_to_its_limit_and_no_further() {
        assert_eq!(body_of(chunked(4, 1000), 4000).await.unwrap().len(), 4000);
        assert_eq!(body_of(chunked(0, 0), 4000).await.unwrap().len(), 0);
        for too_long in [
            chunked(5, 1000),
            chunked(1, 4001),
            // Refused by its announcement, before any of it is read.
            b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n".to_vec(),
        ] {
            let error = body_of(too_long, 4000).await.unwrap_err();
            assert_eq!(error.delivery, Delivery::TooLong);
            assert!(error.to_string().contains("smaller pages"), "{error}");
        }
    }
}
