//! The builder of a client. Setters accept anything; [`build`](CosmosClientBuilder::build) checks
//! all settings before anything is sent.

use std::fmt;
use std::sync::Arc;

use cdb_model::Timestamp;
use http::HeaderValue;

use crate::account::CosmosClient;
use crate::clock::{ServiceClock, machine_now};
use crate::credential::Credential;
use crate::error::{Error, Result};
use crate::retry::{Jitter, Pipeline, PipelineParts, RetryConfig};
use crate::throughput::BackgroundConfig;
use crate::transport::endpoint::{is_loopback, parse_endpoint, server_proof, without_secrets};
use crate::transport::{Network, Transport};

/// Builds a [`CosmosClient`].
#[derive(Clone)]
#[must_use]
pub struct CosmosClientBuilder {
    endpoint: String,
    credential: Option<Arc<dyn Credential>>,
    transport: Option<Arc<dyn Transport>>,
    retry: RetryConfig,
    background: BackgroundConfig,
    preferred_regions: Vec<String>,
    connections: usize,
    application: String,
    any_certificate_on_loopback: bool,
    /// The time that the client's clock starts with; `None` for the machine's.
    start: Option<Timestamp>,
}

impl CosmosClient {
    /// Starts a client of the account at `endpoint`, such as
    /// `https://account.documents.azure.com:443/`.
    pub fn builder(endpoint: impl Into<String>) -> CosmosClientBuilder {
        CosmosClientBuilder::new(endpoint)
    }
}

impl CosmosClientBuilder {
    /// The default of [`max_connections`](Self::max_connections).
    pub const DEFAULT_MAX_CONNECTIONS: usize = 512;

    pub(crate) fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            credential: None,
            transport: None,
            retry: RetryConfig::default(),
            background: BackgroundConfig::default(),
            preferred_regions: Vec::new(),
            connections: Self::DEFAULT_MAX_CONNECTIONS,
            application: String::new(),
            any_certificate_on_loopback: false,
            start: None,
        }
    }

    /// Authorizes requests with `credential`, such as a [`MasterKey`](crate::MasterKey). Required.
    pub fn credential(mut self, credential: impl Credential) -> Self {
        self.credential = Some(Arc::new(credential));
        self
    }

    /// Sends through `transport` instead of the network.
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// Starts the client's clock with simulated time, instead of the machine's. Call it together
    /// with [`transport`](Self::transport), right before [`build`](Self::build).
    #[cfg(any(test, feature = "test-support"))]
    pub fn clock_of(mut self, time: &crate::transport::SimulatedTime) -> Self {
        self.start = Some(time.now());
        self
    }

    /// Sets the deadlines and delays of retries.
    pub fn retry(mut self, retry: RetryConfig) -> Self {
        self.retry = retry;
        self
    }

    /// Sets how much throughput background requests use, and how the service recognizes them.
    pub fn background(mut self, background: BackgroundConfig) -> Self {
        self.background = background;
        self
    }

    /// Reads from the first of these regions that answers reads, such as `West Europe`. Falls back
    /// to the next one, and at last to the write region, when a region cannot be reached, is
    /// unavailable (503), lags behind this session (404/1002) or has left the account (403/1008).
    /// Writes, metadata and reads of the latest committed state always go to the write region. No
    /// regions by default: all requests go to the endpoint, which is in the write region.
    ///
    /// The client then reads the account document before its first request.
    pub fn preferred_regions<R: Into<String>>(
        mut self,
        regions: impl IntoIterator<Item = R>,
    ) -> Self {
        self.preferred_regions = regions.into_iter().map(Into::into).collect();
        self
    }

    /// Limits the concurrent requests, and so the connections: HTTP/1.1 needs one for each. 512 by
    /// default. Further requests wait until one ends, at most until their deadline.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Puts `name` in front of the user agent, where the account's logs show it.
    pub fn application(mut self, name: impl Into<String>) -> Self {
        self.application = name.into();
        self
    }

    /// Accepts any certificate, for an emulator with a self-signed one. `build` refuses this for
    /// endpoints other than loopback hosts.
    pub fn accept_invalid_certificates_on_loopback(mut self, accept: bool) -> Self {
        self.any_certificate_on_loopback = accept;
        self
    }

    /// Whether the endpoint is on this machine: `localhost`, `127.0.0.0/8` or `[::1]`. `false` for
    /// an invalid endpoint.
    pub fn is_loopback(&self) -> bool {
        parse_endpoint(&self.endpoint).is_ok_and(|url| is_loopback(&url))
    }

    /// Checks the endpoint and the certificate setting. [`build`](Self::build) checks them too.
    ///
    /// # Errors
    /// When one is invalid. The message says why and shows no secret.
    pub fn check_endpoint(&self) -> Result<()> {
        let endpoint = parse_endpoint(&self.endpoint)?;
        server_proof(&endpoint, self.any_certificate_on_loopback).map(|_| ())
    }

    /// Builds the client. Opens no connection.
    ///
    /// # Errors
    /// When the endpoint or a setting is invalid. The message names it.
    pub fn build(self) -> Result<CosmosClient> {
        let endpoint = parse_endpoint(&self.endpoint)?;
        let proof = server_proof(&endpoint, self.any_certificate_on_loopback)?;
        let credential = self.credential.ok_or_else(|| {
            Error::configuration("no credential given; pass `MasterKey::new(key)?` to `credential`")
        })?;
        if self.retry.deadline.is_zero() || self.retry.attempt_timeout.is_zero() {
            return Err(Error::configuration(
                "deadline and attempt timeout must be longer than zero",
            ));
        }
        if self.connections == 0 {
            return Err(Error::configuration(
                "`max_connections` must be more than zero",
            ));
        }
        self.background.check()?;
        let user_agent = format!("{} cdb/{}", self.application, env!("CARGO_PKG_VERSION"));
        let user_agent = HeaderValue::from_str(user_agent.trim()).map_err(|_| {
            Error::configuration("application name contains characters that a header cannot")
        })?;
        if endpoint.scheme() == "http" && !is_loopback(&endpoint) {
            let host = endpoint.host_str().unwrap_or_default();
            tracing::warn!(
                host,
                "endpoint is not encrypted: others on the network can read documents and tokens; use https"
            );
        }
        let transport = match self.transport {
            Some(transport) => transport,
            None => Arc::new(Network::new(proof, self.connections)?),
        };
        let parts = PipelineParts {
            endpoint: endpoint.as_str().trim_end_matches('/').to_owned(),
            user_agent,
            transport,
            credential,
            retry: self.retry,
            background: self.background,
            preferred_regions: self.preferred_regions,
            connections: self.connections,
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
            .field("preferred_regions", &self.preferred_regions)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::MasterKey;

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
    fn an_invalid_endpoint_is_refused_with_the_reason() {
        refuses("my-account", "is not a URL");
        refuses("ftp://x/", "neither https nor http");
        refuses(
            "https://x.documents.azure.com/dbs/a",
            "continues after the host",
        );
        refuses(
            "https://x/?key=hunter2",
            "`https://x/…` continues after the host",
        );
        refuses(
            "accountkey=hunter2;accountendpoint=https://x/",
            "is a connection string",
        );
        refuses("https://x/;ACCOUNTKEY=hunter2", "is a connection string");
        refuses("Hunter2+hunter2==", "`…` is not a URL");
        refuses("https://user:hunter2@x/", "contains a user or password");
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
    fn invalid_certificates_are_accepted_on_loopback_hosts_only() {
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
    fn only_addresses_of_this_machine_are_loopback() {
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
