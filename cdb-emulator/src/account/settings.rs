//! The settings of an emulator, each written once: the methods of [`Settings`], the JSON of
//! `--settings` and of `/_admin/settings`, and the options of the command set the same fields.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::auth::entra::{DataRole, Identities};
use super::auth::signature::WELL_KNOWN_KEY;
use super::error::EmulatorError;
use super::index_build::IndexBuild;
use super::replicas::ReplicaLag;
use super::session::Consistency;
use super::throughput::BUCKETS;
use crate::fault::{Fault, Latency};
use crate::protocol::ServiceError;
use crate::time::Clock;

/// Maximum number of physical partitions of a new container.
const MOST_PARTITIONS: u32 = 1000;

/// The fields that a running emulator can change.
const CHANGEABLE: [&str; 8] = [
    "seed",
    "latency",
    "faults",
    "indexBuild",
    "replicaLag",
    "ignoreLatestCommitted",
    "multipleWriteLocations",
    "uniqueKeyAnswer",
];

/// The forms of the answer to a write that violates a unique key. The sources differ, and no document
/// says which one the service sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum UniqueKeyAnswer {
    /// 409/3301 (azure_data_cosmos_driver, `cosmos_status.rs`, `UniqueIndexConflict`).
    #[default]
    SubStatus,
    /// 409/0 with the text "Unique index constraint violation." (azure-cosmos-dotnet-v2#523;
    /// azure-cosmos-java, `docs/StatusCodes.md`).
    Text,
    /// 409/0 with the text of a taken id, as by the in-memory emulator of azure_data_cosmos_driver.
    AsTakenId,
}

impl UniqueKeyAnswer {
    pub(crate) fn form(self, error: ServiceError) -> ServiceError {
        match self {
            _ if (error.status, error.substatus) != (409, 3301) => error,
            Self::SubStatus => error,
            Self::Text => ServiceError {
                substatus: 0,
                ..error
            },
            Self::AsTakenId => ServiceError::conflict(),
        }
    }
}

/// The times of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Time that a connection may be open without a complete request head.
    pub(crate) idle: Duration,
    /// Time for a body to arrive, and for a client to read a part of its response.
    pub(crate) stall: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(300),
            stall: Duration::from_secs(60),
        }
    }
}

/// Declares the struct. Each field has its type, its default, and the method that sets it.
macro_rules! settings {
    (
        $(#[$about:meta])*
        struct $settings:ident;
        $(
            $(#[$doc:meta])*
            $name:ident: $type:ty = $default:expr, |$value:ident: $given:ty| $set:expr;
        )*
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[serde(default, rename_all = "camelCase", deny_unknown_fields)]
        pub struct $settings {
            $(pub(crate) $name: $type,)*
            pub(crate) identities: Identities,
            #[serde(skip)]
            pub(crate) clock: Option<Clock>,
            #[serde(skip)]
            pub(crate) limits: Limits,
        }

        impl Default for $settings {
            fn default() -> Self {
                Self {
                    $($name: $default,)*
                    identities: Identities::default(),
                    clock: None,
                    limits: Limits::default(),
                }
            }
        }

        impl $settings {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(mut self, $value: $given) -> Self {
                    self.$name = $set;
                    self
                }
            )*
        }
    };
}

settings! {
    /// The settings of an emulator, and its start.
    ///
    /// In JSON, all fields are optional and have the names of the methods in camel case:
    ///
    /// ```json
    /// { "physicalPartitions": 4, "latency": { "fixedMs": 3 }, "identities": { "<object id>": "dataReader" } }
    /// ```
    ///
    /// A running emulator can change `seed`, `latency`, `faults`, `indexBuild`, `replicaLag`,
    /// `ignoreLatestCommitted`, `multipleWriteLocations` and `uniqueKeyAnswer`, with
    /// [`Emulator::change`](crate::Emulator::change) or `POST /_admin/settings`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use cdb_emulator::{Effect, Emulator, Fault};
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
    /// let emulator = Emulator::builder()
    ///     .physical_partitions(4)
    ///     .latency(Duration::from_millis(3))
    ///     .fault(Fault::with_probability(Effect::DropAnswer, 0.01))
    ///     .seed(42) // the same faults in every run
    ///     .start()
    ///     .await?;
    /// println!("{}", emulator.endpoint());
    /// emulator.change(|settings| settings.latency(Duration::ZERO))?;
    /// emulator.stop().await;
    /// # Ok(()) }
    /// ```
    struct Settings;

    /// Listens on this address instead of 127.0.0.1, for example 0.0.0.0 in a container. Everyone
    /// who reaches the address and knows the key, which is public by default, reads and writes all
    /// data. The pages `/_explorer/` and `/_admin/` still answer connections of this machine only.
    ///
    /// Clients are told the name by which they reached the emulator, unless there are regions.
    host: IpAddr = Ipv4Addr::LOCALHOST.into(), |address: impl Into<IpAddr>| address.into();
    /// Listens on this port; 0, the default, is any free port. The default of the command is 8081.
    port: u16 = 0, |port: u16| port;
    /// Stores the data in this directory instead of in memory. Creates the directory if it is
    /// missing.
    data_dir: Option<PathBuf> = None, |directory: impl Into<PathBuf>| Some(directory.into());
    /// Accepts this account key (base64) instead of the well-known key.
    key: String = WELL_KNOWN_KEY.to_owned(), |key: impl Into<String>| key.into();
    /// Creates containers with this many physical partitions, 1 to 1000. Without it, a container has
    /// one per 10,000 request units per second that it is created with.
    physical_partitions: Option<u32> = None, |count: u32| Some(count);
    /// Enforces the throughput (request units per second) that a container or its database was
    /// created with, and this throughput for other containers. Without it, only replaced offers are
    /// enforced.
    throughput: Option<u32> = None, |request_units_per_second: u32| Some(request_units_per_second);
    /// Throttles requests with the header `x-ms-cosmos-priority-level: Low` before others, while less
    /// than a fifth of a second's throughput is left. Without it, the header is ignored, as by
    /// accounts without priority-based execution. Needs an enforced throughput.
    priority_based_execution: bool = false, |enabled: bool| enabled;
    /// Limits requests with the header `x-ms-cosmos-throughput-bucket` to a percentage of an enforced
    /// throughput, in all containers, with 429/3212: the id of each bucket, 1 to 5, and its
    /// percentage, 1 to 100. Other buckets have no limit.
    throughput_buckets: BTreeMap<u8, u8> = BTreeMap::new(), |percentages: impl IntoIterator<Item = (u8, u8)>| {
        percentages.into_iter().collect()
    };
    /// Answers 429/3210 to more than this many requests for metadata in five minutes: reads of
    /// databases and containers are counted apart from all others. The service allows 500 of each.
    /// Unlimited by default.
    metadata_budget: Option<u32> = None, |requests: u32| Some(requests);
    /// Gives the account this default consistency.
    consistency: Consistency = Consistency::Session, |level: Consistency| level;
    /// Answers violated unique keys in this form.
    unique_key_answer: UniqueKeyAnswer = UniqueKeyAnswer::SubStatus, |form: UniqueKeyAnswer| form;
    /// Keeps all versions and deletes of new containers for this time in minutes, for their change
    /// feed. Without it, only those with a `changeFeedPolicy` do.
    version_minutes: Option<u32> = None, |minutes: u32| Some(minutes);
    /// Gives the account these regions; the first one is the write region. Each region has an
    /// endpoint of its own, [`Emulator::region_endpoint`](crate::Emulator::region_endpoint), beside
    /// the global one. With a fixed [`port`](Self::port) the regions use the following ports.
    regions: Vec<String> = Vec::new(), |names: impl IntoIterator<Item: Into<String>>| {
        names.into_iter().map(Into::into).collect()
    };
    /// Lets all regions accept writes (`enableMultipleWriteLocations` of the account document).
    multiple_write_locations: bool = false, |enabled: bool| enabled;
    /// Lets the service move the writes of single physical partitions to another region
    /// (`enablePerPartitionFailoverBehavior` of the account document), as
    /// [`Emulator::fail_over_partition`](crate::Emulator::fail_over_partition) does.
    partition_failover: bool = false, |enabled: bool| enabled;
    /// Limits concurrent connections to this number; the default is 10,000. Further connections get
    /// 503 and are closed.
    max_connections: usize = 10_000, |count: usize| count;
    /// Uses HTTPS, with a certificate for `localhost` and the loopback addresses that is generated
    /// at the start. Clients have to trust
    /// [`Emulator::certificate_pem`](crate::Emulator::certificate_pem). Needs the feature `rustls-ring` or `rustls-aws-lc`.
    tls: bool = false, |enabled: bool| enabled;
    /// Restarts the random numbers of faults, latencies and lagging replicas from this seed; they
    /// start from 0. The same seed and the same requests give the same faults.
    seed: Option<u64> = None, |seed: u64| Some(seed);
    /// Delays every response, like the round trip to a real account. Takes a
    /// [`Duration`] or a distribution, at most 10 minutes. For a latency of some
    /// kinds of operation only, see [`Effect::Delay`](crate::Effect).
    latency: Latency = Latency::NONE, |latency: impl Into<Latency>| latency.into();
    /// Starts with these faults. A change of a running emulator adds them to the active faults.
    faults: Vec<Fault> = Vec::new(), |faults: impl IntoIterator<Item = Fault>| {
        faults.into_iter().collect()
    };
    /// Lets later index transformations take a while, as on a service with much data.
    index_build: IndexBuild = IndexBuild::Immediate, |build: IndexBuild| build;
    /// Lets a replica of every partition lag: reads without a session token, or with an older one,
    /// may see an older state. `None`, the default, is no lag. Writes before a change of the lag
    /// have reached all replicas.
    replica_lag: Option<ReplicaLag> = None, |lag: impl Into<Option<ReplicaLag>>| lag.into();
    /// Ignores the header `x-ms-cosmos-read-consistency-strategy`, as older gateways do: a read of
    /// the latest commit may then be answered by a lagging replica, at the charge of a usual read.
    ignore_latest_committed: bool = false, |ignored: bool| ignored;
}

impl Settings {
    /// Lets the service follow this clock instead of the machine's: dates of signatures, `_ts`,
    /// expiry, throughput, durations of faults, failovers, lagging replicas and index
    /// transformations. Delays of responses still take real time. JSON cannot set it.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = Some(Clock::Simulated(Arc::new(now)));
        self
    }

    /// Also accepts Microsoft Entra ID tokens of this identity, with the rights of the role. Call
    /// it once per identity. The emulator checks form, times, issuer and audience of a token, but
    /// not its signature. [`Emulator::entra_token`](crate::Emulator::entra_token) issues a token.
    #[must_use]
    pub fn identity(mut self, object_id: impl Into<String>, role: DataRole) -> Self {
        self.identities.add(object_id.into(), role);
        self
    }

    /// Adds a fault to [`faults`](Self::faults).
    #[must_use]
    pub fn fault(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Returns the settings with the fields of a JSON object.
    pub(crate) fn with(&self, changes: Map<String, Value>) -> Result<Self, EmulatorError> {
        let (mut fields, mut settings) = (self.to_map(), self.clone());
        for (name, value) in changes {
            fields.insert(name.clone(), value);
            // One field at a time, because serde's errors do not name the field of a bad value.
            let read = serde_json::from_value::<Self>(fields.clone().into());
            settings = Self {
                clock: settings.clock,
                limits: settings.limits,
                ..read.map_err(|error| EmulatorError::setting(name, error))?
            };
        }
        Ok(settings)
    }

    /// Returns the JSON form.
    pub(crate) fn to_map(&self) -> Map<String, Value> {
        // Fails only for a directory that is not UTF-8. Its settings cannot be changed by JSON.
        let map = serde_json::to_value(self).and_then(serde_json::from_value);
        map.unwrap_or_default()
    }

    /// Fails if a setting is invalid, or differs from `running` although it is fixed at the start.
    pub(crate) fn check_change(&self, running: &Self) -> Result<(), EmulatorError> {
        let running = running.to_map();
        let mut fixed = self.to_map().into_iter();
        let changed = fixed.find(|(name, value)| {
            !CHANGEABLE.contains(&name.as_str()) && running.get(name) != Some(value)
        });
        if let Some((name, _)) = changed {
            let names = CHANGEABLE.join(", ");
            let reason = format!("it is fixed at the start; a running emulator can change {names}");
            return Err(EmulatorError::setting(name, reason));
        }
        self.check()
    }

    /// Fails if a setting is invalid.
    pub(crate) fn check(&self) -> Result<(), EmulatorError> {
        if let Some(partitions) = self.physical_partitions
            && !(1..=MOST_PARTITIONS).contains(&partitions)
        {
            let reason = format!("a container has 1 to 1000 physical partitions, not {partitions}");
            return Err(EmulatorError::setting("physicalPartitions", reason));
        }
        if self.max_connections == 0 {
            let reason = "it cannot be 0; allow at least 1 connection";
            return Err(EmulatorError::setting("maxConnections", reason));
        }
        let names: BTreeSet<&str> = self.regions.iter().map(String::as_str).collect();
        if names.len() < self.regions.len() || names.contains("") {
            let given = self.regions.join(", ");
            let reason = format!("each region needs a name of its own, but these are: {given}");
            return Err(EmulatorError::setting("regions", reason));
        }
        if self.throughput == Some(0) {
            let reason = "it cannot be 0; leave it out for no limit";
            return Err(EmulatorError::setting("throughput", reason));
        }
        let invalid =
            |(id, percent): &(&u8, &u8)| !BUCKETS.contains(*id) || !(1..=100).contains(*percent);
        if let Some((id, percent)) = self.throughput_buckets.iter().find(invalid) {
            let reason = format!(
                "bucket {id} cannot have {percent} %; ids are 1 to 5, percentages 1 to 100"
            );
            return Err(EmulatorError::setting("throughputBuckets", reason));
        }
        let refuse = |setting: &'static str| move |reason| EmulatorError::setting(setting, reason);
        if let Some(lag) = &self.replica_lag {
            lag.check().map_err(refuse("replicaLag"))?;
        }
        self.latency.check().map_err(refuse("latency"))?;
        for (at, fault) in self.faults.iter().enumerate() {
            let refuse = |reason| EmulatorError::setting(format!("faults[{at}]"), reason);
            fault.check().map_err(refuse)?;
        }
        self.decoded_key().map(drop)
    }

    /// Returns the bytes of the account key.
    pub(crate) fn decoded_key(&self) -> Result<Vec<u8>, EmulatorError> {
        let key = STANDARD.decode(&self.key).ok();
        key.filter(|key| !key.is_empty()).ok_or_else(|| {
            EmulatorError::setting("key", "it is not base64 or is empty; pass a key in base64")
        })
    }
}
