//! The choice among candidate indexes.
//!
//! The service looks into all of them and joins the results. Here a query reads one index and
//! evaluates the rest of the filter on the documents that it finds, so the index with the fewest
//! entries is the best. SQLite would guess, so entries are counted: a few of each index first, then
//! more, until one index has no more.

use crate::error::ServiceError;
use crate::plan::{CandidateIndex, Pushdown};
use crate::store::{Connection, Container};

/// The first limit of a count, and the factor of later limits.
const STEP: usize = 16;
/// Maximum number of counted entries per requested row: the choice must not cost more than it
/// saves.
const WORTH: usize = 8;

/// Sets the index of a piece: the index of earlier pages, or the most selective one for `wanted`
/// rows.
pub(super) fn choose(
    (connection, container): (&Connection, &Container),
    piece: &mut Pushdown<'_>,
    wanted: usize,
    begun_by: Option<&str>,
) -> Result<(), ServiceError> {
    if piece.candidates.is_empty() {
        return Ok(());
    }
    let chosen = match begun_by {
        Some(index) => {
            let mut candidates = piece.candidates.iter();
            candidates.position(|candidate| candidate.index() == index)
        }
        None => most_selective((connection, container), &piece.candidates, wanted)?,
    };
    if let Some(chosen) = chosen {
        piece.order = piece.candidates[chosen].order.clone();
    }
    Ok(())
}

/// Returns the index with the fewest entries; `None` if all have many, and the plan's own choice
/// stands.
fn most_selective(
    (connection, container): (&Connection, &Container),
    candidates: &[CandidateIndex],
    wanted: usize,
) -> Result<Option<usize>, ServiceError> {
    let most = wanted.saturating_mul(WORTH).max(STEP);
    let mut limit = STEP;
    loop {
        let mut counts = Vec::with_capacity(candidates.len());
        for (at, candidate) in candidates.iter().enumerate() {
            let filter = (&*candidate.condition, &*candidate.parameters);
            let count =
                container.count(connection, Some(candidate.index()), filter, Some(limit))?;
            if count == 0 {
                return Ok(Some(at));
            }
            counts.push((count, at));
        }
        if let Some((least, at)) = counts.into_iter().min()
            && least < limit
        {
            return Ok(Some(at));
        }
        if limit >= most {
            return Ok(None);
        }
        limit = limit.saturating_mul(STEP).min(most);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::{Value, json};

    use super::*;
    use crate::op::continuation::Position;
    use crate::op::run::{Run, rows_of};
    use crate::op::scope::RowScope;
    use crate::plan;
    use crate::sql::{self, Context};
    use crate::store::{Database, Store, StoredDocument};

    /// The number of instances. The first ones have the same parent, and the first half has ended.
    const MANY: usize = 600;

    fn write(connection: &Connection, container: &Container, n: usize, parent: &str) {
        let id = format!("{n:05}");
        let status = if n < MANY / 2 { "ended" } else { "running" };
        let body =
            json!({ "id": id, "type": "instance", "parent": parent, "status": status, "n": n });
        store_body(connection, container, &id, &body);
    }

    fn store_body(connection: &Connection, container: &Container, id: &str, body: &Value) {
        let document = StoredDocument {
            pk: id.to_owned(),
            id: id.to_owned(),
            body: body.to_string(),
            epk: String::new(),
            etag: String::new(),
            lsn: 1,
            ts: 0,
            expires: None,
        };
        container.write(connection, &document).unwrap();
    }

    fn filled(connection: &Connection) -> Container {
        Database::create(connection, "d", 0).unwrap();
        let definition = json!({
            "id": "c", "partitionKey": { "paths": ["/id"] }, "indexingPolicy": {
                "includedPaths": [
                    { "path": "/n/?" }, { "path": "/parent/?" }, { "path": "/status/?" }, { "path": "/type/?" },
                ],
                "excludedPaths": [{ "path": "/*" }],
                "compositeIndexes": [[{ "path": "/type" }, { "path": "/n" }]],
            },
        });
        let container = Container::create(connection, "d", &definition, 1, 0).unwrap();
        for n in 0..MANY {
            write(
                connection,
                &container,
                n,
                if n < 20 { "first" } else { "none" },
            );
        }
        container
    }

    /// Returns the paths of the index that serves a query.
    fn read_by(connection: &Connection, container: &Container, text: &str) -> Option<String> {
        let select = sql::parse(text).unwrap();
        let policy = container.policy();
        let [mut piece] = <[_; 1]>::try_from(plan::pieces(&select, &HashMap::new(), policy, false))
            .expect("one piece");
        choose((connection, container), &mut piece, 50, None).unwrap();
        let name = piece.order.index()?;
        let mut known = container.policy().indexes().iter();
        let (paths, _) = known.find(|(_, index)| index == name)?;
        Some(paths.iter().map(|(path, _)| &**path).collect())
    }

    #[test]
    fn a_query_uses_the_index_with_the_fewest_entries() {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        let container = filled(&connection);
        for (filter, index) in [
            ("c.type = 'instance' AND c.parent = 'first'", "/parent"),
            (
                "c.type = 'instance' AND c.parent IN ('x', 'first')",
                "/parent",
            ),
            ("c.type = 'instance' AND c.status = 'lost'", "/status"),
            ("c.type = 'other' AND c.status = 'ended'", "/type"),
            ("c.status = 'ended' AND c.parent = 'none'", "/status"),
            (
                "c.type = 'instance' AND c.n < 5 AND c.parent = 'first'",
                "/type/n",
            ),
            ("c.type = 'instance'", "/type"),
        ] {
            let text = format!("SELECT VALUE COUNT(1) FROM c WHERE {filter}");
            let found = read_by(&connection, &container, &text);
            assert_eq!(found.as_deref(), Some(index), "{filter}");
        }
        for (filter, index) in [
            ("c.type = 'instance' AND c.parent = 'first'", "/parent"),
            ("c.parent = 'first'", "/parent"),
            ("c.type = 'instance'", "/n"),
        ] {
            let text = format!("SELECT * FROM c WHERE {filter} ORDER BY c.n DESC");
            let found = read_by(&connection, &container, &text);
            assert_eq!(found.as_deref(), Some(index), "{filter}");
        }
    }

    #[test]
    fn counts_of_index_entries_read_no_documents() {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        let container = filled(&connection);
        for filter in [
            "c.type = 'instance' AND c.parent = 'first'",
            "c.type = 'instance' AND c.parent IN ('x', 'first')",
            "c.type = 'instance' AND c.n < 5 AND c.parent > 'f'",
            "c.n BETWEEN 3 AND 5 AND c.status = 'ended'",
            "c.parent = null AND c.status = 'ended'",
        ] {
            let select = sql::parse(&format!("SELECT * FROM c WHERE {filter}")).unwrap();
            let policy = container.policy();
            let pieces = plan::pieces(&select, &HashMap::new(), policy, false);
            assert!(pieces[0].candidates.len() > 1, "{filter}");
            for candidate in &pieces[0].candidates {
                let sql = format!(
                    "EXPLAIN QUERY PLAN SELECT count(*) FROM (SELECT 1 FROM document_{} INDEXED BY {}_{} WHERE {} LIMIT 16)",
                    container.number,
                    container.index_prefix(),
                    candidate.index(),
                    candidate.condition
                );
                let mut statement = connection.prepare(&sql).unwrap();
                let parameters = rusqlite::params_from_iter(&candidate.parameters);
                let rows = statement.query_map(parameters, |row| row.get::<_, String>(3));
                let rows: Vec<String> = rows.unwrap().map(Result::unwrap).collect();
                assert!(
                    rows.join("\n").contains("COVERING INDEX"),
                    "{sql}: {rows:?}"
                );
            }
        }
    }

    #[test]
    fn a_count_by_the_store_equals_the_number_of_rows() {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        let container = filled(&connection);
        let values = [
            json!(null),
            json!(true),
            json!(false),
            json!(1),
            json!(1.5),
            json!(""),
            json!("a"),
            json!("b\u{0}c"),
            json!("b"),
            json!([]),
            json!(["a"]),
            json!({ "a": 1 }),
        ];
        for (n, value) in values.iter().enumerate() {
            let id = format!("mixed-{n}");
            let body = json!({ "id": id, "type": "mixed", "parent": value, "status": n % 2 == 0 });
            store_body(&connection, &container, &id, &body);
        }
        store_body(
            &connection,
            &container,
            "bare",
            &json!({ "id": "bare", "type": "mixed" }),
        );
        let mut filters = vec![
            "c.parent IN ('a', 'b')".to_owned(),
            "c.parent BETWEEN 'a' AND 'b'".to_owned(),
        ];
        for value in &values {
            for operator in ["=", "!=", "<", ">="] {
                filters.push(format!("c.parent {operator} {value}"));
                filters.push(format!("{value} {operator} c.parent"));
            }
        }
        for filter in filters {
            for more in [
                "",
                " AND c.status = true",
                " AND c.status != false AND c.type != 'instance'",
            ] {
                let filter = format!("c.type = 'mixed' AND {filter}{more}");
                let rows = |text: &str| {
                    rows_of(&connection, &container, text, (HashMap::new(), 100)).unwrap()
                };
                let found = rows(&format!("SELECT VALUE c.id FROM c WHERE {filter}"));
                let counted = rows(&format!("SELECT VALUE COUNT(1) FROM c WHERE {filter}"));
                assert_eq!(counted, [json!(found.len())], "{filter}");
            }
        }
    }

    #[test]
    fn later_pages_use_the_index_of_the_first_page() {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        let container = filled(&connection);
        let text = "SELECT VALUE c.id FROM c WHERE c.status = 'running' AND c.parent = 'none'";
        let select = sql::parse(text).unwrap();
        assert_eq!(
            read_by(&connection, &container, text).as_deref(),
            Some("/status")
        );
        let context = Context::new(HashMap::new(), crate::clock::Clock::machine().now());
        let mut position = Position::default();
        let mut ids: Vec<Value> = Vec::new();
        loop {
            let run = Run {
                connection: &connection,
                container: &container,
                context: &context,
                scope: RowScope {
                    condition: "1".to_owned(),
                    parameters: Vec::new(),
                },
                joined: false,
                former: None,
                limit: 70,
            };
            let page = run.page(&select, position).unwrap();
            ids.extend(
                page.rows
                    .iter()
                    .map(|row| serde_json::from_str::<Value>(row).unwrap()),
            );
            let Some(next) = page.next else { break };
            position = serde_json::from_value(serde_json::to_value(next).unwrap()).unwrap();
            // The query finds none of these documents, but they make the other index more
            // selective.
            for n in (0..MANY / 2).chain(MANY..2 * MANY) {
                write(&connection, &container, n, "gone");
            }
        }
        assert_eq!(
            read_by(&connection, &container, text).as_deref(),
            Some("/parent")
        );
        let expected: Vec<Value> = (MANY / 2..MANY).map(|n| format!("{n:05}").into()).collect();
        assert_eq!(ids, expected);
    }
}
