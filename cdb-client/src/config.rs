//! Setting up a client. Setters take anything; [`build`](CosmosClientBuilder::build) checks it all at once, before
//! anything is sent.

use std::fmt;
use std::sync::Arc;

use cdb_model::Timestamp;
use http::HeaderValue;

use crate::client::CosmosClient;
use crate::clock::{ServiceClock, machine_now};
use crate::credential::Credential;
use crate::endpoint::{is_loopback, parse_endpoint, server_proof, without_secrets};
use crate::error::{Error, Result};
use crate::network::Network;
use crate::retry::{Jitter, Pipeline, PipelineParts, RetryConfig};
use crate::transport::Transport;

/// Collects what a [`CosmosClient`] needs.
///
/// ```
/// use std::time::Duration;
/// use cdb_client::{CosmosClient, MasterKey, RetryConfig};
/// # let key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
///
/// let client = CosmosClient::builder("https://account.documents.azure.com")
///     .credential(MasterKey::new(key)?)
///     .application("shop")
///     .retry(RetryConfig::default().with_deadline(Duration::from_secs(5)))
///     .build()?;
///
/// let refused = CosmosClient::builder("account").build().unwrap_err();
/// assert!(refused.to_string().contains("is no URL"));
/// # drop(client);
/// # Ok::<(), cdb_client::Error>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct CosmosClientBuilder {
    endpoint: String,
    credential: Option<Arc<dyn Credential>>,
    transport: Option<Arc<dyn Transport>>,
    retry: RetryConfig,
    application: String,
    any_certificate_on_loopback: bool,
    /// The time that the client's clock starts with, unless it is the machine's.
    start: Option<Timestamp>,
}

impl CosmosClient {
    /// Starts setting up a client of the account at `endpoint`.
    pub fn builder(endpoint: impl Into<String>) -> CosmosClientBuilder {
        CosmosClientBuilder::new(endpoint)
    }
}

impl CosmosClientBuilder {
    pub(crate) fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            credential: None,
            transport: None,
            retry: RetryConfig::default(),
            application: String::new(),
            any_certificate_on_loopback: false,
            start: None,
        }
    }

    /// Who authorizes requests, such as a [`MasterKey`](crate::MasterKey). Required.
    pub fn credential(mut self, credential: impl Credential) -> Self {
        self.credential = Some(Arc::new(credential));
        self
    }

    /// Sends through `transport` instead of the network.
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// Starts the client's clock with simulated time, instead of the machine's. Call it together with
    /// [`transport`](Self::transport), right before [`build`](Self::build).
    #[cfg(any(test, feature = "test-support"))]
    pub fn clock_of(mut self, time: &crate::SimulatedTime) -> Self {
        self.start = Some(time.now());
        self
    }

    /// How long calls may try.
    pub fn retry(mut self, retry: RetryConfig) -> Self {
        self.retry = retry;
        self
    }

    /// A name for the account's logs, put in front of the user agent.
    pub fn application(mut self, name: impl Into<String>) -> Self {
        self.application = name.into();
        self
    }

    /// Accepts any certificate, for an emulator that makes its own. Works for loopback hosts only: `build` refuses it
    /// for every other endpoint.
    pub fn accept_invalid_certificates_on_loopback(mut self, accept: bool) -> Self {
        self.any_certificate_on_loopback = accept;
        self
    }

    /// Whether the endpoint can only be on this machine, as those of emulators are: `localhost`, `127.0.0.0/8`, `[::1]`.
    /// Says no of an endpoint that cannot work.
    pub fn is_loopback(&self) -> bool {
        parse_endpoint(&self.endpoint).is_ok_and(|url| is_loopback(&url))
    }

    /// Whether the endpoint, and what is asked of its certificates, can work; [`build`](Self::build) does it too.
    ///
    /// # Errors
    /// When not; the message says why and shows no secret.
    pub fn check_endpoint(&self) -> Result<()> {
        let endpoint = parse_endpoint(&self.endpoint)?;
        server_proof(&endpoint, self.any_certificate_on_loopback).map(|_| ())
    }

    /// The client. Opens no connection yet.
    ///
    /// # Errors
    /// When the endpoint or an option cannot work; the message names it.
    pub fn build(self) -> Result<CosmosClient> {
        let endpoint = parse_endpoint(&self.endpoint)?;
        let proof = server_proof(&endpoint, self.any_certificate_on_loopback)?;
        let credential = self.credential.ok_or_else(|| {
            Error::configuration("no credential given; pass `MasterKey::new(key)?` to `credential`")
        })?;
        if self.retry.deadline.is_zero() || self.retry.attempt_timeout.is_zero() {
            return Err(Error::configuration(
                "deadline and attempt time-out must be longer than zero",
            ));
        }
        let user_agent = format!("{} cdb/{}", self.application, env!("CARGO_PKG_VERSION"));
        let user_agent = HeaderValue::from_str(user_agent.trim()).map_err(|_| {
            Error::configuration("application name holds characters that no header can")
        })?;
        if endpoint.scheme() == "http" && !is_loopback(&endpoint) {
            let host = endpoint.host_str().unwrap_or_default();
            tracing::warn!(
                host,
                "endpoint is not encrypted: documents and tokens can be read on the way; use https"
            );
        }
        let transport = match self.transport {
            Some(transport) => transport,
            None => Arc::new(Network::new(proof)?),
        };
        let parts = PipelineParts {
            endpoint: endpoint.as_str().trim_end_matches('/').to_owned(),
            user_agent,
            transport,
            credential,
            retry: self.retry,
            jitter: Jitter::random(),
        };
        let clock = ServiceClock::starting_at(self.start.unwrap_or_else(machine_now));
        Ok(CosmosClient::new(Pipeline::with_clock(parts, clock)))
    }
}

impl fmt::Debug for CosmosClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CosmosClientBuilder")
            .field("endpoint", &without_secrets(&self.endpoint))
            .field("credential", &self.credential)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::MasterKey;

    const KEY: &str =
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

    fn builder(endpoint: &str) -> CosmosClientBuilder {
        CosmosClientBuilder::new(endpoint).credential(MasterKey::new(KEY).unwrap())
    }

    #[track_caller]
    fn refuses(endpoint: &str, because: &str) {
        let error = builder(endpoint).build().unwrap_err().to_string();
        assert!(error.contains(because), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn endpoints_that_cannot_work_are_refused_with_the_reason() {
        refuses("my-account", "is no URL");
        refuses("ftp://x/", "neither https nor http");
        refuses(
            "https://x.documents.azure.com/dbs/a",
            "goes on after the host",
        );
        refuses(
            "https://x/?key=hunter2",
            "`https://x/…` goes on after the host",
        );
        refuses(
            "accountkey=hunter2;accountendpoint=https://x/",
            "is a connection string",
        );
        refuses("https://x/;ACCOUNTKEY=hunter2", "is a connection string");
        refuses("Hunter2+hunter2==", "`…` is no URL");
        refuses("https://user:hunter2@x/", "holds a user or password");
        refuses(
            "AccountEndpoint=https://x/;AccountKey=hunter2;",
            "is a connection string",
        );
    }

    #[test]
    fn a_client_without_credential_is_refused() {
        let error = CosmosClientBuilder::new("http://localhost:8081")
            .build()
            .unwrap_err();
        assert!(error.to_string().contains("no credential"), "{error}");
    }

    #[test]
    fn certificates_go_unchecked_on_loopback_hosts_only() {
        let with = |endpoint: &str| {
            builder(endpoint)
                .accept_invalid_certificates_on_loopback(true)
                .build()
        };
        for loopback in [
            "https://localhost:8081",
            "https://127.0.0.1:8081/",
            "https://[::1]:8081",
        ] {
            assert!(with(loopback).is_ok(), "{loopback}");
        }
        for elsewhere in [
            "https://x.documents.azure.com",
            "https://localhost.example.com",
            "https://10.0.0.1",
        ] {
            let error = with(elsewhere).unwrap_err();
            assert!(error.to_string().contains("loopback hosts only"), "{error}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        let is_loopback = |endpoint: &str| CosmosClientBuilder::new(endpoint).is_loopback();
        for here in [
            "http://localhost:8081",
            "http://127.0.0.1:1/",
            "https://[::1]",
            "http://LOCALHOST",
        ] {
            assert!(is_loopback(here), "{here}");
        }
        for elsewhere in [
            "https://localhost.example.com",
            "https://a.documents.azure.com",
            "http://localhost:8081@example.com",
            "http://128.0.0.1",
            "localhost:8081",
        ] {
            assert!(!is_loopback(elsewhere), "{elsewhere}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", builder("https://user:hunter2@x/"));
        assert!(
            !shown.contains("hunter2") && !shown.contains(KEY),
            "{shown}"
        );
    }
}
