//! Giving a container that is there what the model needs of it: indexes and expiry are added, nothing is taken away.
//!
//! Others may have made the container, and may still read it: their indexes stay, and so does everything of its
//! definition that we do not know. A container of `duroxide-cdb` becomes ours this way.

use std::time::Duration;

use cdb_model::{ContainerDefinition, Drift, ETag, IncludedPath};
use http::Method;
use serde_json::{Map, Value};

use crate::client::DatabaseClient;
use crate::container::difference::Difference;
use crate::container::point::JSON;
use crate::error::{Error, ErrorKind, Result};
use crate::operation::OperationKind;
use crate::request::Request;

/// How often the definition is read and replaced while others change it or answers are lost.
const ATTEMPTS: u32 = 5;
/// How long a new index may take. It is built with spare request units, so a large container can take longer.
const INDEX_TIME: Duration = Duration::from_secs(600);
const LOOK_AGAIN: Duration = Duration::from_millis(500);

impl Difference {
    /// Whether queries of the model are refused or scan, or documents do not expire that should: what can be added.
    pub(super) fn is_addition(&self) -> bool {
        match self {
            Self::Indexing(drift) => drift.breaks_queries() && !matches!(drift, Drift::Mode { .. }),
            Self::TimeToLive { expected, found } => expected.is_some() && found.is_none(),
            Self::PartitionKey { .. } | Self::UniqueKeys { .. } => false,
        }
    }
}

impl DatabaseClient {
    /// Adds to the container `name` what `model` has and it lacks, and waits until its index follows.
    pub(super) async fn extend_container(
        &self,
        name: &str,
        model: &ContainerDefinition,
    ) -> Result<()> {
        let mut backoff = self.client().pipeline().backoff();
        let mut attempts = 1;
        loop {
            match self.try_extend(name, model).await {
                // The next attempt reads whether a replacement without an answer took place.
                Err(error)
                    if (error.is_precondition_failed() || error.is_ambiguous())
                        && attempts < ATTEMPTS =>
                {
                    attempts += 1;
                    tokio::time::sleep(backoff.delay(None)).await;
                }
                other => break other?,
            }
        }
        tracing::info!(
            container = name,
            "indexes are added; waiting until they are built"
        );
        self.until_indexed(name).await
    }

    /// Reads the definition and replaces it, unless nothing is lacking any more.
    async fn try_extend(&self, name: &str, model: &ContainerDefinition) -> Result<()> {
        let resource = self.container_resource(name)?;
        let read = Request::new(OperationKind::ReadContainer, Method::GET, resource.clone());
        let live = self.send(&read).await?;
        let mut body: Map<String, Value> = live.json()?;
        if !add_missing(&mut body, model)? {
            return Ok(());
        }
        let etag = body.get("_etag").and_then(Value::as_str).map(ETag::new);
        let mut replace = Request::new(OperationKind::ReplaceContainer, Method::PUT, resource);
        if let Some(etag) = &etag {
            replace = replace.if_match(etag)?;
        }
        self.send(&replace.json(JSON, &body)?).await.map(drop)
    }

    async fn until_indexed(&self, name: &str) -> Result<()> {
        let started = tokio::time::Instant::now();
        loop {
            match self.indexing_progress(name).await? {
                None | Some(100..) => return Ok(()),
                Some(percent) if started.elapsed() > INDEX_TIME => {
                    return Err(Error::new(
                        ErrorKind::Unavailable,
                        format!(
                            "index of container `{name}` is built to {percent} %; open it again later"
                        ),
                    ));
                }
                Some(_) => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
    }
}

/// Adds to a definition, as the service wrote it, what it lacks. The rest stays as it is, word for word. Returns `false`
/// when nothing is lacking.
fn add_missing(live: &mut Map<String, Value>, model: &ContainerDefinition) -> Result<bool> {
    let known: ContainerDefinition =
        serde_json::from_value(Value::Object(live.clone())).map_err(Error::decode)?;
    let lacking_ttl = model.default_ttl.filter(|_| known.default_ttl.is_none());
    if let Some(ttl) = lacking_ttl {
        live.insert("defaultTtl".to_owned(), ttl.into());
    }
    let lacking = model.indexing_policy.lacking_in(&known.indexing_policy);
    let Some(policy) = live
        .get_mut("indexingPolicy")
        .and_then(Value::as_object_mut)
    else {
        return Err(Error::protocol("container names no indexing policy"));
    };
    let is_included = |path: &Value| {
        let path = path["path"].as_str().unwrap_or_default();
        lacking
            .included_paths
            .iter()
            .any(|IncludedPath { path: needed }| needed == path)
    };
    // The service refuses a path that is in both lists.
    list(policy, "excludedPaths")?.retain(|path| !is_included(path));
    let json = |value| serde_json::to_value(value).map_err(Error::encode);
    for path in &lacking.included_paths {
        let path = json(path)?;
        list(policy, "includedPaths")?.push(path);
    }
    for paths in &lacking.composite_indexes {
        let paths = serde_json::to_value(paths).map_err(Error::encode)?;
        list(policy, "compositeIndexes")?.push(paths);
    }
    let lacks_indexes = !lacking.included_paths.is_empty() || !lacking.composite_indexes.is_empty();
    Ok(lacking_ttl.is_some() || lacks_indexes)
}

fn list<'a>(policy: &'a mut Map<String, Value>, name: &str) -> Result<&'a mut Vec<Value>> {
    policy
        .entry(name)
        .or_insert_with(|| Value::Array(Vec::new()))
        .as_array_mut()
        .ok_or_else(|| Error::protocol(format!("`{name}` of an indexing policy is no list")))
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
    fn paths_and_composites_that_lack_are_added_behind_those_that_are_there() {
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
    fn an_expiry_that_is_set_stays() {
        let key = json!({"paths": ["/pk"], "kind": "Hash", "version": 2});
        let policy = json!({"indexingMode": "consistent"});
        let live = json!({"partitionKey": key, "indexingPolicy": policy, "defaultTtl": 600});
        let model = json!({"partitionKey": key, "indexingPolicy": policy, "defaultTtl": -1});
        assert_eq!(extended(live, model)["defaultTtl"], 600);
    }
}
