//! Tests of plans, compared with the baselines of the .NET client.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::plan::{PlanInput, QueryPlan};
use crate::sql;
use crate::store::partitions::epk::Version;

fn plan_over(key: &[&str], text: &str) -> QueryPlan {
    let parameters = HashMap::from([
        ("@n".to_owned(), json!(42)),
        ("@key".to_owned(), json!("k")),
    ]);
    let key: Vec<String> = key.iter().map(|&path| path.to_owned()).collect();
    let query = PlanInput {
        text,
        parameters: &parameters,
        key: &key,
        version: Version::V2,
        definition: &Value::Null,
    };
    QueryPlan::of(query).unwrap()
}

fn plan(text: &str) -> QueryPlan {
    plan_over(&["/key"], text)
}

/// The rewritten query in one line.
fn rewritten(text: &str) -> String {
    plan(text).rewritten
}

#[test]
fn a_sort_returns_its_values_beside_the_row() {
    for (text, expected) in [
        (
            "SELECT * FROM Root r ORDER BY r.blah",
            "SELECT r._rid, [{\"item\": r.blah}] AS orderByItems, r AS payload FROM r \
             WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY r.blah",
        ),
        (
            "SELECT TOP @n c.a, UPPER(c.b) FROM c WHERE c.x = 1 OR c.y ORDER BY c.f DESC, c.g DESC",
            "SELECT TOP 42 c._rid, [{\"item\": c.f}, {\"item\": c.g}] AS orderByItems, {\"a\": c.a, \"$1\": UPPER(c.b)} \
             AS payload FROM c WHERE (c.x = 1 OR c.y) AND ({documentdb-formattableorderbyquery-filter}) \
             ORDER BY c.f DESC, c.g DESC",
        ),
        (
            "SELECT VALUE c.a FROM c ORDER BY c.b OFFSET 3 LIMIT @n",
            "SELECT c._rid, [{\"item\": c.b}] AS orderByItems, c.a AS payload FROM c \
             WHERE ({documentdb-formattableorderbyquery-filter}) AND IS_DEFINED(c.a) ORDER BY c.b OFFSET 0 LIMIT 45",
        ),
    ] {
        assert_eq!(rewritten(text), expected);
        sql::parse(&expected.replace("{documentdb-formattableorderbyquery-filter}", "true"))
            .unwrap();
    }
    let info = &plan("SELECT * FROM c ORDER BY c.a, c[\"b\"] DESC").to_json()["queryInfo"];
    assert_eq!(info["orderBy"], json!(["Ascending", "Descending"]));
    assert_eq!(info["orderByExpressions"], json!(["c.a", "c.b"]));
}

#[test]
fn aggregates_are_rewritten_to_parts_that_can_be_merged() {
    for (text, expected) in [
        (
            "SELECT VALUE AVG(c.blah) FROM c",
            "SELECT VALUE [{\"item\": {\"sum\": SUM(c.blah), \"count\": COUNT(c.blah)}}] FROM c",
        ),
        (
            "SELECT TOP 5 VALUE MIN(c.blah + 1) FROM c WHERE c.z > 1",
            "SELECT VALUE [{\"item\": MIN(c.blah + 1), \"item2\": {\"min\": MIN(c.blah + 1), \"count\": COUNT(c.blah + 1)}}] \
             FROM c WHERE c.z > 1",
        ),
        (
            "SELECT COUNT(1), SUM(c.a) AS s FROM c",
            "SELECT {\"$1\": {\"item\": COUNT(1)}, \"s\": {\"item\": SUM(c.a)}} AS payload FROM c",
        ),
        (
            "SELECT c.name, COUNT(1) AS count FROM c GROUP BY c.name OFFSET 1 LIMIT 2",
            "SELECT [{\"item\": c.name}] AS groupByItems, {\"name\": c.name, \"count\": {\"item\": COUNT(1)}} AS payload \
             FROM c GROUP BY c.name",
        ),
        (
            "SELECT VALUE COUNT(1) FROM c GROUP BY c.age",
            "SELECT [{\"item\": c.age}] AS groupByItems, [{\"item\": COUNT(1)}] AS payload FROM c GROUP BY c.age",
        ),
    ] {
        assert_eq!(rewritten(text), expected);
        sql::parse(expected).unwrap();
    }
    let info =
        &plan("SELECT c.team, MAX(c.age) AS m FROM c GROUP BY c.team").to_json()["queryInfo"];
    assert_eq!(info["groupByAliases"], json!(["team", "m"]));
    assert_eq!(
        info["groupByAliasToAggregateType"],
        json!({ "team": null, "m": "Max" })
    );
    assert_eq!(info["aggregates"], json!([]));
}

#[test]
fn what_needs_no_change_is_not_rewritten() {
    for text in [
        "SELECT * FROM c",
        "SELECT TOP 5 * FROM c",
        "SELECT DISTINCT c.blah FROM c",
    ] {
        assert_eq!(rewritten(text), "", "{text}");
    }
    assert_eq!(
        rewritten("SELECT c.a, c.b AS x FROM c OFFSET 1 LIMIT 2"),
        "SELECT c.a, c.b AS x FROM c OFFSET 0 LIMIT 3"
    );
    assert_eq!(
        rewritten("SELECT DISTINCT TOP 5 VALUE c.name FROM c"),
        "SELECT DISTINCT VALUE c.name FROM c"
    );
    assert_eq!(
        rewritten("SELECT DISTINCT * FROM c WHERE c.key = 5 OFFSET 1 LIMIT 2"),
        "SELECT DISTINCT * FROM c WHERE c.key = 5"
    );
}

#[test]
fn duplicates_are_neighbours_only_where_the_value_is_sorted() {
    for (text, expected) in [
        (
            "SELECT DISTINCT VALUE c.a FROM c ORDER BY c.a DESC",
            "Ordered",
        ),
        ("SELECT DISTINCT VALUE c.a FROM c ORDER BY c.b", "Unordered"),
        (
            "SELECT DISTINCT VALUE c.a FROM c ORDER BY c.a, c.b",
            "Unordered",
        ),
        ("SELECT DISTINCT c.a FROM c ORDER BY c.a", "Unordered"),
        ("SELECT DISTINCT VALUE 1 FROM c", "Unordered"),
        (
            "SELECT DISTINCT VALUE c.a FROM c ORDER BY c[\"a\"]",
            "Ordered",
        ),
        ("SELECT DISTINCT VALUE 1", "None"),
        ("SELECT VALUE c.a FROM c", "None"),
    ] {
        assert_eq!(plan(text).distinct, expected, "{text}");
    }
}

#[test]
fn one_partition_key_sorts_and_cuts_by_itself() {
    let info =
        &plan("SELECT TOP 3 * FROM c WHERE c.key = @key ORDER BY c.a").to_json()["queryInfo"];
    assert_eq!(info["orderBy"], json!([]));
    assert_eq!(info["rewrittenQuery"], "");
    assert_eq!(info["top"], 3);
    let info = &plan("SELECT * FROM c WHERE c.key = 5 OFFSET 1 LIMIT 2").to_json()["queryInfo"];
    assert_eq!(
        (&info["offset"], &info["limit"]),
        (&Value::Null, &Value::Null)
    );
    let info = &plan("SELECT VALUE COUNT(1) FROM c WHERE c.key = 5").to_json()["queryInfo"];
    assert_eq!(info["aggregates"], json!(["Count"]));
}

#[test]
fn the_condition_on_the_partition_key_names_the_ranges() {
    let ranges = |keys: &[&str], filter: &str| -> Vec<(String, String)> {
        let plan = plan_over(keys, &format!("SELECT * FROM c WHERE {filter}")).to_json();
        let ranges = plan["queryRanges"].as_array().unwrap();
        let text = |range: &Value, name: &str| range[name].as_str().unwrap().to_owned();
        ranges
            .iter()
            .map(|range| (text(range, "min"), text(range, "max")))
            .collect()
    };
    let point = |value: Value| Version::V2.effective_partition_key(&[Some(value)]);
    let everything = [(String::new(), "FF".to_owned())];
    let one = [(point(json!("k")), point(json!("k")))];
    for filter in [
        "c.key = 'k'",
        "c.a > 1 AND @key = c[\"key\"]",
        "c.key = 'k' OR c.key = @key",
        "c.key IN ('k')",
    ] {
        assert_eq!(ranges(&["/key"], filter), one, "{filter}");
    }
    for filter in [
        "c.a = 1",
        "c.key = 'k' OR c.a = 1",
        "NOT (c.key = 'k')",
        "c.key > 'k'",
        "c.key = c.a",
    ] {
        assert_eq!(ranges(&["/key"], filter), everything, "{filter}");
    }
    assert_eq!(
        ranges(&["/key"], "c.key IN (1, 2, 3) AND c.key IN (3.0, 2, 7)").len(),
        2
    );
    let prefix = point(json!("a"));
    assert_eq!(
        ranges(&["/t", "/u"], "c.t = 'a'"),
        [(prefix.clone(), format!("{prefix}FF"))]
    );
    assert_eq!(ranges(&["/t", "/u"], "c.u = 'a'"), everything);
    assert_eq!(
        ranges(
            &["/t", "/u"],
            "(c.t = 'a' AND c.u = 1) OR (c.t = 'b' AND c.u IN (1, 2))"
        )
        .len(),
        3
    );
}

#[test]
fn sub_queries_are_left_to_the_partitions() {
    let text = "SELECT (SELECT VALUE COUNT(1) FROM t IN c.tags) AS tags, ARRAY(SELECT TOP 1 VALUE t FROM t IN c.tags) AS first \
                FROM c WHERE EXISTS (SELECT VALUE t FROM t IN c.tags WHERE t.key = 'k')";
    let found = plan(text);
    assert_eq!(found.features(), [] as [&str; 0]);
    assert_eq!(found.rewritten, "");
    let derived = plan("SELECT * FROM (SELECT c.a AS key FROM c) AS r WHERE r.key = 'k'").to_json();
    assert_eq!(derived["queryRanges"][0]["max"], "FF");
    let sorted =
        rewritten("SELECT (SELECT VALUE MAX(t) FROM t IN c.tags) AS most FROM c ORDER BY c.a");
    assert_eq!(
        sorted,
        "SELECT c._rid, [{\"item\": c.a}] AS orderByItems, {\"most\": (SELECT VALUE MAX(t) FROM t IN c.tags)} AS payload \
         FROM c WHERE ({documentdb-formattableorderbyquery-filter}) ORDER BY c.a"
    );
    sql::parse(&sorted.replace("{documentdb-formattableorderbyquery-filter}", "true")).unwrap();
}

#[test]
fn features_are_those_that_a_client_must_know() {
    for (text, expected) in [
        ("SELECT * FROM c", &[][..]),
        ("SELECT VALUE COUNT(1) FROM c", &["Aggregate"]),
        ("SELECT COUNT(1) FROM c", &["NonValueAggregate"]),
        (
            "SELECT COUNT(1), SUM(c.a) FROM c",
            &["MultipleAggregates", "NonValueAggregate"],
        ),
        ("SELECT c.a FROM c GROUP BY c.a", &["GroupBy"]),
        (
            "SELECT DISTINCT TOP 1 c.a FROM c ORDER BY c.a, c.b",
            &["Distinct", "MultipleOrderBy", "Top"],
        ),
        (
            "SELECT * FROM c ORDER BY c.a OFFSET 0 LIMIT 1",
            &["OffsetAndLimit", "OrderBy"],
        ),
        (
            "SELECT TOP 1 * FROM c ORDER BY RANK RRF(FullTextScore(c.a, 'x'), FullTextScore(c.b, 'x'), [1, 2])",
            &["HybridSearch", "WeightedRankFusion", "Top"],
        ),
    ] {
        assert_eq!(plan(text).features(), expected, "{text}");
    }
}

#[test]
fn an_aggregate_inside_of_something_else_is_refused() {
    let parameters = HashMap::new();
    for text in [
        "SELECT VALUE ABS(AVG(c.a)) FROM c",
        "SELECT VALUE [SUM(c.a)] FROM c",
        "SELECT * FROM c GROUP BY c.a",
    ] {
        let query = PlanInput {
            text,
            parameters: &parameters,
            key: &[],
            version: Version::V2,
            definition: &Value::Null,
        };
        assert_eq!(QueryPlan::of(query).unwrap_err().status, 400, "{text}");
    }
}
