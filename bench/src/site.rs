//! The store of a measured provider and its counters: an emulator, or a PostgreSQL behind a proxy.
//! Both are a round trip away.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_emulator::Emulator;

use crate::postgres::{Postgres, Schema};
use cdb_bench_child::{Peer, Store};

/// The traffic of a store.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Requests by kind.
    pub kinds: BTreeMap<String, u64>,
    /// Request units; none for PostgreSQL.
    pub charge: Option<f64>,
    /// Bytes of bodies in both directions.
    pub bytes: u64,
    /// SQL texts and how often each was sent.
    pub queries: BTreeMap<String, u64>,
}

impl Traffic {
    /// All requests for data.
    pub fn requests(&self) -> u64 {
        self.kinds.values().sum()
    }
}

/// A store.
#[derive(Debug)]
pub enum Site<'a> {
    /// An emulator, for the providers on Cosmos DB.
    Emulator(Peer, Emulator),
    /// A schema of a PostgreSQL.
    Postgres(Schema<'a>),
}

impl<'a> Site<'a> {
    /// Creates an empty store for one measurement.
    pub async fn open(
        peer: Peer,
        latency: Duration,
        postgres: Option<&'a Postgres>,
    ) -> Result<Self, String> {
        if peer == Peer::Postgres {
            let postgres = postgres.ok_or("no PostgreSQL is running")?;
            return Ok(Self::Postgres(postgres.schema(latency).await?));
        }
        Self::emulated(peer, latency, 1).await
    }

    /// Creates an empty emulator whose containers have this many physical partitions.
    pub async fn emulated(peer: Peer, latency: Duration, partitions: u32) -> Result<Self, String> {
        let emulator = Emulator::builder()
            .latency(latency)
            .physical_partitions(partitions);
        let emulator = emulator.start().await;
        Ok(Self::Emulator(
            peer,
            emulator.map_err(|error| error.to_string())?,
        ))
    }

    /// Returns the address for a provider.
    pub fn store(&self) -> Store {
        match self {
            Self::Emulator(peer, emulator) => Store {
                peer: *peer,
                endpoint: emulator.endpoint(),
                key: emulator.key().to_owned(),
            },
            Self::Postgres(schema) => Store {
                peer: Peer::Postgres,
                endpoint: schema.url(),
                key: schema.name(),
            },
        }
    }

    /// Changes the round trip, after a set-up without one.
    pub fn set_latency(&self, latency: Duration) {
        match self {
            Self::Emulator(_, emulator) => {
                let changed = emulator.change(|settings| settings.latency(latency));
                changed.expect("the latency is valid");
            }
            Self::Postgres(schema) => schema.set_latency(latency),
        }
    }

    /// Resets the counters.
    pub fn reset(&self) {
        match self {
            Self::Emulator(_, emulator) => emulator.reset_requests(),
            Self::Postgres(schema) => schema.reset(),
        }
    }

    /// Returns the counters.
    pub fn traffic(&self) -> Traffic {
        match self {
            Self::Emulator(_, emulator) => {
                let log = emulator.requests();
                let data = log
                    .counts
                    .iter()
                    .filter(|(kind, _)| kind.to_string() != "metadata");
                Traffic {
                    kinds: data
                        .map(|(kind, count)| (kind.to_string(), *count))
                        .collect(),
                    charge: Some(log.charge),
                    bytes: log.bytes_in + log.bytes_out,
                    queries: log.queries,
                }
            }
            Self::Postgres(schema) => schema.traffic(),
        }
    }

    /// Returns the emulator, if this is one.
    pub fn emulator(&self) -> Option<&Emulator> {
        match self {
            Self::Emulator(_, emulator) => Some(emulator),
            Self::Postgres(_) => None,
        }
    }
}
