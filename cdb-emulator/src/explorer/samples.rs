//! Sample queries of a container, which its policy serves.

use serde::Serialize;
use serde_json::Value;

use crate::sql;

/// The number of samples for single paths, and for composite indexes.
const MOST: usize = 3;

/// A query that the page offers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sample {
    title: String,
    query: String,
    scope: SampleScope,
}

/// The scope in which the gateway answers a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum SampleScope {
    Everything,
    /// One physical partition: the gateway does not merge sorted or aggregated rows.
    Range,
    /// One logical partition.
    PartitionKey,
}

/// Returns the samples of a container's definition.
pub(super) fn of(definition: &Value) -> Vec<Sample> {
    use SampleScope::{Everything, PartitionKey, Range};
    let policy = &definition["indexingPolicy"];
    let paths: Vec<String> = scalars(policy);
    let typed = paths.iter().find(|path| *path == "c.type");
    let group = typed.or(paths.first()).map_or("c.type", |path| path);
    let mut samples = vec![
        sample("All documents", "SELECT * FROM c", Everything),
        sample("One partition", "SELECT * FROM c", PartitionKey),
        sample("Newest first", "SELECT * FROM c ORDER BY c._ts DESC", Range),
        sample("Number of documents", "SELECT VALUE COUNT(1) FROM c", Range),
        sample(
            &format!("Number of documents per {}", name(group)),
            &format!("SELECT {group}, COUNT(1) AS documents FROM c GROUP BY {group}"),
            Range,
        ),
    ];
    let sorted = paths.iter().filter(|path| *path != "c.type").take(MOST);
    samples.extend(sorted.map(|path| {
        let query = format!("SELECT * FROM c WHERE IS_DEFINED({path}) ORDER BY {path}");
        sample(&format!("Sorted by {}", name(path)), &query, Range)
    }));
    let composites = policy["compositeIndexes"].as_array().into_iter().flatten();
    samples.extend(composites.take(MOST).filter_map(composite));
    samples
}

fn sample(title: &str, query: &str, scope: SampleScope) -> Sample {
    Sample {
        title: title.to_owned(),
        query: query.to_owned(),
        scope,
    }
}

/// Returns the expressions of the included paths that hold one value, `/total/?` as `c.total`.
fn scalars(policy: &Value) -> Vec<String> {
    let included = policy["includedPaths"].as_array().into_iter().flatten();
    let paths = included.filter_map(|included| included["path"].as_str()?.strip_suffix("/?"));
    paths
        .filter(|path| !path.contains('*') && !path.contains("[]"))
        .map(expression)
        .collect()
}

/// Returns the sample of a composite index, sorted as it is.
fn composite(index: &Value) -> Option<Sample> {
    let mut terms = Vec::new();
    let mut names = Vec::new();
    for part in index.as_array()? {
        let path = expression(part["path"].as_str()?);
        let direction = if part["order"] == "descending" {
            "DESC"
        } else {
            "ASC"
        };
        names.push(name(&path).to_owned());
        terms.push(format!("{path} {direction}"));
    }
    let query = format!("SELECT * FROM c ORDER BY {}", terms.join(", "));
    let title = format!("Sorted by {}", names.join(", "));
    Some(sample(&title, &query, SampleScope::Range))
}

/// Returns a path of a policy as an expression. Names that are no identifiers are quoted.
fn expression(path: &str) -> String {
    let names = path.trim_matches('/').split('/');
    names.fold("c".to_owned(), |parent, name| {
        let name = name.trim_matches('"');
        let plain = format!("{parent}.{name}");
        if sql::parse(&format!("SELECT VALUE {plain} FROM c")).is_ok() {
            plain
        } else {
            format!("{parent}[{}]", Value::from(name))
        }
    })
}

/// Returns the text of an expression for a title, without the container's alias.
fn name(expression: &str) -> &str {
    expression.strip_prefix("c.").unwrap_or(expression)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn samples_sort_and_group_by_indexed_paths() {
        let definition = json!({ "indexingPolicy": {
            "includedPaths": [{ "path": "/status/?" }, { "path": "/order/total/?" }, { "path": "/tags/[]/?" },
                              { "path": "/type/?" }, { "path": "/rest/*" }],
            "compositeIndexes": [[{ "path": "/type" }, { "path": "/at", "order": "descending" }]],
        } });
        let queries: Vec<String> = of(&definition)
            .into_iter()
            .map(|sample| sample.query)
            .collect();
        assert_eq!(
            queries[4..],
            [
                "SELECT c.type, COUNT(1) AS documents FROM c GROUP BY c.type",
                "SELECT * FROM c WHERE IS_DEFINED(c.status) ORDER BY c.status",
                "SELECT * FROM c WHERE IS_DEFINED(c[\"order\"].total) ORDER BY c[\"order\"].total",
                "SELECT * FROM c ORDER BY c.type ASC, c.at DESC",
            ]
        );
        assert_eq!(of(&json!({})).len(), 5);
    }
}
