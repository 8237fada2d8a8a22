//! Adds to a live container the indexes, the vectors, the computed properties and the expiry that the
//! model needs. Removes nothing.
//!
//! Other programs may have created the container and may still read it: their indexes stay, and so
//! does every member of the definition that this client does not know. A container of
//! `duroxide-cdb` is taken over this way.

use std::time::Duration;

use cdb_model::container::ContainerDefinition;
use cdb_model::policy::{IncludedPath, PolicyDifference};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::database::search_definition::{
    Existing, add_computed, add_full_texts, add_vectors, list,
};
use crate::database::{DatabaseClient, Difference};
use crate::error::{Error, ErrorKind, Result};

/// The first and the longest time between two reads of the indexing progress. An account allows 500
/// reads of databases and containers in five minutes, for all processes together (concepts-limits,
/// "Request limits").
const PROGRESS_INTERVALS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(5)];

impl Difference {
    /// Whether an addition to the container removes this difference: the container lacks an index
    /// that the model's queries need, or an expiry.
    pub(super) fn is_addition(&self) -> bool {
        match self {
            Self::Indexing(difference) => {
                difference.breaks_queries() && !matches!(difference, PolicyDifference::Mode { .. })
            }
            Self::TimeToLive { expected, found } => expected.is_some() && found.is_none(),
            Self::ComputedProperty { found, .. } => found.is_none(),
            Self::Vector { found, .. } => found.is_none(),
            Self::FullText { found, .. } => found.is_none(),
            Self::PartitionKey { .. }
            | Self::PartitionKeyVersion { .. }
            | Self::UniqueKeys { .. } => false,
        }
    }
}

impl DatabaseClient {
    /// Adds to the container `name` what `model` has and the container lacks, and waits until its
    /// index is built.
    pub(super) async fn extend_container(
        &self,
        name: &str,
        model: &ContainerDefinition,
        index_timeout: Duration,
    ) -> Result<()> {
        self.edit_container(name, |live| add_missing(live, model))
            .await?;
        tracing::info!(container = name, "indexes are added");
        let progress = self.indexing_progress(name).await?;
        self.wait_until_indexed(name, progress, index_timeout).await
    }

    /// Waits until the index is built: a query that sorts by a composite index that is being built
    /// is refused. `progress` is the last known one. Logs every change of the progress.
    pub(super) async fn wait_until_indexed(
        &self,
        name: &str,
        mut progress: Option<u8>,
        limit: Duration,
    ) -> Result<()> {
        let started = tokio::time::Instant::now();
        let [mut interval, longest] = PROGRESS_INTERVALS;
        let mut logged = None;
        while let Some(percent) = progress.filter(|percent| *percent < 100) {
            if started.elapsed() >= limit {
                let message = format!(
                    "index of container `{name}` is built to {percent} % after {} s; open the container again later, or \
                     wait longer (`index_timeout`)",
                    limit.as_secs()
                );
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
            if logged.replace(percent) != Some(percent) {
                tracing::info!(container = name, percent, "index is being built");
            }
            tokio::time::sleep(interval).await;
            interval = (interval * 2).min(longest);
            progress = match self.indexing_progress(name).await {
                // The budget of metadata reads is exhausted, which says nothing about the index.
                Err(error) if error.is_throttled() => Some(percent),
                read => read?,
            };
        }
        Ok(())
    }
}

/// Adds to a definition, as the service wrote it, what it lacks. Everything else stays as the
/// service wrote it. Returns `false` when nothing is missing.
fn add_missing(live: &mut Map<String, Value>, model: &ContainerDefinition) -> Result<bool> {
    let known: ContainerDefinition =
        serde_json::from_value(Value::Object(live.clone())).map_err(Error::decode)?;
    let missing_ttl = model.default_ttl.filter(|_| known.default_ttl.is_none());
    if let Some(ttl) = missing_ttl {
        live.insert("defaultTtl".to_owned(), ttl.into());
    }
    let computed = add_computed(live, &model.computed_properties, Existing::Kept)?;
    let texts = &model.full_text_policy.full_text_paths;
    let texts = add_full_texts(live, texts, Existing::Kept)?;
    let vectors = add_vectors(live, &model.vector_embedding_policy.vector_embeddings)?;
    let indexes = add_indexes(live, &known, model)?;
    Ok(missing_ttl.is_some() || computed || texts || vectors || indexes)
}

/// Adds the indexes that a definition lacks. Returns whether it lacked any.
fn add_indexes(
    live: &mut Map<String, Value>,
    known: &ContainerDefinition,
    model: &ContainerDefinition,
) -> Result<bool> {
    let missing = model.indexing_policy.lacking_in(&known.indexing_policy);
    let Some(policy) = live
        .get_mut("indexingPolicy")
        .and_then(Value::as_object_mut)
    else {
        return Err(Error::protocol("container has no indexing policy"));
    };
    let is_included = |path: &Value| {
        let path = path["path"].as_str().unwrap_or_default();
        missing
            .included_paths
            .iter()
            .any(|IncludedPath { path: needed }| needed == path)
    };
    // The service refuses a path that is in both lists.
    list(policy, "excludedPaths")?.retain(|path| !is_included(path));
    let added = [
        push(policy, "includedPaths", &missing.included_paths)?,
        push(policy, "compositeIndexes", &missing.composite_indexes)?,
        push(policy, "vectorIndexes", &missing.vector_indexes)?,
        push(policy, "fullTextIndexes", &missing.full_text_indexes)?,
    ];
    Ok(added.contains(&true))
}

/// Appends values to a list of a policy. Returns whether there were any.
fn push<T: Serialize>(policy: &mut Map<String, Value>, name: &str, values: &[T]) -> Result<bool> {
    for value in values {
        let value = serde_json::to_value(value).map_err(Error::encode)?;
        list(policy, name)?.push(value);
    }
    Ok(!values.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn extended(mut live: Value, model: Value) -> Value {
        let model = serde_json::from_value(model).unwrap();
        add_missing(live.as_object_mut().unwrap(), &model).unwrap();
        live
    }

    fn composite(paths: [&str; 2], order: &str) -> Value {
        json!(paths.map(|path| json!({"path": path, "order": order})))
    }

    #[test]
    fn missing_paths_and_composites_are_added_after_the_existing_ones() {
        let key = json!({"paths": ["/pk"], "kind": "Hash", "version": 2});
        let live = json!({
            "id": "c", "partitionKey": key, "indexingPolicy": {
                "indexingMode": "consistent",
                "includedPaths": [{"path": "/theirs/?", "indexes": [{"kind": "Range"}]}, {"path": "/a/?"}],
                "excludedPaths": [{"path": "/*"}, {"path": "/b/?"}],
                "compositeIndexes": [composite(["/a", "/c"], "descending")],
            },
        });
        let model = json!({
            "partitionKey": key, "defaultTtl": -1, "indexingPolicy": {
                "indexingMode": "consistent",
                "includedPaths": [{"path": "/a/?"}, {"path": "/b/?"}],
                "excludedPaths": [{"path": "/*"}, {"path": "/text/*"}],
                // The first is the inverse of one that is there, which serves the same sorts.
                "compositeIndexes": [composite(["/a", "/c"], "ascending"), composite(["/a", "/b"], "ascending")],
            },
        });
        let extended = extended(live, model);
        assert_eq!(extended["defaultTtl"], -1);
        assert_eq!(
            extended["indexingPolicy"],
            json!({
                "indexingMode": "consistent",
                "includedPaths": [
                    {"path": "/theirs/?", "indexes": [{"kind": "Range"}]}, {"path": "/a/?"}, {"path": "/b/?"}
                ],
                "excludedPaths": [{"path": "/*"}],
                "compositeIndexes": [
                    composite(["/a", "/c"], "descending"), composite(["/a", "/b"], "ascending")
                ],
            })
        );
    }

    #[test]
    fn an_existing_default_ttl_is_kept() {
        let key = json!({"paths": ["/pk"], "kind": "Hash", "version": 2});
        let policy = json!({"indexingMode": "consistent"});
        let live = json!({"partitionKey": key, "indexingPolicy": policy, "defaultTtl": 600});
        let model = json!({"partitionKey": key, "indexingPolicy": policy, "defaultTtl": -1});
        assert_eq!(extended(live, model)["defaultTtl"], 600);
    }
}
