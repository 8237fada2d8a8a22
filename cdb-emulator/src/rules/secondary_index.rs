//! The rules of global secondary indexes
//! (<https://learn.microsoft.com/azure/cosmos-db/global-secondary-indexes>).

use serde_json::{Value, json};

use crate::error::ServiceError;
use crate::sql;
use crate::sql::ast::{Expr, Projection, Select};
use crate::store::{NEW_NAME, STORED_NAME};

/// The definition of a global secondary index.
#[derive(Debug)]
pub(crate) struct IndexDefinition {
    /// The source container, as the request names it.
    pub(crate) source_id: Option<String>,
    pub(crate) source_rid: Option<String>,
    /// The properties that the query selects; `None` for all.
    pub(crate) properties: Option<Vec<String>>,
}

/// Moves the definition of an index to its stored name, and reads it. Returns `None` for other
/// containers.
pub(crate) fn index_definition(
    definition: &mut Value,
) -> Result<Option<IndexDefinition>, ServiceError> {
    let members = definition.as_object_mut();
    // The newer name has precedence, as in the Java SDK.
    let given = members.map(|members| [NEW_NAME, STORED_NAME].map(|name| members.remove(name)));
    let mut given = given.into_iter().flatten().flatten();
    let Some(given) = given.find(|given| !given.is_null()) else {
        return Ok(None);
    };
    let text = |name: &str| given[name].as_str().map(str::to_owned);
    let query = text("definition").unwrap_or_default();
    let read = IndexDefinition {
        source_id: text("sourceCollectionId"),
        source_rid: text("sourceCollectionRid"),
        properties: properties(&query)?,
    };
    definition[STORED_NAME] = json!({
        "sourceCollectionId": read.source_id, "sourceCollectionRid": read.source_rid, "definition": query,
    });
    Ok(Some(read))
}

/// Completes a stored definition with the source container.
pub(crate) fn set_source(definition: &mut Value, id: &Value, rid: &str) {
    definition[STORED_NAME]["sourceCollectionId"] = id.clone();
    definition[STORED_NAME]["sourceCollectionRid"] = rid.into();
}

/// Checks that a replacement has the same source and query, which cannot be changed.
pub(super) fn unchanged(definition: &mut Value, former: &Value) -> Result<(), ServiceError> {
    index_definition(definition)?;
    let parts =
        |of: &Value| ["sourceCollectionId", "definition"].map(|name| of[STORED_NAME][name].clone());
    if parts(definition) != parts(former) {
        return Err(ServiceError::bad_request(
            "The source container and the definition of a global secondary index cannot be changed.",
        ));
    }
    if let Some(index) = former.get(STORED_NAME) {
        definition[STORED_NAME] = index.clone();
    }
    Ok(())
}

/// Returns the properties that the query of an index selects; `None` for `*`. The query is
/// `SELECT c.a, c.b FROM c` or `SELECT * FROM c`, without other clauses, nested properties,
/// functions and new names.
fn properties(query: &str) -> Result<Option<Vec<String>>, ServiceError> {
    let select = sql::parse(query)?;
    let alias = Expr::Name(select.alias.clone());
    let names = match &select.projection {
        Projection::Star => None,
        Projection::Value(_) => return Err(invalid(query)),
        Projection::List(fields) => {
            let names = fields.iter().map(|(name, expr)| match expr {
                Expr::Member(of, property)
                    if **of == alias && **property == Expr::Literal(name.as_str().into()) =>
                {
                    Ok(name.clone())
                }
                _ => Err(invalid(query)),
            });
            Some(names.collect::<Result<_, _>>()?)
        }
    };
    let plain = Select {
        projection: Projection::Star,
        ..select
    };
    if sql::parse(&format!("SELECT * FROM {}", plain.alias)) != Ok(plain) {
        return Err(invalid(query));
    }
    Ok(names)
}

fn invalid(query: &str) -> ServiceError {
    ServiceError::bad_request(format!(
        "The definition '{query}' of the global secondary index is invalid: it has to be SELECT * FROM c, or a list of \
         properties of one level, SELECT c.a, c.b FROM c, without AS, functions and other clauses."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_selects_properties_of_one_level() {
        assert_eq!(properties("SELECT * FROM c"), Ok(None));
        let selected = properties(r#"SELECT r.a, r["b-c"] FROM r"#);
        assert_eq!(selected, Ok(Some(vec!["a".to_owned(), "b-c".to_owned()])));
        for query in [
            "",
            "SELECT c.a.b FROM c",
            "SELECT c.a AS b FROM c",
            "SELECT c.tags[0] FROM c",
            "SELECT VALUE c.a FROM c",
            "SELECT c FROM c",
            "SELECT LOWER(c.a) FROM c",
            "SELECT c.a FROM c WHERE c.a > 1",
            "SELECT DISTINCT c.a FROM c",
            "SELECT TOP 1 c.a FROM c",
            "SELECT c.a FROM c ORDER BY c.a",
            "SELECT c.a FROM c GROUP BY c.a",
            "SELECT c.a FROM c OFFSET 0 LIMIT 1",
            "SELECT c.a FROM c JOIN t IN c.tags",
            "SELECT c.a FROM (SELECT * FROM c) c",
        ] {
            assert_eq!(properties(query).map_err(|e| e.status), Err(400), "{query}");
        }
    }
}
