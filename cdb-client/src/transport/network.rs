//! The real network: reqwest over rustls, HTTP/1.1 with connections kept open.
//!
//! The only place that configures TLS and connections. Certificates are checked against the system's trust store.
//! Redirects and proxies from the environment are off: a data service that redirects is not the one that was meant, and
//! a signed request has no business at a proxy nobody chose.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::Url;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::error::{Error, Result};
use crate::transport::{Delivery, HttpRequest, HttpResponse, Transport, TransportError};

/// Azure's load balancer cuts idle connections after about four minutes.
const IDLE_CONNECTION: Duration = Duration::from_secs(120);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

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
            .with_custom_certificate_verifier(Arc::new(
                super::loopback_certificate::AnyCertificate::new(provider),
            ))
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
        let body = response.bytes().await.map_err(failed)?;
        Ok(HttpResponse {
            status,
            headers,
            body,
        })
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
    let error = error.without_url();
    let message = innermost(&error);
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
                body: bytes::Bytes::from_static(b"{}"),
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
            body: bytes::Bytes::new(),
        };
        Network::new(proof).unwrap().send(request).await
    }

    #[tokio::test]
    async fn a_certificate_that_nobody_signed_is_refused_unless_that_was_asked_for() {
        let url = self_signed_server().await;
        let error = get(ServerProof::TrustedCertificate, url).await.unwrap_err();
        assert_eq!(error.delivery, Delivery::NotSent);
        assert!(error.to_string().contains("certificate"), "{error}");
        let url = self_signed_server().await;
        assert_eq!(
            get(ServerProof::AnyCertificate, url).await.unwrap().status,
            200
        );
    }
}
