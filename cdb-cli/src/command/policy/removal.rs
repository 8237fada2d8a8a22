//! The indexes that a change of the policy removes, and what may need them: queries of this
//! program, and document types of other programs.

use std::fmt;

use cdb_client::{DatabaseClient, Error};
use cdb_model::policy::{IndexingPolicy, PolicyDifference};
use cdb_model::query::statement::RawSql;
use serde::Serialize;
use serde_json::Value;

use crate::model::{Model, foreign_types};

/// The most document types of other programs that are looked for, with a query each.
const MAX_FOREIGN_TYPES: usize = 20;

/// The indexes that a change removes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Removal {
    indexes: Vec<String>,
    /// The queries of this program that become more expensive or are refused.
    queries: Vec<String>,
    /// Document types in the container that this program does not declare.
    foreign_types: Vec<ForeignType>,
}

/// A document type of another program.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct ForeignType {
    /// The value of the discriminator; `None` for documents without it.
    name: Option<String>,
    /// The removed indexes with a path that a document of this type has.
    indexes: Vec<String>,
}

impl Removal {
    /// Returns what a change from `live` to `target` removes; `None` if it removes no index.
    pub(super) async fn of(
        database: &DatabaseClient,
        container: &str,
        model: &Model,
        live: &IndexingPolicy,
        target: &IndexingPolicy,
    ) -> Result<Option<Self>, Error> {
        let indexes = removed_indexes(live, target);
        if indexes.is_empty() {
            return Ok(None);
        }
        let queries = model.degraded_queries(live, target).into_iter();
        let queries = queries.map(|(query, _)| query.name.clone()).collect();
        let foreign_types = foreign_types(database, container, model, &indexes).await?;
        Ok(Some(Self {
            indexes,
            queries,
            foreign_types,
        }))
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the change removes these indexes:")?;
        for index in &self.indexes {
            writeln!(f, "  {index}")?;
        }
        if !self.queries.is_empty() {
            writeln!(f, "queries of this program that need them:")?;
        }
        for query in &self.queries {
            writeln!(f, "  {query}")?;
        }
        if self.foreign_types.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "document types of other programs, whose queries may need them:"
        )?;
        for foreign in &self.foreign_types {
            let name = foreign
                .name
                .as_deref()
                .unwrap_or("documents without a type");
            match &*foreign.indexes {
                [] => writeln!(f, "  {name} (has none of the paths)")?,
                paths => writeln!(f, "  {name} (has {})", paths.join(", "))?,
            }
        }
        Ok(())
    }
}

fn removed_indexes(live: &IndexingPolicy, target: &IndexingPolicy) -> Vec<String> {
    let removed =
        target
            .differences_of(live)
            .into_iter()
            .filter_map(|difference| match difference {
                PolicyDifference::SuperfluousPath(path) => Some(path),
                PolicyDifference::MissingExclusion(path) => {
                    live.covers(path.trim_end_matches("/?")).then_some(path)
                }
                PolicyDifference::SuperfluousComposite(paths) => Some(format!("({paths})")),
                _ => None,
            });
    removed.collect()
}

/// Finds the document types that the model does not declare, by one document of each.
async fn foreign_types(
    database: &DatabaseClient,
    container: &str,
    model: &Model,
    indexes: &[String],
) -> Result<Vec<ForeignType>, Error> {
    let mut found = foreign_types::documents(database, container, model, MAX_FOREIGN_TYPES).await?;
    let untyped = without_type(model.discriminator);
    found.extend(model.first_row(database, container, untyped).await?);
    let found = found.iter();
    Ok(found
        .map(|document| ForeignType::of(document, model, indexes))
        .collect())
}

fn without_type(discriminator: &str) -> RawSql<Value> {
    let property = Value::from(discriminator);
    RawSql::new(format!(
        "SELECT * FROM c WHERE NOT IS_DEFINED(c[{property}])"
    ))
}

impl ForeignType {
    fn of(document: &Value, model: &Model, indexes: &[String]) -> Self {
        Self {
            name: foreign_types::name(document, model).map(str::to_owned),
            indexes: present(indexes, document),
        }
    }
}

/// Returns the indexes with a path that the document has.
fn present(indexes: &[String], document: &Value) -> Vec<String> {
    let is_present = |index: &&String| {
        let paths = index.trim_matches(['(', ')']).split(", ");
        paths
            .map(|path| path.trim_end_matches(" desc"))
            .any(|path| has_path(document, path))
    };
    indexes.iter().filter(is_present).cloned().collect()
}

/// Whether the document has the path of an index, up to its first array.
fn has_path(document: &Value, path: &str) -> bool {
    let mut value = document;
    for segment in path.split('/').skip(1) {
        match segment.trim_matches('"') {
            "?" | "*" | "[]" => return true,
            name => match value.get(name) {
                Some(inner) => value = inner,
                None => return false,
            },
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_index_is_present_when_the_document_has_one_of_its_paths() {
        let document =
            json!({ "total": 5, "address": { "city": "Bern" }, "tags": ["a"], "a-b": 1 });
        for (index, expected) in [
            ("/total/?", true),
            ("/missing/?", false),
            ("/address/city/?", true),
            ("/address/street/?", false),
            ("/tags/[]/?", true),
            ("/\"a-b\"/?", true),
            ("/*", true),
            ("(/missing, /total desc)", true),
            ("(/missing, /gone)", false),
        ] {
            let present = present(&[index.to_owned()], &document);
            assert_eq!(!present.is_empty(), expected, "{index}");
        }
    }
}
