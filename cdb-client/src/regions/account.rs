//! The account document: regions, their endpoints, and the default consistency.

use serde::Deserialize;

/// The account document.
///
/// ```
/// use cdb_client::{CosmosClient, MasterKey};
/// use cdb_emulator::Emulator;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let emulator = Emulator::builder().regions(["West US", "East US"]).start().await?;
/// let client = CosmosClient::builder(emulator.endpoint())
///     .credential(MasterKey::new(emulator.key())?)
///     .preferred_regions(["East US"])
///     .build()?;
/// let account = client.account().await?;
/// assert_eq!(account.write_regions[0].name, "West US");
/// assert!(!account.has_several_write_regions);
/// assert_eq!(account.consistency(), "Session");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Account {
    /// The regions that accept writes, the preferred one of the service first.
    #[serde(rename = "writableLocations")]
    pub write_regions: Vec<Region>,
    /// The regions that answer reads, in the order of the account's failover priorities.
    #[serde(rename = "readableLocations")]
    pub read_regions: Vec<Region>,
    /// Whether several regions accept writes, so that a conditional write is decided per region.
    #[serde(rename = "enableMultipleWriteLocations")]
    pub has_several_write_regions: bool,
    /// Whether the service may move the writes of a single physical partition to another region.
    #[serde(rename = "enablePerPartitionFailoverBehavior")]
    pub has_partition_failover: bool,
    #[serde(rename = "userConsistencyPolicy")]
    consistency: ConsistencyPolicy,
}

/// A region of an account. See [`Account`].
///
/// ```
/// use cdb_client::account::{Account, Region};
///
/// fn endpoints(account: &Account) -> impl Iterator<Item = &str> {
///     account.read_regions.iter().map(|region: &Region| region.endpoint.as_str())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Region {
    /// The name of the region, such as `West Europe`.
    pub name: String,
    /// The endpoint of the account in this region.
    #[serde(rename = "databaseAccountEndpoint")]
    pub endpoint: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConsistencyPolicy {
    default_consistency_level: String,
}

impl Account {
    /// Returns the default consistency level, such as `Session`; empty when the account document
    /// does not name it.
    pub fn consistency(&self) -> &str {
        &self.consistency.default_consistency_level
    }

    /// Whether every read of a single-region account sees the latest committed state, at the price
    /// of two replicas.
    pub(crate) fn reads_from_quorum(&self) -> bool {
        matches!(self.consistency(), "Strong" | "BoundedStaleness")
    }

    /// Returns the number of different regions.
    pub(crate) fn region_count(&self) -> usize {
        let all = self.write_regions.iter().chain(&self.read_regions);
        let names: std::collections::BTreeSet<String> =
            all.map(|region| normalized(&region.name)).collect();
        names.len()
    }
}

/// Returns the name of a region in the form that the official clients compare: `West Europe` equals
/// `westeurope`.
pub(crate) fn normalized(region: &str) -> String {
    let letters = region.chars().filter(|c| !c.is_whitespace());
    letters.flat_map(char::to_lowercase).collect()
}
