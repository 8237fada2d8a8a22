//! Tests of clauses and sub-queries on one document, and of errors.

use serde_json::{Value, json};

use super::{answer, parse};

#[test]
fn from_binds_documents_their_parts_and_rows_of_sub_queries() {
    for (text, expected) in [
        ("SELECT VALUE 1", json!([1])),
        ("SELECT VALUE r.n FROM root r", json!([3])),
        (
            "SELECT VALUE d FROM c.inner.deep d",
            json!([{ "er": [4, 5] }]),
        ),
        ("SELECT VALUE deep.er[1] FROM c.inner.deep", json!([5])),
        ("SELECT * FROM c.inner[\"a b\"]", json!([7])),
        ("SELECT VALUE t.w FROM t IN c.tags", json!([1, 5, 9])),
        (
            "SELECT VALUE c.w FROM c IN c.tags WHERE c.name = 't2'",
            json!([5, 9]),
        ),
        ("SELECT * FROM t IN c.inner.deep.er", json!([4, 5])),
        ("SELECT VALUE t FROM c.missing t", json!([])),
        ("SELECT VALUE t FROM t IN c.n", json!([])),
        (
            "SELECT c.n, t.w FROM c JOIN t IN c.tags WHERE t.w > 1",
            json!([{ "n": 3, "w": 5 }, { "n": 3, "w": 9 }]),
        ),
        (
            "SELECT VALUE [a.w, b] FROM c JOIN a IN c.tags JOIN b IN c.inner.deep.er WHERE a.w = b",
            json!([[5, 5]]),
        ),
        (
            "SELECT VALUE t FROM c JOIN (SELECT VALUE t.w FROM t IN c.tags WHERE t.w < 6) t",
            json!([1, 5]),
        ),
        (
            "SELECT VALUE s FROM c JOIN s IN (SELECT VALUE c.list) WHERE IS_STRING(s)",
            json!(["a"]),
        ),
        ("SELECT VALUE COUNT(1) FROM c JOIN t IN c.tags", json!([3])),
    ] {
        assert_eq!(answer(text).map(Value::from), Ok(expected), "{text}");
    }
}

#[test]
fn sub_queries_are_values_arrays_and_conditions() {
    for (expression, expected) in [
        (
            "EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t.w = 5)",
            json!([true]),
        ),
        (
            "NOT EXISTS(SELECT VALUE t FROM t IN c.missing)",
            json!([true]),
        ),
        (
            "ARRAY(SELECT t.name AS n FROM t IN c.tags WHERE t.w < 2)",
            json!([[{ "n": "t1" }]]),
        ),
        (
            "ARRAY(SELECT DISTINCT VALUE t.name FROM t IN c.tags)",
            json!([["t1", "t2"]]),
        ),
        (
            "ARRAY(SELECT TOP @two VALUE t.w FROM t IN c.tags WHERE t.w > 1)",
            json!([[5, 9]]),
        ),
        ("FIRST(SELECT VALUE t.w FROM t IN c.tags)", json!([1])),
        ("last(SELECT VALUE t.w FROM t IN c.tags)", json!([9])),
        ("FIRST(SELECT VALUE t FROM t IN c.missing)", json!([])),
        (
            "ARRAY(SELECT t.name, SUM(t.w) AS w FROM t IN c.tags GROUP BY t.name)",
            json!([[{ "name": "t1", "w": 1 }, { "name": "t2", "w": 14 }]]),
        ),
        ("(SELECT VALUE MAX(t.w) FROM t IN c.tags)", json!([9])),
        (
            "(SELECT VALUE COUNT(1) FROM t IN c.tags WHERE t.w > c.n) + 1",
            json!([3]),
        ),
        ("(SELECT VALUE t.w FROM t IN c.missing)", json!([])),
        ("(SELECT VALUE c)[\"n\"]", json!([3])),
        ("(SELECT c.n).n", json!([3])),
        ("EXISTS(SELECT VALUE c.missing)", json!([false])),
        (
            "ARRAY(SELECT VALUE x FROM x IN c.inner.deep.er WHERE EXISTS(SELECT VALUE 1 FROM t IN c.tags WHERE t.w = x))",
            json!([[5]]),
        ),
    ] {
        let text = format!("SELECT VALUE {expression} FROM c");
        assert_eq!(answer(&text).map(Value::from), Ok(expected), "{text}");
    }
    let refused = answer("SELECT VALUE (SELECT VALUE t FROM t IN c.tags) FROM c");
    assert!(refused.expect_err("two rows").contains("cardinality"));
}

#[test]
fn aggregates_ignore_undefined_values() {
    for (aggregate, expected) in [
        ("COUNT(t.w)", json!([3])),
        ("COUNT(t.missing)", json!([0])),
        ("SUM(t.w) / COUNT(1)", json!([5])),
        ("AVG(t.w)", json!([5])),
        ("AVG(t.missing)", json!([])),
        ("SUM(t.name)", json!([])),
        ("AVG(t.w > 1 ? 'a' : t.w)", json!([])),
        ("MIN(t.w > 1 ? 'a' : t.w)", json!([1])),
        ("MAX(t.w > 1 ? 'a' : t.w)", json!(["a"])),
        ("MAX(t)", json!([])),
        (
            "{ 'low': MIN(t.w), 'none': MIN(t.missing) }",
            json!([{ "low": 1 }]),
        ),
    ] {
        let text = format!("SELECT VALUE {aggregate} FROM c JOIN t IN c.tags");
        assert_eq!(answer(&text).map(Value::from), Ok(expected), "{text}");
    }
}

#[test]
fn a_group_has_a_value_per_grouping_expression() {
    for (text, expected) in [
        (
            "SELECT LEFT(t.name, 1) AS l, COUNT(1) AS n, 'x' AS x FROM t IN c.tags GROUP BY LEFT(t.name, 1)",
            json!([{ "l": "t", "n": 3, "x": "x" }]),
        ),
        (
            "SELECT VALUE t.name FROM t IN c.tags GROUP BY t[\"name\"]",
            json!(["t1", "t2"]),
        ),
    ] {
        assert_eq!(answer(text).map(Value::from), Ok(expected), "{text}");
    }
}

/// Returns the code, location and cause of the error of a query.
fn error_of(text: &str) -> (String, [u64; 2], String) {
    let refused = parse(text).expect_err(text);
    assert_eq!(refused.status, 400);
    let json = refused
        .message
        .strip_prefix("Message: ")
        .expect("a message");
    let body: Value = serde_json::from_str(json).expect("JSON");
    let error = &body["errors"][0];
    assert_eq!(error["severity"], "Error");
    let text = |name: &str| error[name].as_str().expect("a text").to_owned();
    let place = |name: &str| error["location"][name].as_u64().expect("a place");
    (
        text("code"),
        [place("start"), place("end")],
        text("message"),
    )
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn an_error_has_its_code_location_and_cause() {
    for (text, code, place, cause) in [
        // Users have reported these four from the service.
        (
            "SELECT .",
            "SC1001",
            [7, 8],
            "Syntax error, incorrect syntax near '.'.",
        ),
        (
            "SELECT * FROM c;",
            "SC1010",
            [15, 16],
            "Syntax error, invalid token ';'.",
        ),
        (
            "SELECT ROW_NUMBER over",
            "SC2001",
            [7, 17],
            "Identifier 'ROW_NUMBER' could not be resolved.",
        ),
        (
            "SELECT * FROM c WHERE c.a = '",
            "SC1012",
            [28, 29],
            "Syntax error, invalid string literal token '''.",
        ),
        (
            "SELECT * FROM c WHERE d.a = 1",
            "SC2001",
            [22, 23],
            "Identifier 'd' could not be resolved.",
        ),
        (
            "SELECT VALUE nope(1)",
            "SC2005",
            [13, 17],
            "'nope' is not a recognized built-in function name.",
        ),
        (
            "SELECT 'é', FROM c",
            "SC1001",
            [12, 16],
            "Syntax error, incorrect syntax near 'FROM'.",
        ),
        (
            "SELECT * FROM c WHERE c.value = 1",
            "SC1001",
            [24, 29],
            "Syntax error, incorrect syntax near 'value'.",
        ),
        (
            "SELECT * FROM c WHERE NULL = 1",
            "SC2001",
            [22, 26],
            "Identifier 'NULL' could not be resolved.",
        ),
        (
            "SELECT * FROM c WHERE",
            "SC1001",
            [21, 21],
            "Syntax error, incorrect syntax near ''.",
        ),
    ] {
        let found = error_of(text);
        assert_eq!(found, (code.to_owned(), place, cause.to_owned()), "{text}");
    }
}

#[test]
fn queries_that_the_service_rejects_are_rejected() {
    for (text, part) in [
        ("SELECT * FROM c JOIN t IN c.tags", "single input set"),
        ("SELECT *", "FROM clause is omitted"),
        ("SELECT * FROM c GROUP BY c.n", "select list"),
        ("SELECT c.n, c.x FROM c GROUP BY c.n", "select list"),
        ("SELECT c.n, COUNT(1) FROM c", "select list"),
        ("SELECT VALUE SUM(COUNT(1)) FROM c", "aggregate"),
        (
            "SELECT VALUE c FROM c WHERE COUNT(1) > 1",
            "allowed in SELECT only",
        ),
        ("SELECT c.n FROM c GROUP BY c.n ORDER BY c.n", "GROUP BY"),
        ("SELECT * FROM c OFFSET 1", "incorrect syntax"),
        ("SELECT * FROM c LIMIT 1", "incorrect syntax"),
        ("SELECT TOP c.n * FROM c", "incorrect syntax"),
        (
            "SELECT VALUE t FROM c JOIN t IN u.x JOIN u IN c.tags",
            "'u'",
        ),
        (
            "SELECT VALUE EXISTS(SELECT VALUE x FROM x IN d.list) FROM c",
            "'d'",
        ),
        (
            "SELECT VALUE ARRAY(SELECT VALUE t FROM t IN c.tags ORDER BY t.w) FROM c",
            "'ORDER BY' is not supported in subqueries.",
        ),
        (
            "SELECT VALUE FIRST(SELECT VALUE t FROM t IN c.tags ORDER BY t.w) FROM c",
            "'ORDER BY' is not supported in subqueries.",
        ),
        (
            "SELECT VALUE c FROM (SELECT VALUE d FROM d ORDER BY d.n) c",
            "'ORDER BY' is not supported in subqueries.",
        ),
        (
            "SELECT VALUE c FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags OFFSET 1 LIMIT 1)",
            "'OFFSET LIMIT' clause is not supported in subqueries.",
        ),
        ("SELECT VALUE 1e999", "invalid token"),
        ("SELECT VALUE 'a\nb'", "invalid string literal"),
        ("SELECT VALUE '\\q'", "invalid string literal"),
        ("SELECT VALUE 'a' LIKE 'b' ESCAPE 'cd'", "one character"),
    ] {
        let (_, _, cause) = error_of(text);
        assert!(cause.contains(part), "{text}: {cause}");
    }
    let joins = " JOIN t IN c.tags".repeat(11);
    assert!(
        error_of(&format!("SELECT VALUE 1 FROM c{joins}"))
            .2
            .contains("10 joins")
    );
    let long = format!("SELECT VALUE 1 -- {}", "x".repeat(600_000));
    assert_eq!(error_of(&long).0, "SC3020");
}

#[test]
fn a_query_that_multiplies_its_work_is_rejected() {
    // A text that is eight times as long with each of 21 levels; and the cross product of nine
    // lists.
    let octupled = (0..21).fold("'xxxxxxxx'".to_owned(), |text, _| {
        format!("(SELECT VALUE CONCAT(x, x, x, x, x, x, x, x) FROM (SELECT VALUE {text}) x)")
    });
    let list = format!("[{}]", vec!["c.tags"; 40].join(", "));
    let names = ["a", "b", "d", "e", "f", "g", "h", "i", "j"];
    let chosen = names
        .map(|name| format!(" JOIN {name} IN (SELECT VALUE {list})"))
        .concat();
    let replaced = "REPLACE(REPLACE(REPLICATE('a', 10000), 'a', REPLICATE('a', 10000)), 'a', 'aa')";
    for text in [
        format!("SELECT VALUE {octupled} FROM c"),
        format!("SELECT VALUE COUNT(1) FROM c{chosen}"),
        format!("SELECT VALUE {replaced} FROM c"),
    ] {
        let refused = answer(&text).expect_err("it ends");
        assert!(refused.contains("more work on a single item"), "{refused}");
    }
}
