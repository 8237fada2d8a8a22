//! Query plans of SQLite, and the equivalence of the store and evaluation.

use std::collections::HashMap;

use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::op::rows_of;
use crate::plan::{Order, Pushdown};
use crate::sql::eval::Scope;
use crate::sql::{self, Context, rows, value};
use crate::store::{Container, Database, Store, StoredDocument};

fn parameters() -> HashMap<String, Value> {
    HashMap::from([("@t".to_owned(), json!("q")), ("@n".to_owned(), json!(10))])
}

/// Creates a container with indexes on two paths and composites of them.
fn container(connection: &Connection) -> Container {
    Database::create(connection, "d", 0).unwrap();
    let definition = json!({
        "id": "c", "partitionKey": { "paths": ["/pk"] }, "indexingPolicy": {
            "includedPaths": [
                { "path": "/type/?" }, { "path": "/at/?" }, { "path": "/plain/*" },
                { "path": "/tags/[]/?" }, { "path": "/lines/[]/sku/?" },
            ],
            "excludedPaths": [{ "path": "/*" }],
            "compositeIndexes": [
                [{ "path": "/type" }, { "path": "/at" }],
                [{ "path": "/type" }, { "path": "/at", "order": "descending" }],
            ],
        },
    });
    Container::create(connection, "d", &definition, 1, 0).unwrap()
}

/// Creates a container with a wildcard policy and composites.
fn by_wildcard(connection: &Connection) -> Container {
    Database::create(connection, "d", 0).unwrap();
    let definition = json!({
        "id": "c", "partitionKey": { "paths": ["/pk"] }, "indexingPolicy": {
            "includedPaths": [{ "path": "/*" }], "excludedPaths": [],
            "compositeIndexes": [
                [{ "path": "/type" }, { "path": "/at" }],
                [{ "path": "/type" }, { "path": "/at", "order": "descending" }],
            ],
        },
    });
    Container::create(connection, "d", &definition, 1, 0).unwrap()
}

/// Returns SQLite's plans of a query, from its start and after a row.
fn steps(sql: &str) -> String {
    let store = Store::open(None).unwrap();
    let connection = store.lock();
    let container = container(&connection);
    let select = sql::parse(sql).unwrap();
    let plan = Pushdown::of(&select, &parameters(), container.policy(), false);
    let order = &plan.order;
    let row = order
        .all()
        .keys
        .into_iter()
        .enumerate()
        .map(|(at, _)| match at % 2 {
            0 => rusqlite::types::Value::Integer(4),
            _ => rusqlite::types::Value::Text("t".to_owned()),
        });
    let keys = Order::keys(&row.collect::<Vec<_>>());
    let mut ranges = order.after(&keys, "p".to_owned(), "i".to_owned());
    ranges.push(order.all());
    let steps = ranges.into_iter().map(|range| {
        let table = format!("document_{}", container.number);
        let index = range.index.map_or_else(String::new, |name| format!("INDEXED BY {table}_{name}"));
        let text = format!(
            "EXPLAIN QUERY PLAN SELECT pk, id, body FROM {table} {index} WHERE {} AND {} ORDER BY {}",
            plan.condition, range.condition, range.order,
        );
        let parameters = plan.parameters.iter().chain(&range.parameters);
        let mut statement = connection.prepare(&text).unwrap();
        let rows = statement.query_map(rusqlite::params_from_iter(parameters), |row| {
            row.get::<_, String>(3)
        });
        let rows: Result<Vec<String>, _> = rows.unwrap().collect();
        rows.unwrap().join("\n")
    });
    steps.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_poll_of_a_queue_scans_its_composite_without_a_sort() {
    for order in ["c.type, c.at", "c.type DESC, c.at DESC"] {
        let steps = steps(&format!(
            "SELECT TOP 5 * FROM c WHERE c.type = @t AND c.at <= @n ORDER BY {order}"
        ));
        assert!(steps.contains("USING INDEX"), "{order}: {steps}");
        assert!(!steps.contains("TEMP B-TREE"), "{order}: {steps}");
    }
}

#[test]
fn a_sort_without_a_filter_scans_the_composite_too() {
    let steps = steps("SELECT TOP 5 * FROM c ORDER BY c.type, c.at");
    assert!(!steps.contains("TEMP B-TREE"), "{steps}");
}

#[test]
fn a_query_with_an_index_is_never_sorted() {
    for text in [
        "SELECT * FROM c",
        "SELECT TOP 5 * FROM c WHERE c.type = @t",
        "SELECT TOP 5 * FROM c WHERE c.type = @t AND c.at > 3",
        "SELECT TOP 5 * FROM c WHERE c.at > @n AND c.at <= 20",
        "SELECT TOP 5 * FROM c WHERE c.at BETWEEN 1 AND 3 AND c.type = null",
        "SELECT TOP 5 c.id FROM c JOIN t IN c.tags WHERE c.type = @t AND t = 1",
        "SELECT * FROM c ORDER BY c.at",
        "SELECT * FROM c WHERE c.at > 3 ORDER BY c.at DESC",
        "SELECT * FROM c WHERE c.type = @t ORDER BY c.at",
        "SELECT * FROM c ORDER BY c.type, c.at DESC",
        "SELECT * FROM c ORDER BY c.type DESC, c.at",
    ] {
        let steps = steps(text);
        assert!(!steps.contains("TEMP B-TREE"), "{text}: {steps}");
    }
}

#[test]
fn the_index_that_the_filter_restricts_most_serves_a_query() {
    let store = Store::open(None).unwrap();
    let connection = store.lock();
    let container = container(&connection);
    for (text, paths) in [
        ("c.type = @t", Some("/type")),
        ("c.type = @t AND c.at > @n", Some("/type/at")),
        ("c.type > @t AND c.at = @n", Some("/at")),
        // Generated filters begin with the type of the document.
        ("c.type > @t AND c.at < @n", Some("/at")),
        ("c.at = @n AND c.type > @t", Some("/type")),
        ("c.type = @t ORDER BY c.at", Some("/type/at")),
        ("c.at > @n ORDER BY c.at DESC", Some("/at")),
        ("c.type = @t OR c.at = @n", None),
    ] {
        let select = sql::parse(&format!("SELECT * FROM c WHERE {text}")).unwrap();
        let plan = Pushdown::of(&select, &parameters(), container.policy(), false);
        let found = plan.order.all().index.map(|found| {
            let mut known = container.policy().indexes().iter();
            let (index, _) = known.find(|(_, name)| *name == found).unwrap();
            index.iter().map(|(path, _)| &**path).collect::<String>()
        });
        assert_eq!(found.as_deref(), paths, "{text}");
    }
}

/// Stores a document with this id in a partition key of its own.
fn write(connection: &Connection, container: &Container, id: &str, body: &Value) {
    let document = StoredDocument {
        pk: id.to_owned(),
        id: id.to_owned(),
        epk: String::new(),
        body: body.to_string(),
        etag: String::new(),
        lsn: 0,
        ts: 0,
        expires: None,
    };
    container.write(connection, &document).unwrap();
}

#[test]
fn a_count_by_the_store_equals_the_number_of_rows() {
    let store = Store::open(None).unwrap();
    let connection = store.lock();
    let container = container(&connection);
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
        let body = json!({ "type": "mixed", "at": value, "plain": n % 2 == 0 });
        write(&connection, &container, &n.to_string(), &body);
    }
    write(&connection, &container, "bare", &json!({ "type": "mixed" }));
    write(
        &connection,
        &container,
        "other",
        &json!({ "type": "other", "at": 1 }),
    );
    let mut filters = vec![
        "c.at IN ('a', 'b')".to_owned(),
        "c.at BETWEEN 'a' AND 'b'".to_owned(),
    ];
    for value in &values {
        for operator in ["=", "!=", "<", ">="] {
            filters.push(format!("c.at {operator} {value}"));
            filters.push(format!("{value} {operator} c.at"));
        }
    }
    for filter in filters {
        for more in [
            "",
            " AND c.plain = true",
            " AND c.plain != false AND c.type != 'other'",
        ] {
            let filter = format!("c.type = 'mixed' AND {filter}{more}");
            let rows =
                |text: &str| rows_of(&connection, &container, text, HashMap::new(), 100).unwrap();
            let found = rows(&format!("SELECT VALUE c.at FROM c WHERE {filter}"));
            let counted = rows(&format!("SELECT VALUE COUNT(1) FROM c WHERE {filter}"));
            assert_eq!(counted, [json!(found.len())], "{filter}");
        }
    }
}

#[test]
fn a_document_that_meets_several_disjuncts_is_counted_once() {
    let store = Store::open(None).unwrap();
    let connection = store.lock();
    let container = container(&connection);
    for number in 0..12 {
        let document = json!({ "type": number % 2, "at": number % 3 });
        write(&connection, &container, &number.to_string(), &document);
    }
    for (what, expected) in [
        ("VALUE COUNT(1)", json!([8])),
        ("VALUE SUM(c.at)", json!([6])),
    ] {
        let text = format!("SELECT {what} FROM c WHERE c.type = 1 OR c.at = 0");
        let rows = rows_of(&connection, &container, &text, parameters(), 10).unwrap();
        assert_eq!(json!(rows), expected, "{text}");
    }
}

/// Values of every type, some of them close to each other.
fn any_value() -> impl Strategy<Value = Option<Value>> {
    prop_oneof![
        2 => Just(None),
        1 => Just(Some(json!(null))),
        2 => any::<bool>().prop_map(|value| Some(json!(value))),
        6 => (-3..4_i64).prop_map(|value| Some(json!(value))),
        3 => (-3.0..4.0_f64).prop_map(|value| Some(json!(value))),
        1 => Just(Some(json!(9_007_199_254_740_993_i64))),
        6 => prop::sample::select(vec!["", "q", "r", "[]", "{", "é", "\u{0}a", "\u{fffd}", "𝄞"]).prop_map(|value| Some(json!(value))),
        1 => Just(Some(json!([1]))),
        1 => Just(Some(json!([]))),
        1 => Just(Some(json!({ "a": 1 }))),
    ]
}

fn any_literal() -> impl Strategy<Value = String> {
    any_value().prop_map(|value| value.map_or("undefined".to_owned(), |value| value.to_string()))
}

fn any_condition() -> impl Strategy<Value = String> {
    let path = prop::sample::select(vec!["c.type", "c.at", "c.plain", "c.tags[0]"]);
    let operator = prop::sample::select(vec!["=", "!=", "<", "<=", ">", ">="]);
    let (path, literal) = (path.boxed(), any_literal().boxed());
    prop_oneof![
        4 => (path.clone(), operator.clone(), literal.clone()).prop_map(|(path, operator, value)| format!("{path} {operator} {value}")),
        1 => (literal.clone(), path.clone()).prop_map(|(value, path)| format!("{value} <= {path}")),
        1 => (path.clone(), literal.clone(), literal.clone()).prop_map(|(path, a, b)| format!("{path} IN ({a}, {b})")),
        1 => (path.clone(), literal.clone(), literal.clone()).prop_map(|(path, a, b)| format!("{path} NOT BETWEEN {a} AND {b}")),
        1 => literal.clone().prop_map(|value| format!("ARRAY_CONTAINS(c.tags, {value})")),
        1 => (operator.clone(), literal.clone()).prop_map(|(operator, value)| {
            format!("EXISTS (SELECT VALUE t FROM t IN c.tags WHERE t {operator} {value})")
        }),
        1 => (operator.clone(), literal.clone()).prop_map(|(operator, value)| {
            format!("EXISTS (SELECT VALUE l FROM l IN c.lines WHERE l.sku {operator} {value})")
        }),
        1 => path.clone().prop_map(|path| format!("IS_DEFINED({path})")),
        1 => (path, any::<bool>()).prop_map(|(path, not)| format!("{} IS_STRING({path})", if not { "NOT" } else { "" })),
    ]
}

fn any_query() -> impl Strategy<Value = String> {
    let orders = vec![
        "",
        "",
        "ORDER BY c.at",
        "ORDER BY c.at DESC",
        "ORDER BY c.type",
        "ORDER BY c.plain",
        "ORDER BY c.type, c.at",
        "ORDER BY c.type DESC, c.at DESC",
        "ORDER BY c.type, c.at DESC",
    ];
    let tops = prop::sample::select(vec!["", "", "TOP 3"]);
    let joins = prop_oneof![
        2 => Just((String::new(), String::new())),
        1 => Just(("JOIN t IN c.tags".to_owned(), String::new())),
        1 => any_literal().prop_map(|value| ("JOIN t IN c.tags".to_owned(), format!("AND t = {value}"))),
        1 => any_literal().prop_map(|value| ("JOIN l IN c.lines".to_owned(), format!("AND l.sku > {value}"))),
    ];
    let windows = prop::sample::select(vec!["", "", "OFFSET 2 LIMIT 4"]);
    let filter = prop::collection::vec(any_condition(), 0..3);
    (tops, joins, filter, prop::sample::select(orders), windows, any::<bool>()).prop_map(
        |(top, (join, joined), filter, order, window, any)| {
            let filter = match &*filter {
                [] => "true".to_owned(),
                filter => filter.join(if any { " OR " } else { " AND " }),
            };
            format!(
                "SELECT {top} c.id, c.type, c.at, c.plain FROM c {join} WHERE ({filter}) {joined} {order} {window}"
            )
        },
    )
}

fn any_document() -> impl Strategy<Value = Value> {
    let values = (any_value(), any_value(), any_value());
    let tags = prop::collection::vec(any_value().prop_map(Option::unwrap_or_default), 0..3);
    let lines = prop_oneof![
        4 => prop::collection::vec(any_value(), 0..3).prop_map(|skus| {
            json!(skus.into_iter().map(|sku| json!({ "sku": sku })).collect::<Vec<_>>())
        }),
        1 => any_value().prop_map(Option::unwrap_or_default),
    ];
    (values, tags, lines).prop_map(|((kind, at, plain), tags, lines)| {
        let mut document = json!({ "tags": tags, "lines": lines });
        for (name, value) in [("type", kind), ("at", at), ("plain", plain)] {
            if let Some(value) = value {
                document[name] = value;
            }
        }
        document
    })
}

/// Evaluates a query without the store.
fn evaluated(text: &str, documents: &[Value]) -> Vec<Value> {
    let select = sql::parse(text).unwrap();
    let context = Context::new(parameters(), crate::time::Clock::machine().now());
    let mut scopes = Vec::new();
    for document in documents {
        let scope = Scope::new(&select.alias, document.clone(), &context);
        scopes.extend(scope.matching(&select).unwrap());
    }
    let sorted = rows::sort(&select, scopes).unwrap();
    rows::finish(&select, sorted, &context).unwrap()
}

/// Returns the sort keys of a row as text; empty without a sort.
fn keys(text: &str, row: &Value) -> String {
    let paths = ["type", "at", "plain"].into_iter().filter(|name| {
        text.split("ORDER BY")
            .nth(1)
            .is_some_and(|order| order.contains(&format!("c.{name}")))
    });
    let ordered = |name: &str| match row.get(name) {
        Some(value @ (Value::Array(_) | Value::Object(_))) => value::rank(Some(value)).to_string(),
        other => value::identity(other),
    };
    paths.map(ordered).collect::<Vec<_>>().join(" ")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_store_and_evaluation_give_the_same_rows_page_by_page(
        documents in prop::collection::vec(any_document(), 0..14),
        texts in prop::collection::vec(any_query(), 6),
        limit in 1..5_usize,
        by_default in any::<bool>(),
    ) {
        let store = Store::open(None).unwrap();
        let connection = store.lock();
        // By default a wildcard covers all paths, and only the composites have indexes.
        let container = if by_default { by_wildcard(&connection) } else { container(&connection) };
        let mut stored = Vec::new();
        let mut former = json!({});
        for (number, mut document) in documents.into_iter().enumerate() {
            let id = format!("{number:02}");
            document["id"] = json!(id);
            // Every document replaces one with other values.
            for version in [&former, &document] {
                container.write(&connection, &StoredDocument {
                    pk: (number % 3).to_string(), id: id.clone(), epk: String::new(), body: version.to_string(),
                    etag: String::new(), lsn: 0, ts: 0, expires: None,
                }).unwrap();
            }
            former.clone_from(&document);
            stored.push(document);
        }
        for text in texts {
            let expected = evaluated(&text, &stored);
            let found = rows_of(&connection, &container, &text, parameters(), limit).unwrap();
            prop_assert_eq!(found.len(), expected.len(), "{}", text);
            let order = |rows: &[Value]| rows.iter().map(|row| keys(&text, row)).collect::<Vec<_>>();
            prop_assert_eq!(order(&found), order(&expected), "{}", text);
            if !text.contains("TOP") && !text.contains("OFFSET") {
                let all = |rows: &[Value]| {
                    let mut rows: Vec<String> = rows.iter().map(Value::to_string).collect();
                    rows.sort();
                    rows
                };
                prop_assert_eq!(all(&found), all(&expected), "{}", text);
            }
        }
    }
}
