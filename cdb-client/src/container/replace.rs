//! Changing the definition of a live container: what can be changed, and nothing else.
//!
//! The service takes whole definitions, so what this client does not know (vector indexes, conflict resolution, …) is sent
//! back as it was read. The write is conditional on the version that was read: an administrator's change in between is
//! read and kept, not overwritten.

use cdb_model::{ETag, IndexingPolicy};
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::client::DatabaseClient;
use crate::container::point::JSON;
use crate::error::{Error, ErrorKind, Result};
use crate::operation::OperationKind;
use crate::request::Request;

/// How often a change is tried that others get in the way of.
const ATTEMPTS: u32 = 5;

/// What to change about a live container. What is left out stays as it is.
///
/// ```
/// use cdb_client::{Bootstrap, ContainerChange};
/// use cdb_model::Container;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
/// # shop::with_client(async |client| {
///
/// let database = client.database("shop");
/// database.bootstrap::<Shop>("orders", Bootstrap::CreateIfMissing).await?;
/// let change = ContainerChange::default()
///     .with_indexing_policy(Shop::definition().indexing_policy)
///     .with_default_ttl(Some(30 * 24 * 3600));
/// database.change_container("orders", &change).await?;
/// assert_eq!(database.definition::<Shop>("orders").await?.default_ttl, Some(2_592_000));
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerChange {
    /// The new indexing policy. Takes effect without interruption; indexes that are new are built in the background.
    pub indexing_policy: Option<IndexingPolicy>,
    /// The new default time to live, in the form of
    /// [`ContainerDefinition::default_ttl`](cdb_model::ContainerDefinition). Documents that have outlived it go at once.
    pub default_ttl: Option<Option<i64>>,
}

impl ContainerChange {
    /// Changes the indexing policy.
    pub fn with_indexing_policy(mut self, policy: IndexingPolicy) -> Self {
        self.indexing_policy = Some(policy);
        self
    }

    /// Changes the default time to live.
    pub fn with_default_ttl(mut self, seconds: Option<i64>) -> Self {
        self.default_ttl = Some(seconds);
        self
    }

    /// Whether `live` is as it would be after the change: answers "did it happen?" after a lost answer.
    fn is_done(&self, live: &Map<String, Value>) -> bool {
        let policy_is = |policy: &IndexingPolicy| {
            read::<IndexingPolicy>(live, "indexingPolicy")
                .is_some_and(|live| policy.drift_of(&live).is_empty())
        };
        self.indexing_policy.as_ref().is_none_or(policy_is)
            && self
                .default_ttl
                .is_none_or(|seconds| read::<i64>(live, "defaultTtl") == seconds)
    }

    fn apply(&self, live: &mut Map<String, Value>) -> Result<()> {
        // What begins so is the service's own: `_rid`, `_self`, `_etag`, `_ts`, …
        live.retain(|name, _| !name.starts_with('_'));
        if let Some(policy) = &self.indexing_policy {
            let old = live.remove("indexingPolicy");
            let mut changed = match old {
                Some(Value::Object(old)) => old,
                _ => Map::new(),
            };
            // The one member that a policy leaves out when it is empty.
            changed.remove("compositeIndexes");
            changed.extend(object(policy)?);
            live.insert("indexingPolicy".to_owned(), Value::Object(changed));
        }
        match self.default_ttl {
            Some(Some(seconds)) => {
                live.insert("defaultTtl".to_owned(), seconds.into());
            }
            Some(None) => {
                live.remove("defaultTtl");
            }
            None => {}
        }
        Ok(())
    }
}

impl DatabaseClient {
    /// Changes the definition of the container `name`, and returns once the service has taken the change. Indexes may be
    /// built for some time after that: see [`indexing_progress`](Self::indexing_progress).
    ///
    /// # Errors
    /// When the container does not exist, the identity may not change it, or the service refuses the definition.
    pub async fn change_container(&self, name: &str, change: &ContainerChange) -> Result<()> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            let (mut live, etag) = self.read_whole_container(name).await?;
            if change.is_done(&live) {
                return Ok(());
            }
            change.apply(&mut live)?;
            let resource = self.container_resource(name)?;
            let request = Request::new(OperationKind::ReplaceContainer, Method::PUT, resource)
                .if_match(&etag)?
                .json(JSON, &live)?;
            match self.client().pipeline().send(&request, None).await {
                Err(error) if error.is_precondition_failed() || error.is_ambiguous() => {
                    last = Some(error);
                }
                Err(error) if error.kind() == ErrorKind::Forbidden => {
                    return Err(error.with_context(
                        "this identity may not change the container; data-plane roles cannot: use an account key, or change it \
                         with the portal, ARM or the command line",
                    ));
                }
                other => return other.map(drop),
            }
        }
        Err(last.unwrap_or_else(|| Error::protocol("the container could not be changed")))
    }

    async fn read_whole_container(&self, name: &str) -> Result<(Map<String, Value>, ETag)> {
        let resource = self.container_resource(name)?;
        let request = Request::new(OperationKind::ReadContainer, Method::GET, resource);
        let settled = self.client().pipeline().send(&request, None).await?;
        Ok((settled.json()?, settled.etag()?))
    }
}

fn read<T: DeserializeOwned>(from: &Map<String, Value>, name: &str) -> Option<T> {
    serde_json::from_value(from.get(name)?.clone()).ok()
}

fn object(value: &impl Serialize) -> Result<Map<String, Value>> {
    match serde_json::to_value(value).map_err(Error::encode)? {
        Value::Object(members) => Ok(members),
        other => Err(Error::protocol(format!("a policy is no object: {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use cdb_model::{IncludedPath, IndexingMode};
    use serde_json::json;

    use super::*;

    fn policy() -> IndexingPolicy {
        IndexingPolicy {
            indexing_mode: IndexingMode::Consistent,
            automatic: true,
            included_paths: vec![IncludedPath {
                path: "/status/?".to_owned(),
            }],
            excluded_paths: Vec::new(),
            composite_indexes: Vec::new(),
        }
    }

    #[test]
    fn what_is_not_changed_is_sent_back_as_it_was() {
        let mut live = json!({ "id": "c", "_etag": "\"1\"", "conflictResolutionPolicy": { "mode": "LastWriterWins" },
            "defaultTtl": 60, "indexingPolicy": { "indexingMode": "none", "vectorIndexes": [{ "path": "/v" }],
            "compositeIndexes": [[{ "path": "/a" }, { "path": "/b" }]] } });
        let change = ContainerChange::default().with_indexing_policy(policy());
        let live = live.as_object_mut().unwrap();
        assert!(!change.is_done(live));
        change.apply(live).unwrap();
        assert!(change.is_done(live));
        let expected = json!({ "id": "c", "conflictResolutionPolicy": { "mode": "LastWriterWins" }, "defaultTtl": 60,
            "indexingPolicy": { "indexingMode": "consistent", "automatic": true, "vectorIndexes": [{ "path": "/v" }],
            "includedPaths": [{ "path": "/status/?" }], "excludedPaths": [] } });
        assert_eq!(Value::Object(live.clone()), expected);
    }

    #[test]
    fn expiry_is_set_and_turned_off() {
        let mut live = Map::new();
        for seconds in [Some(-1), Some(5), None] {
            let change = ContainerChange::default().with_default_ttl(seconds);
            change.apply(&mut live).unwrap();
            assert_eq!(read::<i64>(&live, "defaultTtl"), seconds);
            assert!(change.is_done(&live));
        }
    }
}
