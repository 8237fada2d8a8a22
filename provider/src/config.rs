//! What a user can set. Values are checked when the provider is made, before anything is sent.

use std::fmt;
use std::time::Duration;

use cdb_client::{Bootstrap, ConnectionString, CosmosClient};
use cdb_coordination::{MembershipConfig, RetryPolicy};
use duroxide::providers::ProviderError;

use crate::error::InOperation;

/// Configuration of the provider. The first eight fields and their defaults are those of `duroxide-cdb`.
///
/// Write it as a struct with `..Default::default()`, as there, or with [`builder`](Self::builder). Fields are added in
/// minor versions, so a literal that lists all of them may cease to compile.
///
/// ```
/// use std::time::Duration;
/// use cdb_provider::CosmosDBProviderConfig;
///
/// let config = CosmosDBProviderConfig {
///     endpoint: "https://account.documents.azure.com".to_owned(),
///     key: "<key>".to_owned(),
///     retention: Some(Duration::from_secs(30 * 24 * 3600)),
///     ..Default::default()
/// };
/// assert_eq!(config.database, "duroxide");
/// ```
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
    /// How long a cancellation or an event is kept for an instance that nobody has started: it may have overtaken the
    /// start. One day by default. What is queued for an instance that is started later, as a delayed start, is kept
    /// until then.
    pub unclaimed_age: Duration,
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
    /// From `COSMOS_ENDPOINT` and `COSMOS_KEY`, or `COSMOS_CONNECTION_STRING`; if set, also from `COSMOS_DATABASE` and
    /// `COSMOS_CONTAINER`.
    ///
    /// # Errors
    /// Names the variable that is missing, or says what is wrong with its value.
    ///
    /// ```no_run
    /// use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
    ///
    /// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = CosmosDBProviderConfig::from_env()?;
    /// let store = CosmosDBProvider::new_with_config(config).await?;
    /// # Ok(()) }
    /// ```
    pub fn from_env() -> Result<Self, ProviderError> {
        let account = ConnectionString::from_env().in_operation("from_env")?;
        Ok(Self::from_variables(account, |name| {
            std::env::var(name).ok()
        }))
    }

    fn from_variables(
        account: ConnectionString,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut config = Self::from(account);
        let named = |name| variable(name).filter(|value: &String| !value.is_empty());
        if let Some(database) = named("COSMOS_DATABASE") {
            config.database = database;
        }
        if let Some(container) = named("COSMOS_CONTAINER") {
            config.container = container;
        }
        config
    }

    /// For the account of a connection string, `AccountEndpoint=…;AccountKey=…;`, with the defaults.
    ///
    /// # Errors
    /// When it has another form, or one of its parts cannot be right; the message shows no key.
    ///
    /// ```
    /// use cdb_provider::CosmosDBProviderConfig;
    /// # let key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
    ///
    /// let text = format!("AccountEndpoint=http://localhost:8081/;AccountKey={key};");
    /// let config = CosmosDBProviderConfig::from_connection_string(&text)?;
    /// assert_eq!(config.endpoint, "http://localhost:8081/");
    /// # Ok::<(), duroxide::providers::ProviderError>(())
    /// ```
    pub fn from_connection_string(text: &str) -> Result<Self, ProviderError> {
        let account = ConnectionString::parse(text).in_operation("from_connection_string")?;
        Ok(Self::from(account))
    }

    /// Looks for settings that cannot work: empty names, times and sizes of zero, a range upside down. Every constructor of
    /// the provider that opens a container does it first; endpoint and key are checked there too, before anything is sent.
    ///
    /// # Errors
    /// Names every such setting.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cdb_provider::CosmosDBProviderConfig;
    ///
    /// let config = CosmosDBProviderConfig { max_poll_interval: Duration::ZERO, ..Default::default() };
    /// assert!(config.validate().unwrap_err().to_string().contains("max_poll_interval"));
    /// ```
    pub fn validate(&self) -> Result<(), ProviderError> {
        let group = self.membership.as_ref();
        let zero = "must be more than zero";
        let settings = [
            ("database", self.database.is_empty(), "is empty"),
            ("container", self.container.is_empty(), "is empty"),
            (
                "membership.group",
                group.is_some_and(|own| own.group.is_empty()),
                "is empty",
            ),
            (
                "membership.member",
                group.is_some_and(|own| own.member.is_empty()),
                "is empty",
            ),
            (
                "reconciler_interval",
                self.reconciler_interval.is_zero(),
                zero,
            ),
            ("min_poll_interval", self.min_poll_interval.is_zero(), zero),
            (
                "max_poll_interval",
                self.max_poll_interval < self.min_poll_interval,
                "must be at least as long as min_poll_interval",
            ),
            ("orphan_age", self.orphan_age.is_zero(), zero),
            ("unclaimed_age", self.unclaimed_age.is_zero(), zero),
            ("max_value_bytes", self.max_value_bytes == 0, zero),
            ("max_turn_bytes", self.max_turn_bytes == 0, zero),
            ("max_history_bytes", self.max_history_bytes == 0, zero),
        ];
        let wrong: Vec<String> = settings
            .into_iter()
            .filter(|(_, is_wrong, _)| *is_wrong)
            .map(|(name, _, why)| format!("{name} {why}"))
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        Err(ProviderError::permanent("configure", wrong.join("; ")))
    }
}

impl From<ConnectionString> for CosmosDBProviderConfig {
    fn from(account: ConnectionString) -> Self {
        Self {
            endpoint: account.endpoint().to_owned(),
            key: account.key().to_owned(),
            accept_invalid_certificates_on_loopback: account
                .accepts_invalid_certificates_on_loopback(),
            ..Self::default()
        }
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
            unclaimed_age: Duration::from_secs(24 * 60 * 60),
            bootstrap: Bootstrap::CreateIfMissing,
            secondary_key: None,
            accept_invalid_certificates_on_loopback: false,
        }
    }
}

impl fmt::Debug for CosmosDBProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is no endpoint may be a key or a connection string in the wrong field.
        let endpoint = match CosmosClient::builder(&self.endpoint).check_endpoint() {
            Ok(()) => &*self.endpoint,
            Err(_) => "<no endpoint>",
        };
        f.debug_struct("CosmosDBProviderConfig")
            .field("endpoint", &endpoint)
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
            .field("unclaimed_age", &self.unclaimed_age)
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
    fn no_key_is_shown_in_whichever_field_it_is() {
        for endpoint in [
            "https://a.documents.azure.com/",
            "AccountEndpoint=https://a.documents.azure.com/;AccountKey=c2VjcmV0",
            "c2VjcmV0",
        ] {
            let config = CosmosDBProviderConfig {
                endpoint: endpoint.to_owned(),
                key: "c2VjcmV0".to_owned(),
                secondary_key: Some("b3RoZXI=".to_owned()),
                ..Default::default()
            };
            let shown = format!("{config:?}");
            assert!(
                !shown.contains("c2VjcmV0") && !shown.contains("b3RoZXI="),
                "{shown}"
            );
            assert_eq!(shown.contains(endpoint), endpoint.starts_with("https"));
        }
    }

    const KEY: &str =
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

    #[test]
    fn the_defaults_work_and_everything_that_cannot_is_named_at_once() {
        assert!(CosmosDBProviderConfig::default().validate().is_ok());
        let wrong = CosmosDBProviderConfig {
            database: String::new(),
            reconciler_interval: Duration::ZERO,
            max_poll_interval: Duration::from_millis(1),
            max_turn_bytes: 0,
            ..Default::default()
        };
        let said = wrong.validate().unwrap_err().to_string();
        for setting in [
            "database is empty",
            "reconciler_interval must be more than zero",
            "max_turn_bytes",
            "max_poll_interval must be at least",
        ] {
            assert!(said.contains(setting), "{said}");
        }
    }

    #[test]
    fn an_account_and_names_come_from_the_environment() {
        let text = format!("AccountEndpoint=http://localhost:8081;AccountKey={KEY}");
        let account = || ConnectionString::parse(&text).unwrap();
        let named = CosmosDBProviderConfig::from_variables(account(), |name| match name {
            "COSMOS_DATABASE" => Some("shop".to_owned()),
            "COSMOS_CONTAINER" => Some("orders".to_owned()),
            _ => None,
        });
        assert_eq!(
            (named.endpoint.as_str(), named.key.as_str()),
            ("http://localhost:8081", KEY)
        );
        assert_eq!(
            (named.database.as_str(), named.container.as_str()),
            ("shop", "orders")
        );
        let empty = CosmosDBProviderConfig::from_variables(account(), |_| Some(String::new()));
        assert_eq!(empty.container, "duroxide");
    }
}
