//! A builder of the configuration; it checks all settings at the end.

use std::time::Duration;

use cdb_client::{Bootstrap, CosmosClient, MasterKey};
use cdb_coordination::{MembershipConfig, RetryPolicy};
use duroxide::providers::ProviderError;

use crate::config::CosmosDBProviderConfig;

/// Builds a [`CosmosDBProviderConfig`]. Each setting is documented at the field of its name.
///
/// ```
/// use std::time::Duration;
/// use cdb_provider::{CosmosDBProviderConfig, MembershipConfig};
/// # let key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
///
/// let config = CosmosDBProviderConfig::builder("https://account.documents.azure.com")
///     .key(key)
///     .container("orders")
///     .membership(MembershipConfig::named("worker-1"))
///     .retention(Duration::from_secs(30 * 24 * 3600))
///     .build()?;
/// assert_eq!(config.container, "orders");
///
/// let wrong = CosmosDBProviderConfig::builder("account").key("short").max_turn_bytes(0).build();
/// let message = wrong.unwrap_err().to_string();
/// assert!(message.contains("not a URL") && message.contains("base64") && message.contains("max_turn_bytes"));
/// # Ok::<(), duroxide::providers::ProviderError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct CosmosDBProviderConfigBuilder {
    config: CosmosDBProviderConfig,
}

impl CosmosDBProviderConfig {
    /// Starts a configuration for the account at `endpoint`, with the defaults.
    /// [`build`](CosmosDBProviderConfigBuilder::build) names every wrong setting.
    pub fn builder(endpoint: impl Into<String>) -> CosmosDBProviderConfigBuilder {
        CosmosDBProviderConfigBuilder {
            config: Self {
                endpoint: endpoint.into(),
                ..Self::default()
            },
        }
    }
}

impl CosmosDBProviderConfigBuilder {
    /// Sets the account key. [`new_with_credential`](crate::CosmosDBProvider::new_with_credential)
    /// needs none.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.config.key = key.into();
        self
    }

    /// Sets [`secondary_key`](CosmosDBProviderConfig::secondary_key).
    pub fn secondary_key(mut self, key: impl Into<String>) -> Self {
        self.config.secondary_key = Some(key.into());
        self
    }

    /// Sets [`database`](CosmosDBProviderConfig::database).
    pub fn database(mut self, name: impl Into<String>) -> Self {
        self.config.database = name.into();
        self
    }

    /// Sets [`container`](CosmosDBProviderConfig::container).
    pub fn container(mut self, name: impl Into<String>) -> Self {
        self.config.container = name.into();
        self
    }

    /// Sets [`orch_concurrency`](CosmosDBProviderConfig::orch_concurrency).
    pub fn orch_concurrency(mut self, dispatchers: u32) -> Self {
        self.config.orch_concurrency = dispatchers;
        self
    }

    /// Sets [`worker_concurrency`](CosmosDBProviderConfig::worker_concurrency).
    pub fn worker_concurrency(mut self, dispatchers: u32) -> Self {
        self.config.worker_concurrency = dispatchers;
        self
    }

    /// Sets [`reconciler_interval`](CosmosDBProviderConfig::reconciler_interval).
    pub fn reconciler_interval(mut self, interval: Duration) -> Self {
        self.config.reconciler_interval = interval;
        self
    }

    /// Sets [`reconciler_age_threshold`](CosmosDBProviderConfig::reconciler_age_threshold).
    pub fn reconciler_age_threshold(mut self, age: Duration) -> Self {
        self.config.reconciler_age_threshold = age;
        self
    }

    /// Sets [`delivery_retry`](CosmosDBProviderConfig::delivery_retry).
    pub fn delivery_retry(mut self, policy: RetryPolicy) -> Self {
        self.config.delivery_retry = policy;
        self
    }

    /// Sets [`long_polling`](CosmosDBProviderConfig::long_polling).
    pub fn long_polling(mut self, wait: bool) -> Self {
        self.config.long_polling = wait;
        self
    }

    /// Sets [`min_poll_interval`](CosmosDBProviderConfig::min_poll_interval) and
    /// [`max_poll_interval`](CosmosDBProviderConfig::max_poll_interval).
    pub fn poll_intervals(mut self, min: Duration, max: Duration) -> Self {
        self.config.min_poll_interval = min;
        self.config.max_poll_interval = max;
        self
    }

    /// Sets [`history_cache_bytes`](CosmosDBProviderConfig::history_cache_bytes).
    pub fn history_cache_bytes(mut self, bytes: u64) -> Self {
        self.config.history_cache_bytes = bytes;
        self
    }

    /// Sets [`membership`](CosmosDBProviderConfig::membership).
    pub fn membership(mut self, membership: MembershipConfig) -> Self {
        self.config.membership = Some(membership);
        self
    }

    /// Sets [`retention`](CosmosDBProviderConfig::retention).
    pub fn retention(mut self, keep: Duration) -> Self {
        self.config.retention = Some(keep);
        self
    }

    /// Sets [`max_value_bytes`](CosmosDBProviderConfig::max_value_bytes).
    pub fn max_value_bytes(mut self, bytes: u64) -> Self {
        self.config.max_value_bytes = bytes;
        self
    }

    /// Sets [`max_turn_bytes`](CosmosDBProviderConfig::max_turn_bytes).
    pub fn max_turn_bytes(mut self, bytes: u64) -> Self {
        self.config.max_turn_bytes = bytes;
        self
    }

    /// Sets [`max_history_bytes`](CosmosDBProviderConfig::max_history_bytes).
    pub fn max_history_bytes(mut self, bytes: u64) -> Self {
        self.config.max_history_bytes = bytes;
        self
    }

    /// Sets [`unclaimed_age`](CosmosDBProviderConfig::unclaimed_age).
    pub fn unclaimed_age(mut self, age: Duration) -> Self {
        self.config.unclaimed_age = age;
        self
    }

    /// Sets [`orphan_age`](CosmosDBProviderConfig::orphan_age).
    pub fn orphan_age(mut self, age: Duration) -> Self {
        self.config.orphan_age = age;
        self
    }

    /// Sets [`bootstrap`](CosmosDBProviderConfig::bootstrap).
    pub fn bootstrap(mut self, bootstrap: Bootstrap) -> Self {
        self.config.bootstrap = bootstrap;
        self
    }

    /// Sets
    /// [`accept_invalid_certificates_on_loopback`](CosmosDBProviderConfig::accept_invalid_certificates_on_loopback).
    pub fn accept_invalid_certificates_on_loopback(mut self, accept: bool) -> Self {
        self.config.accept_invalid_certificates_on_loopback = accept;
        self
    }

    /// Returns the checked configuration.
    ///
    /// # Errors
    /// Names every setting that cannot work: in the endpoint, in the keys, and in the settings that
    /// [`validate`](CosmosDBProviderConfig::validate) checks.
    pub fn build(self) -> Result<CosmosDBProviderConfig, ProviderError> {
        let config = &self.config;
        let keys = [Some(&config.key), config.secondary_key.as_ref()];
        let given = keys.into_iter().flatten().filter(|key| !key.is_empty());
        let endpoint = CosmosClient::builder(&config.endpoint)
            .accept_invalid_certificates_on_loopback(config.accept_invalid_certificates_on_loopback)
            .check_endpoint();
        let wrong: Vec<String> = endpoint
            .err()
            .into_iter()
            .chain(given.filter_map(|key| MasterKey::new(key).err()))
            .map(|error| error.to_string())
            .chain(config.validate().err().map(|error| error.message))
            .collect();
        if wrong.is_empty() {
            return Ok(self.config);
        }
        Err(ProviderError::permanent("configure", wrong.join("; ")))
    }
}
