//! Tests of user-defined functions in queries.

use reqwest::Method;
use serde_json::{Value, json};

use super::{IN_P, assert_failed, define, fill, rows, run, send};
use crate::account::{Account, Headers};

/// `udfTax` of how-to-write-stored-procedures-triggers-udfs.
const TAX: &str = r"function tax(income) {
    if (income == undefined)
        throw 'no input';
    if (income < 1000)
        return income * 0.1;
    else if (income < 10000)
        return income * 0.2;
    else
        return income * 0.4;
}";

/// Starts an account with three incomes and a function.
async fn incomes(id: &str, body: &str) -> Account {
    let account = Account::start().await;
    define(&account, "udfs", &json!({ "id": id, "body": body })).await;
    let documents: Vec<Value> = [500, 5000, 50_000]
        .map(|n| json!({ "income": n, "parts": [n, 100] }))
        .into();
    fill(&account, &documents).await;
    account
}

#[tokio::test]
async fn a_function_is_called_in_every_clause() {
    let account = incomes("tax", TAX).await;
    for (sql, expected) in [
        (
            "SELECT VALUE udf.tax(c.income) FROM c ORDER BY c.income",
            json!([50, 1000, 20_000]),
        ),
        (
            "SELECT c.id FROM c WHERE udf.tax(c.income) > 10000",
            json!([{ "id": "2" }]),
        ),
        (
            "SELECT c.id, udf.tax(c.income) AS tax FROM c WHERE c.id = '1'",
            json!([{ "id": "1", "tax": 1000 }]),
        ),
        (
            "SELECT VALUE SUM(udf.tax(c.income)) FROM c",
            json!([21_050]),
        ),
        (
            "SELECT VALUE COUNT(1) FROM c WHERE NOT udf.tax(c.income) IN (50, 1000)",
            json!([1]),
        ),
        (
            "SELECT udf.tax(c.income) > 900 AS high, COUNT(1) AS n FROM c GROUP BY udf.tax(c.income) > 900",
            json!([{ "high": false, "n": 1 }, { "high": true, "n": 2 }]),
        ),
        (
            "SELECT VALUE r.t FROM (SELECT udf.tax(c.income) AS t FROM c) r WHERE r.t < 60",
            json!([50]),
        ),
        (
            "SELECT VALUE ARRAY(SELECT VALUE udf.tax(n) FROM n IN c.parts) FROM c WHERE c.id = '0'",
            json!([[50, 10]]),
        ),
        ("SELECT VALUE UDF.tax(10)", json!([1])),
    ] {
        assert_eq!(json!(rows(&account, sql).await), expected, "{sql}");
    }
    let sql = "SELECT VALUE udf.tax(@income) FROM c WHERE c.id = '0'";
    let parameters = json!([{ "name": "@income", "value": 2000 }]);
    let answer = account.query(IN_P, sql, parameters).await;
    assert_eq!(answer.documents(), [json!(400)]);
}

#[tokio::test]
async fn an_exception_of_a_function_refuses_the_query() {
    let account = incomes("tax", TAX).await;
    let refused = account
        .query(IN_P, "SELECT VALUE udf.tax(c.none) FROM c", json!([]))
        .await;
    assert_failed(&refused, "", "Exception = no input");
}

#[tokio::test]
async fn an_unknown_function_is_refused() {
    let account = incomes("tax", TAX).await;
    for sql in [
        "SELECT VALUE udf.none(c.income) FROM c",
        "SELECT * FROM c WHERE EXISTS (SELECT VALUE udf.none(c.income))",
        "SELECT VALUE udf.TAX(c.income) FROM c WHERE false",
    ] {
        let refused = account.query(IN_P, sql, json!([])).await;
        assert_failed(
            &refused,
            "",
            "is not a user-defined function of the container",
        );
    }
    let built_in = account
        .query(IN_P, "SELECT VALUE tax(c.income) FROM c", json!([]))
        .await;
    assert_failed(&built_in, "", "is not a recognized built-in function name");
    let syntax = account
        .query(IN_P, "SELECT VALUE udf.tax FROM c", json!([]))
        .await;
    assert_failed(&syntax, "", "Syntax error");
}

#[tokio::test]
async fn a_function_matches_a_regular_expression() {
    // `REGEX_MATCH` of query/udfs.
    let account = Account::start().await;
    let body = "function (input, pattern) { return input.match(pattern) !== null; };";
    define(
        &account,
        "udfs",
        &json!({ "id": "REGEX_MATCH", "body": body }),
    )
    .await;
    fill(
        &account,
        &[json!({ "city": "seattle" }), json!({ "city": "ny" })],
    )
    .await;
    let sql = r#"SELECT VALUE udf.REGEX_MATCH(c.city, ".*eattle") FROM c ORDER BY c.id"#;
    assert_eq!(rows(&account, sql).await, [true, false]);
}

#[tokio::test]
async fn undefined_and_null_are_told_apart() {
    // `SEALEVEL` of query/udfs.
    let body = r"function (city) {
        switch (city) {
            case undefined: return -1;
            case null: return 0;
            case 'Seattle': return 520;
            case 'Chicago': return { level: [673.5] };
        }
    }";
    let account = Account::start().await;
    define(&account, "udfs", &json!({ "id": "SEALEVEL", "body": body })).await;
    let sql = "SELECT VALUE [udf.SEALEVEL(undefined), udf.SEALEVEL(null), udf.SEALEVEL('Seattle'),
        udf.SEALEVEL('Chicago').level[0], udf.SEALEVEL('NY'), IS_DEFINED(udf.SEALEVEL('NY'))]";
    assert_eq!(
        rows(&account, sql).await,
        [json!([-1, 0, 520, 673.5, false])]
    );
}

#[tokio::test]
async fn a_function_sees_no_context() {
    let body = "() => [typeof getContext, typeof __, typeof console, typeof require]";
    let account = Account::start().await;
    define(&account, "udfs", &json!({ "id": "see", "body": body })).await;
    let found = rows(&account, "SELECT VALUE udf.see()").await;
    assert_eq!(found, [json!(vec!["undefined"; 4])]);
}

#[tokio::test]
async fn a_query_of_all_partitions_calls_functions() {
    let account = incomes("tax", TAX).await;
    let sql = "SELECT c.id FROM c WHERE udf.tax(c.income) >= 1000 ORDER BY c.income";
    let everywhere = ("x-ms-documentdb-query-enablecrosspartition", "True");
    let plan: Headers<'_> = &[
        everywhere,
        ("x-ms-cosmos-is-query-plan-request", "True"),
        (
            "x-ms-cosmos-supported-query-features",
            "OrderBy, MultipleOrderBy",
        ),
    ];
    let plan = account.query(plan, sql, json!([])).await;
    assert_eq!(plan.status, 200, "{}", plan.body);
    let rewritten = plan.body["queryInfo"]["rewrittenQuery"]
        .as_str()
        .expect("a query");
    assert!(
        rewritten.contains("udf.tax(c.income) >= 1000"),
        "{rewritten}"
    );
    let rewritten = rewritten.replace("{documentdb-formattableorderbyquery-filter}", "true");
    let headers: Headers<'_> = &[everywhere, ("x-ms-documentdb-partitionkeyrangeid", "0")];
    let answer = account.query(headers, &rewritten, json!([])).await;
    assert_eq!(answer.documents().len(), 2, "{}", answer.body);
    let unsorted = "SELECT VALUE c.id FROM c WHERE udf.tax(c.income) = 50";
    assert_eq!(
        account
            .query(&[everywhere], unsorted, json!([]))
            .await
            .documents(),
        ["0"]
    );
}

#[tokio::test]
async fn no_index_serves_a_function() {
    let account = incomes("tax", TAX).await;
    let indexed = account
        .query(IN_P, "SELECT c.id FROM c WHERE c.income = 500", json!([]))
        .await;
    let called = account
        .query(
            IN_P,
            "SELECT c.id FROM c WHERE udf.tax(c.income) = 50",
            json!([]),
        )
        .await;
    assert_eq!(indexed.documents(), called.documents());
    assert!(
        called.charge() > indexed.charge(),
        "{} {}",
        called.charge(),
        indexed.charge()
    );
}

#[tokio::test]
async fn a_procedure_queries_with_functions() {
    let account = incomes("tax", TAX).await;
    let script = "() => __.queryDocuments(__.getSelfLink(), 'SELECT VALUE udf.tax(c.income) FROM c WHERE c.id = \"2\"',
        (error, rows) => { if (error) throw error; __.response.setBody(rows); })";
    assert_eq!(run(&account, script, json!([])).await.body, json!([20_000]));
}

#[tokio::test]
async fn a_replaced_function_is_used_at_once() {
    let account = incomes("tax", TAX).await;
    let replaced = json!({ "id": "tax", "body": "x => x + 1" });
    let answer = send(
        &account,
        Method::PUT,
        ("udfs", "tax"),
        (&[], Some(&replaced)),
    )
    .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let sql = "SELECT VALUE udf.tax(c.income) FROM c WHERE c.id = '0'";
    assert_eq!(rows(&account, sql).await, [501]);
}
