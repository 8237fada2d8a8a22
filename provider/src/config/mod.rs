//! The settings of the provider. [`validate`](CosmosDBProviderConfig::validate) checks them before
//! any request is sent.

mod policies;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cdb_client::account::CosmosClientBuilder;
use cdb_client::credential::Credential;
use cdb_client::database::BootstrapConfig;
use cdb_client::throughput::BackgroundConfig;
use cdb_client::{Bootstrap, ConnectionString, CosmosClient, MasterKey};
use cdb_coordination::membership::{LeaseProvider, MembershipConfig};
use cdb_coordination::retry::RetryPolicy;
use duroxide::providers::ProviderError;

pub use policies::{HandOver, OnNondeterminism};

use crate::error::InOperation;
use crate::stored::StoreSettings;
use crate::stored::instance_labels::{self, InstanceLabel, InstanceLabels};
use crate::stored::payload::{self, PayloadCodec};
use crate::stored::spill::Limits;
use crate::timing;

/// Configuration of the provider. The first eight fields and their defaults are those of
/// `duroxide-cdb`.
///
/// Write it as a struct with `..Default::default()`, as for `duroxide-cdb`. Minor versions may add
/// fields, so a literal that lists all fields may cease to compile.
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
    /// The endpoint of the account, `https://<name>.documents.azure.com`.
    pub endpoint: String,
    /// The primary or secondary key of the account, base64. `Debug` does not show it. Ignored when
    /// `credential` is set.
    pub key: String,
    /// The name of the database; `duroxide` by default.
    pub database: String,
    /// The name of the container; `duroxide` by default.
    pub container: String,
    /// The number of orchestration dispatchers for which a poll prefetches turns: two for each, and at
    /// least 32; 1 by default. `RuntimeOptions` of duroxide sets how many dispatchers run.
    pub orch_concurrency: u32,
    /// The number of worker dispatchers for which a poll prefetches activities: two for each, and at
    /// least 32; 1 by default. `RuntimeOptions` of duroxide sets how many dispatchers run.
    pub worker_concurrency: u32,
    /// The time between two searches of the outbox for undelivered messages; 2 s by default.
    pub reconciler_interval: Duration,
    /// The age at which any runtime delivers an undelivered message; 2 s by default.
    pub reconciler_age_threshold: Duration,
    /// The retry policy of refused deliveries: the backoff, and the number of refusals after which
    /// a message becomes a dead letter; see
    /// [`undeliverable`](crate::CosmosDBProvider::undeliverable).
    pub delivery_retry: RetryPolicy,
    /// Whether a fetch is a long poll, which waits for work up to the runtime's timeout. On by
    /// default. Off, a fetch returns at once.
    pub long_polling: bool,
    /// The shortest time between two polls of a queue; 50 ms by default.
    pub min_poll_interval: Duration,
    /// The longest time between two polls of an idle queue; 1.25 s by default. Work that this
    /// process enqueues is handed out without a poll.
    pub max_poll_interval: Duration,
    /// The size of the cache for instances and their histories, in bytes of memory; 64 MiB by
    /// default. The next turn of a cached instance does not read the history again. Zero disables
    /// the cache.
    pub history_cache_bytes: u64,
    /// Shares the dispatch slots with the other runtimes on the container, for one request per
    /// heartbeat. `None` by default: the runtime polls for all work. A single runtime needs no
    /// membership. Several runtimes without membership also work, and race for locks.
    pub membership: Option<MembershipConfig>,
    /// Shares the dispatch slots by a rule of the program, in place of `membership`. `None` by default.
    pub leases: Option<Arc<dyn LeaseProvider>>,
    /// The time that ended instances and their descendants, ended children of running instances,
    /// and executions replaced by `continue_as_new` are kept; without limit by default.
    /// Every runtime deletes those of its dispatch slots, a hundred at a time, and pauses after
    /// each slice for as long as the slice took. Set it for all runtimes that share slots.
    pub retention: Option<Duration>,
    /// How much of the container's throughput deletions by `retention` and sweeps use while others
    /// need it, and how the service recognizes their requests.
    pub background: BackgroundConfig,
    /// The largest single text, in bytes of its JSON: an input, a result, an event; 32 MiB by
    /// default. A larger text fails the orchestration, or the call that starts it. Texts above the
    /// service's 2 MB are stored in chunks.
    pub max_value_bytes: u64,
    /// The most that one turn may write, in bytes of its JSON; 256 MiB by default. A larger turn
    /// fails the orchestration.
    pub max_turn_bytes: u64,
    /// The largest history of one execution, in bytes of its JSON; 512 MiB by default. Every turn
    /// needs the whole history in memory. A larger history fails the orchestration; let long
    /// orchestrations continue as new.
    pub max_history_bytes: u64,
    /// What happens to an instance whose turn the code of this runtime cannot execute, because the
    /// code makes other decisions than the recorded ones, or because the orchestration is not
    /// registered. [`Hold`](OnNondeterminism::Hold) by default.
    pub on_nondeterminism: OnNondeterminism,
    /// Which results and starts are consumed by a turn of this process before they are stored, which
    /// halves the requests of a step. [`WithSpareDispatchers`](HandOver::WithSpareDispatchers) by default.
    pub hand_over: HandOver,
    /// The age at which chunks that no commit refers to are deleted; 10 min by default, and at
    /// least four minutes. A commit that makes progress keeps its chunks.
    pub orphan_age: Duration,
    /// The time that a message is kept for an instance that does not exist yet, because it may have
    /// overtaken the start; one day by default. A start may be redelivered for 23 hours: with a
    /// shorter time, messages that wait for it can be deleted. While a delayed start is queued,
    /// messages for its instance are kept until it is due.
    pub unclaimed_age: Duration,
    /// The handling of a missing database or container, and of missing indexes, as in containers of
    /// `duroxide-cdb`. By default they are created.
    pub bootstrap: Bootstrap,
    /// The other key of the account, used once the first key is refused. Both keys can then be
    /// rotated while the program runs. `None` by default; `Debug` does not show it.
    pub secondary_key: Option<String>,
    /// An identity of Entra ID (`cdb_client::credential::EntraId`, feature `entra`), or keys that are rotated
    /// while the program runs, in place of `key` and `secondary_key`. `None` by default.
    ///
    /// An identity of Entra ID cannot create databases or containers. For a missing one the error
    /// says what an administrator has to create.
    pub credential: Option<Arc<dyn Credential>>,
    /// Encodes inputs, results and other payloads before they are stored, see
    /// [`payload`]. `None` by default. The container notes the codec's name when it
    /// is opened with one for the first time; from then on it is refused to runtimes without.
    pub payload_codec: Option<Arc<dyn PayloadCodec>>,
    /// The labels of instances by which [limits](crate::documents::Rule) select, derived from their
    /// ids: a tenant that is a part of the id. All runtimes of a container need the same. Empty by
    /// default.
    pub labels: Vec<InstanceLabel>,
    /// Whether an endpoint on loopback, such as an emulator, may have any certificate. Off by
    /// default. Other endpoints refuse this setting.
    pub accept_invalid_certificates_on_loopback: bool,
    /// The regions to read from, such as `West Europe`, the first one first; see
    /// [`preferred_regions`](CosmosClientBuilder::preferred_regions) of the client. Empty by
    /// default: all requests go to the write region. Writes always go there, and a turn that was
    /// loaded from a region with an older state loses its lock, so a runtime gains nothing.
    pub preferred_regions: Vec<String>,
    /// The time that opening waits for an index that is being built; ten minutes by default. The
    /// service builds it with spare request units, so a large container takes longer.
    pub index_timeout: Duration,
    /// The most concurrent requests, and so connections; 512 by default. Further requests wait.
    pub max_connections: usize,
}

impl CosmosDBProviderConfig {
    /// Reads `COSMOS_ENDPOINT` and `COSMOS_KEY`, or `COSMOS_CONNECTION_STRING`; if set, also
    /// `COSMOS_SECONDARY_KEY`, `COSMOS_DATABASE` and `COSMOS_CONTAINER`, and with the feature
    /// `codecs` the keys of `payload::Encryption` in `COSMOS_PAYLOAD_KEYS`.
    ///
    /// # Errors
    /// Names the missing variable, or says what is wrong with its value.
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
        Self::from_variables(account, |name| std::env::var(name).ok())
    }

    /// Reads the variables of [`from_env`](Self::from_env). Uses the account of `default` if none
    /// names an account: usually the connection string of an emulator. A partial or invalid account
    /// in the environment fails, because a fallback would look like success.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env), and when `default` is not a connection string.
    ///
    /// ```
    /// use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let emulator = cdb_emulator::Emulator::start().await?;
    /// let config = CosmosDBProviderConfig::from_env_or(&emulator.connection_string())?;
    /// # let config = CosmosDBProviderConfig { database: format!("doc-{}", std::process::id()), ..config };
    /// let store = CosmosDBProvider::new_with_config(config).await?;
    /// # store.cleanup().await?;
    /// # Ok(()) }
    /// ```
    pub fn from_env_or(default: &str) -> Result<Self, ProviderError> {
        let account = ConnectionString::from_env_or(default).in_operation("from_env_or")?;
        Self::from_variables(account, |name| std::env::var(name).ok())
    }

    fn from_variables(
        account: ConnectionString,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ProviderError> {
        let config = Self::from(account);
        let named = |name| variable(name).filter(|value: &String| !value.is_empty());
        let keys = named(payload::KEYS);
        let codec = keys.map(|keys| payload::from_keys(&keys)).transpose();
        Ok(Self {
            payload_codec: codec.in_operation("from_env")?,
            database: named("COSMOS_DATABASE").unwrap_or(config.database),
            container: named("COSMOS_CONTAINER").unwrap_or(config.container),
            secondary_key: named("COSMOS_SECONDARY_KEY"),
            ..config
        })
    }

    /// Configures the account of a connection string, `AccountEndpoint=…;AccountKey=…;`, with the
    /// defaults.
    ///
    /// # Errors
    /// Fails when the text is not a connection string, or one of its parts is malformed. The error
    /// shows no key.
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

    /// Checks for values that cannot work: a malformed endpoint or key, empty names, zero times and
    /// sizes, a time that is too short for another one. An empty endpoint and an empty key are left to the
    /// constructors that need them.
    ///
    /// Every constructor of the provider that opens a container first checks the values that it
    /// uses.
    ///
    /// # Errors
    /// Names every such value.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cdb_provider::CosmosDBProviderConfig;
    ///
    /// let config = CosmosDBProviderConfig {
    ///     endpoint: "account".to_owned(),
    ///     key: "short".to_owned(),
    ///     max_poll_interval: Duration::ZERO,
    ///     ..Default::default()
    /// };
    /// let message = config.validate().unwrap_err().to_string();
    /// assert!(message.contains("not a URL") && message.contains("base64") && message.contains("max_poll_interval"));
    /// ```
    pub fn validate(&self) -> Result<(), ProviderError> {
        let endpoint = CosmosClient::builder(&self.endpoint)
            .accept_invalid_certificates_on_loopback(self.accept_invalid_certificates_on_loopback)
            .check_endpoint();
        let endpoint = endpoint.err().filter(|_| !self.endpoint.is_empty());
        let keys = [Some(&self.key), self.secondary_key.as_ref()];
        let keys = keys.into_iter().flatten();
        let keys = keys.filter(|key| !key.is_empty() && self.credential.is_none());
        let keys = keys.filter_map(|key| MasterKey::new(key).err());
        let connection = endpoint.into_iter().chain(keys);
        let connection = connection.map(|error| error.to_string());
        report(connection.chain(self.wrong_settings()))
    }

    /// Creates the client of the account.
    pub(crate) fn client(&self) -> cdb_client::Result<CosmosClient> {
        let client = CosmosClient::builder(&self.endpoint)
            .accept_invalid_certificates_on_loopback(self.accept_invalid_certificates_on_loopback)
            .preferred_regions(&self.preferred_regions)
            .background(self.background)
            .max_connections(self.max_connections);
        if let Some(credential) = &self.credential {
            return client.credential(credential.clone()).build();
        }
        let mut key = MasterKey::new(&self.key)?;
        if let Some(secondary) = &self.secondary_key {
            key = key.with_secondary(secondary)?;
        }
        client.credential(key).build()
    }

    /// Checks everything but endpoint and keys.
    pub(crate) fn store(&self) -> StoreSettings {
        StoreSettings {
            limits: Limits {
                value: self.max_value_bytes,
                turn: self.max_turn_bytes,
                history: self.max_history_bytes,
            },
            payload_codec: self.payload_codec.clone(),
            labels: InstanceLabels::new(&self.labels),
            holds: self.on_nondeterminism == OnNondeterminism::Hold,
            runtime: self.membership.clone().unwrap_or_default().member,
            unclaimed_age: self.unclaimed_age,
            orphan_age: self.orphan_age,
        }
    }

    pub(crate) fn check_settings(&self) -> Result<(), ProviderError> {
        report(self.wrong_settings())
    }

    fn wrong_settings(&self) -> impl Iterator<Item = String> {
        let membership = self.membership.iter();
        let membership = membership.flat_map(|own| {
            [
                ("membership.group", &own.group),
                ("membership.member", &own.member),
            ]
        });
        let names = [("database", &self.database), ("container", &self.container)];
        let names = names.into_iter().chain(membership);
        let empty = names.filter(|(_, value)| value.is_empty());
        let zero = [
            ("reconciler_interval", self.reconciler_interval.is_zero()),
            ("min_poll_interval", self.min_poll_interval.is_zero()),
            ("orphan_age", self.orphan_age.is_zero()),
            ("index_timeout", self.index_timeout.is_zero()),
            ("max_connections", self.max_connections == 0),
            ("unclaimed_age", self.unclaimed_age.is_zero()),
            ("max_value_bytes", self.max_value_bytes == 0),
            ("max_turn_bytes", self.max_turn_bytes == 0),
            ("max_history_bytes", self.max_history_bytes == 0),
        ];
        let zero = zero.into_iter().filter(|(_, is_zero)| *is_zero);
        let has_unnamed_region = self.preferred_regions.iter().any(String::is_empty);
        empty
            .map(|(name, _)| format!("{name} is empty"))
            .chain(zero.map(|(name, _)| format!("{name} must be more than zero")))
            .chain(has_unnamed_region.then(|| "preferred_regions has an empty name".to_owned()))
            .chain(instance_labels::mistakes(&self.labels))
            .chain(broken_relations(self))
    }
}

/// Returns the settings that break a relation, each with both values.
fn broken_relations(config: &CosmosDBProviderConfig) -> impl Iterator<Item = String> {
    let retry = &config.delivery_retry;
    let retried = retry.longest_delay.saturating_mul(retry.max_attempts);
    // What is at most as long as what.
    let relations = [
        // An idle queue is polled less often than a busy one.
        [
            ("min_poll_interval", config.min_poll_interval),
            ("max_poll_interval", config.max_poll_interval),
        ],
        // The chunks of a running commit are not deleted.
        [
            ("twice the time of a commit", timing::MIN_ORPHAN_AGE),
            ("orphan_age", config.orphan_age),
        ],
        // A message waits for a start that the reconciler delivers.
        [
            ("reconciler_age_threshold", config.reconciler_age_threshold),
            ("unclaimed_age", config.unclaimed_age),
        ],
        // A message has all of its attempts.
        [
            ("delivery_retry.longest_delay times max_attempts", retried),
            ("the time of redeliveries", timing::REDELIVERED),
        ],
    ];
    let broken = relations
        .into_iter()
        .filter(|[least, value]| least.1 > value.1);
    broken.map(|[(short, least), (long, value)]| {
        format!("{long} ({value:?}) must be at least {short} ({least:?})")
    })
}

/// Fails with all mistakes, if there are any.
fn report(mistakes: impl Iterator<Item = String>) -> Result<(), ProviderError> {
    let mistakes: Vec<String> = mistakes.collect();
    if mistakes.is_empty() {
        return Ok(());
    }
    Err(ProviderError::permanent("configure", mistakes.join("; ")))
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
            reconciler_interval: timing::DEFAULT_RECONCILER_INTERVAL,
            reconciler_age_threshold: timing::DEFAULT_RECONCILER_AGE,
            delivery_retry: RetryPolicy::default(),
            long_polling: true,
            min_poll_interval: timing::DEFAULT_MIN_POLL,
            max_poll_interval: timing::DEFAULT_MAX_POLL,
            history_cache_bytes: 64 * 1024 * 1024,
            membership: None,
            leases: None,
            retention: None,
            background: BackgroundConfig::default(),
            max_value_bytes: 32 * 1024 * 1024,
            max_turn_bytes: 256 * 1024 * 1024,
            max_history_bytes: 512 * 1024 * 1024,
            on_nondeterminism: OnNondeterminism::default(),
            hand_over: HandOver::default(),
            orphan_age: timing::DEFAULT_ORPHAN_AGE,
            unclaimed_age: timing::DEFAULT_UNCLAIMED_AGE,
            bootstrap: Bootstrap::CreateIfMissing,
            secondary_key: None,
            credential: None,
            payload_codec: None,
            labels: Vec::new(),
            accept_invalid_certificates_on_loopback: false,
            preferred_regions: Vec::new(),
            index_timeout: BootstrapConfig::default().index_timeout,
            max_connections: CosmosClientBuilder::DEFAULT_MAX_CONNECTIONS,
        }
    }
}

impl fmt::Debug for CosmosDBProviderConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A malformed endpoint may be a key or a connection string in the wrong field.
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
            .field("leases", &self.leases.as_ref().map(|_| "of the program"))
            .field("retention", &self.retention)
            .field("background", &self.background)
            .field("max_value_bytes", &self.max_value_bytes)
            .field("max_turn_bytes", &self.max_turn_bytes)
            .field("max_history_bytes", &self.max_history_bytes)
            .field("on_nondeterminism", &self.on_nondeterminism)
            .field("hand_over", &self.hand_over)
            .field("orphan_age", &self.orphan_age)
            .field("unclaimed_age", &self.unclaimed_age)
            .field("bootstrap", &self.bootstrap)
            .field("credential", &self.credential)
            .field("payload_codec", &self.payload_codec)
            .field("labels", &self.labels)
            .field(
                "accept_invalid_certificates_on_loopback",
                &self.accept_invalid_certificates_on_loopback,
            )
            .field("preferred_regions", &self.preferred_regions)
            .field("index_timeout", &self.index_timeout)
            .field("max_connections", &self.max_connections)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_key_in_any_field() {
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

    /// A changed default is a change for users: name it in CHANGELOG.md, and on the page
    /// `docs/moving-from-duroxide-cdb.md` if `duroxide-cdb` has the setting.
    #[test]
    fn default_values() {
        let membership = MembershipConfig::named("worker-1");
        expect_test::expect![[r#"
            (
                CosmosDBProviderConfig {
                    endpoint: "<no endpoint>",
                    key: "<redacted>",
                    database: "duroxide",
                    container: "duroxide",
                    orch_concurrency: 1,
                    worker_concurrency: 1,
                    reconciler_interval: 2s,
                    reconciler_age_threshold: 2s,
                    delivery_retry: RetryPolicy {
                        first_delay: 1s,
                        longest_delay: 300s,
                        max_attempts: 10,
                    },
                    long_polling: true,
                    min_poll_interval: 50ms,
                    max_poll_interval: 1.25s,
                    history_cache_bytes: 67108864,
                    membership: None,
                    leases: None,
                    retention: None,
                    background: BackgroundConfig {
                        share: 0.8,
                        low_priority: true,
                        throughput_bucket: None,
                    },
                    max_value_bytes: 33554432,
                    max_turn_bytes: 268435456,
                    max_history_bytes: 536870912,
                    on_nondeterminism: Hold,
                    hand_over: WithSpareDispatchers,
                    orphan_age: 600s,
                    unclaimed_age: 86400s,
                    bootstrap: CreateIfMissing,
                    credential: None,
                    payload_codec: None,
                    labels: [],
                    accept_invalid_certificates_on_loopback: false,
                    preferred_regions: [],
                    index_timeout: 600s,
                    max_connections: 512,
                    ..
                },
                MembershipConfig {
                    group: "cdb:members",
                    member: "worker-1",
                    heartbeat: 3s,
                },
            )
        "#]]
        .assert_debug_eq(&(CosmosDBProviderConfig::default(), membership));
    }

    const KEY: &str =
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

    #[test]
    fn validate_accepts_the_defaults_and_names_every_wrong_setting() {
        assert!(CosmosDBProviderConfig::default().validate().is_ok());
        let wrong = CosmosDBProviderConfig {
            database: String::new(),
            reconciler_interval: Duration::ZERO,
            max_poll_interval: Duration::from_millis(1),
            max_turn_bytes: 0,
            preferred_regions: vec!["West Europe".to_owned(), String::new()],
            index_timeout: Duration::ZERO,
            max_connections: 0,
            labels: vec![InstanceLabel::new("tag", |_| None)],
            ..Default::default()
        };
        let message = wrong.validate().unwrap_err().to_string();
        for setting in [
            "database is empty",
            "reconciler_interval must be more than zero",
            "max_turn_bytes",
            "max_poll_interval (1ms) must be at least min_poll_interval (50ms)",
            "preferred_regions has an empty name",
            "index_timeout must be more than zero",
            "max_connections must be more than zero",
            "labels: `tag` is not a name",
        ] {
            assert!(message.contains(setting), "{message}");
        }
    }

    #[test]
    fn from_variables_reads_the_account_and_the_names() {
        let text = format!("AccountEndpoint=http://localhost:8081;AccountKey={KEY}");
        let account = || ConnectionString::parse(&text).unwrap();
        let named = CosmosDBProviderConfig::from_variables(account(), |name| match name {
            "COSMOS_DATABASE" => Some("shop".to_owned()),
            "COSMOS_CONTAINER" => Some("orders".to_owned()),
            _ => None,
        })
        .unwrap();
        assert_eq!(
            (named.endpoint.as_str(), named.key.as_str()),
            ("http://localhost:8081", KEY)
        );
        assert_eq!(
            (named.database.as_str(), named.container.as_str()),
            ("shop", "orders")
        );
        let empty = CosmosDBProviderConfig::from_variables(account(), |_| Some(String::new()));
        assert_eq!(empty.unwrap().container, "duroxide");
        let keys = |name: &str| (name == "COSMOS_PAYLOAD_KEYS").then(|| "k1=c2hvcnQ=".to_owned());
        let refused = CosmosDBProviderConfig::from_variables(account(), keys).unwrap_err();
        assert!(!refused.message.contains("c2hvcnQ"), "{refused}");
    }

    #[test]
    fn a_setting_that_breaks_a_relation_is_refused_with_both_values() {
        let config = CosmosDBProviderConfig {
            min_poll_interval: Duration::from_secs(3),
            orphan_age: Duration::from_secs(30),
            unclaimed_age: Duration::from_secs(1),
            delivery_retry: RetryPolicy::default().with_max_attempts(1000),
            ..CosmosDBProviderConfig::default()
        };
        let refused = config.validate().unwrap_err().message;
        for reason in [
            "max_poll_interval (1.25s) must be at least min_poll_interval (3s)",
            "orphan_age (30s) must be at least twice the time of a commit (240s)",
            "unclaimed_age (1s) must be at least reconciler_age_threshold (2s)",
            "(82800s) must be at least delivery_retry.longest_delay times max_attempts (300000s)",
        ] {
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
