//! Changes the definition of a live container.
//!
//! The service takes whole definitions, so members that this client does not know (spatial
//! indexes, conflict resolution, …) are sent back as they were read. The write is conditional on
//! the version that was read: a concurrent change by an administrator is read and kept, not
//! overwritten.

use cdb_model::ETag;
use cdb_model::container::ContainerDefinition;
use cdb_model::policy::{ComputedProperty, FullTextPath, IndexingPolicy, VectorEmbedding};
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::database::DatabaseClient;
use crate::database::search_definition::{
    Existing, add_computed, add_full_texts, add_search_indexes, add_vectors,
};
use crate::error::{Error, ErrorKind, RequestKind, Result};
use crate::protocol::{JSON, Request, Resource};

/// How often the definition is read and replaced while others change it or answers are lost.
const ATTEMPTS: u32 = 5;

/// Changes to the definition of a live container. A member that is `None` stays as it is.
///
/// See [`DatabaseClient::change_container`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerChange {
    /// The new indexing policy. It takes effect without interruption; new indexes are built in the
    /// background. Vector and full-text indexes that are there stay: they may serve other programs.
    pub indexing_policy: Option<IndexingPolicy>,
    /// Whether the indexes that are there at the time of the change stay, and those of
    /// [`indexing_policy`](Self::indexing_policy) are added.
    pub adds_indexes: bool,
    /// The policy that [`indexing_policy`](Self::indexing_policy) was made for. If another one is
    /// there at the time of the change, nothing changes.
    pub expected_policy: Option<IndexingPolicy>,
    /// The new default time to live, in the form of
    /// [`ContainerDefinition::default_ttl`](cdb_model::container::ContainerDefinition). Documents older than
    /// that expire at once.
    pub default_ttl: Option<Option<i64>>,
    /// Computed properties to add, or to replace by name. Others stay.
    pub computed_properties: Vec<ComputedProperty>,
    /// Full-text paths to add, or to replace. Others stay.
    pub full_text_paths: Vec<FullTextPath>,
    /// Vectors to add. Others stay.
    pub vectors: Vec<VectorEmbedding>,
}

impl ContainerChange {
    /// Changes the indexing policy.
    pub fn with_indexing_policy(mut self, policy: IndexingPolicy) -> Self {
        self.indexing_policy = Some(policy);
        self
    }

    /// Adds the indexes of a policy to those that are there at the time of the change.
    pub fn with_added_indexes(mut self, policy: IndexingPolicy) -> Self {
        self.adds_indexes = true;
        self.with_indexing_policy(policy)
    }

    /// Changes nothing unless the container still has this policy, or has the new one already.
    pub fn if_policy_is(mut self, policy: IndexingPolicy) -> Self {
        self.expected_policy = Some(policy);
        self
    }

    /// Changes the default time to live.
    pub fn with_default_ttl(mut self, seconds: Option<i64>) -> Self {
        self.default_ttl = Some(seconds);
        self
    }

    /// Adds or replaces the computed properties and full-text paths of a model, and adds its vectors.
    pub fn with_search_of(mut self, model: &ContainerDefinition) -> Self {
        self.computed_properties
            .clone_from(&model.computed_properties);
        self.full_text_paths
            .clone_from(&model.full_text_policy.full_text_paths);
        self.vectors
            .clone_from(&model.vector_embedding_policy.vector_embeddings);
        self
    }

    /// Whether `live` already has this time to live, and a policy that indexes the same as
    /// `policy`. Tells, after a lost answer, whether the change took place.
    fn is_applied(&self, live: &Map<String, Value>, policy: Option<&IndexingPolicy>) -> bool {
        let policy_is = |policy: &IndexingPolicy| {
            read::<IndexingPolicy>(live, "indexingPolicy")
                .is_some_and(|live| policy.differences_of(&live).is_empty())
        };
        policy.is_none_or(policy_is)
            && self
                .default_ttl
                .is_none_or(|seconds| read::<i64>(live, "defaultTtl") == seconds)
    }

    /// Returns the policy that replaces that of `live`.
    fn target(&self, live: &Map<String, Value>) -> Option<IndexingPolicy> {
        let policy = self.indexing_policy.clone()?;
        match read::<IndexingPolicy>(live, "indexingPolicy") {
            Some(live) if self.adds_indexes => Some(with_added_indexes(live, policy)),
            _ => Some(policy),
        }
    }

    /// Fails unless `live` has the expected policy.
    fn check_expected(&self, live: &Map<String, Value>) -> Result<()> {
        if self.expected_policy.is_none()
            || self.expected_policy == read::<IndexingPolicy>(live, "indexingPolicy")
        {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ContainerDiffers,
            "another writer has changed the policy; try again with the new one",
        ))
    }

    /// Applies the change. Returns `false` when `live` already has these values.
    fn apply(&self, live: &mut Map<String, Value>) -> Result<bool> {
        let target = self.target(live);
        let is_applied = self.is_applied(live, target.as_ref());
        if !is_applied {
            self.check_expected(live)?;
        }
        let computed = add_computed(live, &self.computed_properties, Existing::Replaced)?;
        let texts = add_full_texts(live, &self.full_text_paths, Existing::Replaced)?;
        let vectors = add_vectors(live, &self.vectors)?;
        if is_applied {
            return Ok(computed || texts || vectors);
        }
        if let Some(policy) = &target {
            let mut changed = match live.remove("indexingPolicy") {
                Some(Value::Object(old)) => old,
                _ => Map::new(),
            };
            // The only list of those below that a serialized policy omits when it is empty.
            changed.remove("compositeIndexes");
            changed.extend(object(&IndexingPolicy {
                vector_indexes: Vec::new(),
                full_text_indexes: Vec::new(),
                ..policy.clone()
            })?);
            add_search_indexes(&mut changed, policy)?;
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
        Ok(true)
    }
}

impl DatabaseClient {
    /// Changes the definition of the container `name`, and returns once the service has accepted
    /// the change. Indexes may be built for some time after that: see
    /// [`indexing_progress`](Self::indexing_progress).
    ///
    /// # Errors
    /// When the container does not exist, the identity may not change it, the service refuses the
    /// definition, or the container has another policy than
    /// [`if_policy_is`](ContainerChange::if_policy_is) names ([`ErrorKind::ContainerDiffers`]).
    pub async fn change_container(&self, name: &str, change: &ContainerChange) -> Result<()> {
        let changed = self.edit_container(name, |live| change.apply(live)).await;
        changed.map_err(|error| match error.kind() {
            ErrorKind::Forbidden => error.with_context(
                "this identity may not change the container; data-plane roles cannot: use an account key, or change it \
                 with the portal, ARM or the command line",
            ),
            _ => error,
        })
    }

    /// Reads the definition of the container `name`, edits it and replaces it; starts over when the
    /// definition changed in between or an answer was lost. `edit` returns `false` when nothing has
    /// to change.
    pub(super) async fn edit_container(
        &self,
        name: &str,
        edit: impl Fn(&mut Map<String, Value>) -> Result<bool>,
    ) -> Result<()> {
        let resource = self.container_resource(name)?;
        let mut backoff = self.client().pipeline().backoff();
        let mut attempts = 1;
        loop {
            match self.try_edit(&resource, &edit).await {
                Err(error)
                    if (error.is_precondition_failed() || error.is_ambiguous())
                        && attempts < ATTEMPTS =>
                {
                    attempts += 1;
                    tokio::time::sleep(backoff.delay(None)).await;
                }
                result => return result,
            }
        }
    }

    async fn try_edit(
        &self,
        resource: &Resource,
        edit: impl Fn(&mut Map<String, Value>) -> Result<bool>,
    ) -> Result<()> {
        let kind = RequestKind::ReadContainer;
        let read = Request::new(kind, Method::GET, resource.clone());
        let mut live: Map<String, Value> = self.send(&read).await?.metadata()?;
        let etag = live.get("_etag").and_then(Value::as_str).map(ETag::new);
        let etag = etag.ok_or_else(|| Error::protocol("container names no ETag"))?;
        if !edit(&mut live)? {
            return Ok(());
        }
        // The service owns the members that begin with an underscore: `_rid`, `_self`, `_etag`,
        // `_ts`, …
        live.retain(|name, _| !name.starts_with('_'));
        let kind = RequestKind::ReplaceContainer;
        let replace = Request::new(kind, Method::PUT, resource.clone()).if_match(&etag)?;
        self.send(&replace.json(JSON, &live)?).await.map(drop)
    }
}

/// Returns the live policy with the indexes of `model` added and none removed.
fn with_added_indexes(mut live: IndexingPolicy, model: IndexingPolicy) -> IndexingPolicy {
    live.indexing_mode = model.indexing_mode;
    let excluded = &mut live.excluded_paths;
    excluded.retain(|path| {
        model
            .included_paths
            .iter()
            .all(|included| included.path != path.path)
    });
    for path in model.included_paths {
        if !live.included_paths.contains(&path) {
            live.included_paths.push(path);
        }
    }
    // The service requires the root in one of the two lists.
    let has_root = live.included_paths.iter().any(|path| path.path == "/*")
        || live.excluded_paths.iter().any(|path| path.path == "/*");
    if !has_root {
        live.excluded_paths.extend(
            model
                .excluded_paths
                .into_iter()
                .filter(|path| path.path == "/*"),
        );
    }
    for composite in model.composite_indexes {
        if !live.composite_indexes.contains(&composite) {
            live.composite_indexes.push(composite);
        }
    }
    live.vector_indexes = model.vector_indexes;
    live.full_text_indexes = model.full_text_indexes;
    live
}

fn read<T: DeserializeOwned>(from: &Map<String, Value>, name: &str) -> Option<T> {
    serde_json::from_value(from.get(name)?.clone()).ok()
}

fn object(value: &impl Serialize) -> Result<Map<String, Value>> {
    match serde_json::to_value(value).map_err(Error::encode)? {
        Value::Object(members) => Ok(members),
        other => Err(Error::protocol(format!(
            "indexing policy is not an object: {other}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use cdb_model::policy::{IncludedPath, IndexingMode, PolicyDifference};
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
            vector_indexes: Vec::new(),
            full_text_indexes: Vec::new(),
        }
    }

    #[test]
    fn members_that_are_not_changed_are_sent_back_as_read() {
        let mut live = json!({ "id": "c", "conflictResolutionPolicy": { "mode": "LastWriterWins" },
            "defaultTtl": 60, "indexingPolicy": { "indexingMode": "none", "vectorIndexes": [{ "path": "/v" }],
            "compositeIndexes": [[{ "path": "/a" }, { "path": "/b" }]] } });
        let change = ContainerChange::default().with_indexing_policy(policy());
        let live = live.as_object_mut().unwrap();
        assert!(change.apply(live).unwrap());
        assert!(!change.apply(live).unwrap());
        let expected = json!({ "id": "c", "conflictResolutionPolicy": { "mode": "LastWriterWins" }, "defaultTtl": 60,
            "indexingPolicy": { "indexingMode": "consistent", "automatic": true, "vectorIndexes": [{ "path": "/v" }],
            "includedPaths": [{ "path": "/status/?" }], "excludedPaths": [] } });
        assert_eq!(Value::Object(live.clone()), expected);
    }

    #[test]
    fn the_default_ttl_is_set_and_removed() {
        let mut live = Map::new();
        for seconds in [Some(-1), Some(5), None] {
            let change = ContainerChange::default().with_default_ttl(seconds);
            assert!(change.apply(&mut live).unwrap());
            assert_eq!(read::<i64>(&live, "defaultTtl"), seconds);
            assert!(!change.apply(&mut live).unwrap());
        }
    }

    #[test]
    fn a_policy_that_changed_meanwhile_is_added_to_or_refused() {
        let live_with = |path: &str| {
            let shown = IndexingPolicy {
                included_paths: vec![IncludedPath {
                    path: path.to_owned(),
                }],
                ..policy()
            };
            let live = json!({ "indexingPolicy": shown })
                .as_object()
                .unwrap()
                .clone();
            (shown, live)
        };
        let (shown, mut live) = live_with("/old/?");
        let (_, mut changed) = live_with("/other/?");
        let replace = ContainerChange::default().with_indexing_policy(policy());
        let replace = replace.if_policy_is(shown);
        let before = changed.clone();
        let refused = replace.apply(&mut changed).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ContainerDiffers);
        assert_eq!(changed, before);
        assert!(replace.apply(&mut live).unwrap());
        // The change was made, and its answer was lost.
        assert!(!replace.apply(&mut live).unwrap());
        let add = ContainerChange::default().with_added_indexes(policy());
        assert!(add.apply(&mut changed).unwrap());
        let paths = &changed["indexingPolicy"]["includedPaths"];
        assert_eq!(
            *paths,
            json!([{ "path": "/other/?" }, { "path": "/status/?" }])
        );
    }

    #[test]
    fn added_indexes_remove_none() {
        let parse = |text: &str| serde_json::from_str::<IndexingPolicy>(text).unwrap();
        let model = parse(
            r#"{ "indexingMode": "consistent", "includedPaths": [{ "path": "/status/?" }], "excludedPaths": [{ "path": "/*" }],
                "compositeIndexes": [[{ "path": "/status" }, { "path": "/total" }]] }"#,
        );
        for live in [
            r#"{ "indexingMode": "consistent", "includedPaths": [{ "path": "/*" }], "excludedPaths": [{ "path": "/\"_etag\"/?" }] }"#,
            r#"{ "indexingMode": "consistent", "includedPaths": [{ "path": "/old/?" }], "excludedPaths": [{ "path": "/*" }],
                "compositeIndexes": [[{ "path": "/old" }, { "path": "/older" }]] }"#,
            r#"{ "indexingMode": "none" }"#,
        ] {
            let live = parse(live);
            let policy = with_added_indexes(live.clone(), model.clone());
            assert!(
                live.included_paths
                    .iter()
                    .all(|path| policy.included_paths.contains(path))
            );
            assert!(
                live.composite_indexes
                    .iter()
                    .all(|index| policy.composite_indexes.contains(index))
            );
            let differences = model.differences_of(&policy);
            assert!(
                !differences.iter().any(PolicyDifference::breaks_queries),
                "{differences:?}"
            );
        }
    }
}
