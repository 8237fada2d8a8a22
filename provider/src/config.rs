//! What a user can set. Values are checked when the provider is made, before anything is sent.

use std::fmt;
use std::time::Duration;

use cdb_client::Bootstrap;
use cdb_coordination::{MembershipConfig, RetryPolicy};
use duroxide::providers::ProviderError;

/// Configuration of the provider. The first eight fields and their defaults are those of `duroxide-cdb`.
#[derive(Clone)]
pub struct CosmosDBProviderConfig {
    /// The account, `https://<name>.documents.azure.com`.
    pub endpoint: String,
    /// Its primary or secondary key, base64. Not shown by `Debug`. Not used by
    /// [`CosmosDBProvider::new_with_credential`](crate::CosmosDBProvider::new_with_credential).
    pub key: String,
    /// The database; `duroxide` by default.
    pub database: String,
    /// The container; `duroxide` by default.
    pub container: String,
    /// How many orchestration dispatchers share what is prefetched; as in `RuntimeOptions`.
    pub orch_concurrency: u32,
    /// How many worker dispatchers share what is prefetched; as in `RuntimeOptions`.
    pub worker_concurrency: u32,
    /// How often the outbox is searched for messages that were not delivered at once; 2 s by default.
    pub reconciler_interval: Duration,
    /// How old such a message must be; 2 s by default.
    pub reconciler_age_threshold: Duration,
    /// When messages whose delivery was refused are tried again, and after how many refusals they are given up; see
    /// [`undeliverable`](crate::CosmosDBProvider::undeliverable).
    pub delivery_retry: RetryPolicy,
    /// Whether a fetch waits for work as long as the runtime allows, instead of returning at once; on by default.
    pub long_polling: bool,
    /// The shortest time between two polls of a queue; 50 ms by default.
    pub min_poll_interval: Duration,
    /// The longest time between two polls of a queue, reached while nothing comes; 1 s by default. Work that this
    /// process enqueues itself is seen at once and needs no poll.
    pub max_poll_interval: Duration,
    /// Room for the histories of instances that this process works on, in bytes of memory; 64 MiB by default. What is
    /// remembered need not be read again for the next turn. Zero remembers nothing.
    pub history_cache_bytes: u64,
    /// Whether this runtime shares the dispatch slots with others on the container, by one request per heartbeat. By
    /// default it does not, and looks for all work: for one runtime that is what it needs, and several get along so too, by
    /// racing for locks.
    pub membership: Option<MembershipConfig>,
    /// How long instances are kept that have ended, with their descendants; for ever by default. Every runtime deletes what
    /// is older, a hundred at a time, and rests in between as long as that took.
    pub retention: Option<Duration>,
    /// The largest single text, in bytes of its JSON: an input, a result, an event; 32 MiB by default. What is larger
    /// fails the orchestration, or the call that starts it. Texts above the service's 2 MB are stored in parts.
    pub max_value_bytes: u64,
    /// The most that one turn may write, in bytes of its JSON; 256 MiB by default. What is larger fails the
    /// orchestration.
    pub max_turn_bytes: u64,
    /// The largest history of one execution, in bytes of its JSON; 512 MiB by default. Every turn needs all of it in
    /// memory. What grows beyond fails the orchestration: let it continue as new.
    pub max_history_bytes: u64,
    /// How old the parts of a text must be that no commit refers to, before they are removed; 10 min by default. A
    /// commit that takes longer is refused.
    pub orphan_age: Duration,
    /// What to do about a database or container that does not exist, and about one that lacks indexes, such as those of
    /// `duroxide-cdb`: by default they are created and added.
    pub bootstrap: Bootstrap,
    /// The account's other key, used from the moment on that the first is refused, so that both can be exchanged, one
    /// after the other, while the program runs. None by default; not shown by `Debug`.
    pub secondary_key: Option<String>,
    /// Whether any certificate will do for an endpoint on this machine, such as an emulator's. Off by default, and
    /// refused for every other endpoint.
    pub accept_invalid_certificates_on_loopback: bool,
}

impl CosmosDBProviderConfig {
    /// From `COSMOS_ENDPOINT`, `COSMOS_KEY` and, if set, `COSMOS_DATABASE`.
    ///
    /// # Errors
    /// Names the variable that is missing.
    pub fn from_env() -> Result<Self, ProviderError> {
        let required = |name: &str| {
            std::env::var(name).map_err(|_| {
                ProviderError::permanent("from_env", format!("set the environment variable {name}"))
            })
        };
        let mut config = Self {
            endpoint: required("COSMOS_ENDPOINT")?,
            key: required("COSMOS_KEY")?,
            ..Self::default()
        };
        if let Ok(database) = std::env::var("COSMOS_DATABASE") {
            config.database = database;
        }
        Ok(config)
    }
}

impl Default for CosmosDBProviderConfig {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            key: String::new(),
            database: "duroxide".to_owned(),
            container: "duroxide".to_owned(),
            orch_concurrency: 1,
            worker_concurrency: 1,
            reconciler_interval: Duration::from_secs(2),
            reconciler_age_threshold: Duration::from_secs(2),
            delivery_retry: RetryPolicy::default(),
            long_polling: true,
            min_poll_interval: Duration::from_millis(50),
            max_poll_interval: Duration::from_secs(1),
            history_cache_bytes: 64 * 1024 * 1024,
            membership: None,
            retention: None,
            max_value_bytes: 32 * 1024 * 1024,
            max_turn_bytes: 256 * 1024 * 1024,
            max_history_bytes: 512 * 1024 * 1024,
            orphan_age: Duration::from_secs(10 * 60),
            bootstrap: Bootstrap::CreateIfMissing,
            secondary_key: None,
            accept_invalid_certificates_on_loopback: false,
        }
    }
}

impl fmt::Debug for CosmosDBProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CosmosDBProviderConfig")
            .field("endpoint", &self.endpoint)
            .field("key", &"<redacted>")
            .field("database", &self.database)
            .field("container", &self.container)
            .field("orch_concurrency", &self.orch_concurrency)
            .field("worker_concurrency", &self.worker_concurrency)
            .field("reconciler_interval", &self.reconciler_interval)
            .field("reconciler_age_threshold", &self.reconciler_age_threshold)
            .field("delivery_retry", &self.delivery_retry)
            .field("long_polling", &self.long_polling)
            .field("min_poll_interval", &self.min_poll_interval)
            .field("max_poll_interval", &self.max_poll_interval)
            .field("history_cache_bytes", &self.history_cache_bytes)
            .field("membership", &self.membership)
            .field("retention", &self.retention)
            .field("max_value_bytes", &self.max_value_bytes)
            .field("max_turn_bytes", &self.max_turn_bytes)
            .field("max_history_bytes", &self.max_history_bytes)
            .field("orphan_age", &self.orphan_age)
            .field("bootstrap", &self.bootstrap)
            .field(
                "accept_invalid_certificates_on_loopback",
                &self.accept_invalid_certificates_on_loopback,
            )
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_is_shown() {
        let config = CosmosDBProviderConfig {
            key: "c2VjcmV0".to_owned(),
            secondary_key: Some("b3RoZXI=".to_owned()),
            ..Default::default()
        };
        let shown = format!("{config:?}");
        assert!(
            !shown.contains("c2VjcmV0") && !shown.contains("b3RoZXI="),
            "{shown}"
        );
    }
}
