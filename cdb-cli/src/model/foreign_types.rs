//! The document types in a container that the model does not declare.

use cdb_client::{DatabaseClient, Error};
use cdb_model::query::statement::RawSql;
use serde_json::Value;

use crate::model::Model;

/// Finds at most `most` document types that the model does not declare, and one document of each.
/// Each type is a query.
pub(crate) async fn documents(
    database: &DatabaseClient,
    container: &str,
    model: &Model,
    most: usize,
) -> Result<Vec<Value>, Error> {
    let mut known: Vec<String> = model
        .documents
        .iter()
        .map(|shape| shape.discriminator.to_owned())
        .collect();
    let mut found = Vec::new();
    while found.len() < most {
        let search = of_another_type(model.discriminator, &known);
        let Some(document) = model.first_row(database, container, search).await? else {
            break;
        };
        known.extend(name(&document, model).map(str::to_owned));
        found.push(document);
    }
    Ok(found)
}

/// Returns the names of at most `most` document types that the model does not declare.
pub(crate) async fn names(
    database: &DatabaseClient,
    container: &str,
    model: &Model,
    most: usize,
) -> Result<Vec<String>, Error> {
    let found = documents(database, container, model, most).await?;
    let named = found.iter().filter_map(|document| name(document, model));
    Ok(named.map(str::to_owned).collect())
}

/// Returns the type of a document; `None` for a document without one.
pub(crate) fn name<'a>(document: &'a Value, model: &Model) -> Option<&'a str> {
    document[model.discriminator].as_str()
}

/// Documents whose type is none of `known`.
fn of_another_type(discriminator: &str, known: &[String]) -> RawSql<Value> {
    let names = (0..known.len()).map(|at| format!("@p{at}"));
    let names = names.collect::<Vec<_>>().join(", ");
    let property = Value::from(discriminator);
    let all = RawSql::new(format!(
        "SELECT * FROM c WHERE NOT (c[{property}] IN ({names}))"
    ));
    let known = known.iter().enumerate();
    known.fold(all, |sql, (at, name)| {
        sql.parameter(format!("@p{at}"), Value::from(name.as_str()))
    })
}
