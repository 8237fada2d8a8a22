//! The permits of limited keys, and the leases of the runtimes that hold them.

use std::collections::BTreeMap;

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};

use super::limits::LIMITS_PARTITION;

/// The seconds for which a document is kept after its last write. Permits are written, or given back, within 20
/// minutes.
const KEPT: u32 = 60 * 60;

/// The permits and the starts of one limited key, shared by the runtimes that have activities with the key.
///
/// Runtimes change it by conditional patches: all permits, held and free, are `cap` in every version. The parts of a
/// runtime are the entries with its name.
#[derive(Document, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "limitedKey", id = "{instance_id}:key")]
pub struct LimitedKey {
    /// [`LIMITS_PARTITION`] with the key, which spreads the keys over the container.
    #[document(partition_key)]
    pub instance_id: String,
    /// The key, `tenant=ada`.
    pub key: String,
    /// The time of the change of the rules that `cap` belongs to, in milliseconds.
    pub rule: i64,
    /// The most activities that run at a time; 0 without such a limit.
    pub cap: i64,
    /// The permits that no runtime holds. Negative while more run than a new limit allows.
    pub free: i64,
    /// The next start that is not reserved, in microseconds since the epoch.
    pub next_start: i64,
    /// The runtime that made the last reservation of starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_by: Option<String>,
    /// The number of the patch of that reservation.
    #[serde(default)]
    pub reserved_in: i64,
    /// The permits that each runtime holds.
    pub held: BTreeMap<String, i64>,
    /// The number of patches of each runtime.
    pub patches: BTreeMap<String, i64>,
    /// The time since which each runtime has stood in line, in microseconds since the epoch; 0 outside of the line.
    pub since: BTreeMap<String, i64>,
    /// The permits for which each runtime stands in line.
    pub wants: BTreeMap<String, i64>,
    /// The seconds until the service deletes the document after its last change.
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
}

impl LimitedKey {
    /// Returns the key of the document of a limited key.
    pub fn key_of(key: &str) -> LimitedKeyKey {
        LimitedKeyKey::new(format!("{LIMITS_PARTITION}:{key}"))
    }

    /// Creates the document of a key, which nobody uses.
    pub(crate) fn new(key: &str) -> Self {
        Self {
            instance_id: Self::key_of(key).instance_id,
            key: key.to_owned(),
            ttl: Some(KEPT),
            ..Self::default()
        }
    }

    /// Returns the permits that runtimes hold.
    pub fn running(&self) -> i64 {
        self.held.values().sum()
    }
}

/// The lease of a runtime, while the container has limits: the permits of the runtime are returned after its end.
#[derive(Document, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "runtimeLease", id = "{instance_id}:lease")]
pub struct RuntimeLease {
    /// `cdb:runtime:` with the name of the runtime, a random one per process.
    #[document(partition_key)]
    pub instance_id: String,
    /// The end, by the service's clock.
    pub until: Timestamp,
    /// Whether another runtime has ended the lease. It cannot be renewed afterwards.
    pub is_dead: bool,
    /// The seconds until the service deletes the document after its last change.
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u32>,
}

impl RuntimeLease {
    /// Returns the key of the lease of a runtime.
    pub fn key_of(runtime: &str) -> RuntimeLeaseKey {
        RuntimeLeaseKey::new(format!("cdb:runtime:{runtime}"))
    }

    pub(crate) fn new(runtime: &str, until: Timestamp, is_dead: bool) -> Self {
        Self {
            instance_id: Self::key_of(runtime).instance_id,
            until,
            is_dead,
            ttl: Some(KEPT),
        }
    }
}
