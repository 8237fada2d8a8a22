//! Tests of query plans for clients that merge several physical partitions, and of queries of the
//! catalog.

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Headers, Request};

const FILTER: &str = "{documentdb-formattableorderbyquery-filter}";

async fn plan(account: &Account, sql: &str, known: &str) -> Answer {
    let headers: Headers<'_> = &[
        ("x-ms-cosmos-is-query-plan-request", "True"),
        ("x-ms-cosmos-supported-query-features", known),
    ];
    account.query(headers, sql, json!([])).await
}

/// Creates three physical partitions and thirty documents in ten partition keys.
async fn spread() -> Account {
    let builder = Emulator::builder().physical_partitions(3);
    let account = Account::with(builder.start().await.expect("it starts"), json!({})).await;
    for n in 0..30 {
        let document = json!({ "id": n.to_string(), "pk": format!("p{}", n % 10), "n": n });
        let key = json!([document["pk"]]).to_string();
        let created = account
            .send(
                &Request::docs(Method::POST)
                    .headers(&[("x-ms-documentdb-partitionkey", &key)])
                    .body(&document),
            )
            .await;
        assert_eq!(created.status, 201);
    }
    account
}

/// Returns the rows of a rewritten query from each physical partition.
async fn run(account: &Account, sql: &str) -> Vec<Vec<Value>> {
    let mut answers = Vec::new();
    for range in ["0", "1", "2"] {
        let headers: Headers<'_> = &[
            ("x-ms-documentdb-query-enablecrosspartition", "True"),
            ("x-ms-documentdb-partitionkeyrangeid", range),
        ];
        let answer = account.query(headers, sql, json!([])).await;
        assert_eq!(answer.status, 200, "{sql}: {}", answer.body);
        answers.push(answer.documents());
    }
    answers
}

#[tokio::test]
async fn a_rewritten_sort_can_be_merged() {
    let account = spread().await;
    let planned = plan(
        &account,
        "SELECT TOP 4 VALUE c.n FROM c ORDER BY c.n DESC",
        "OrderBy, Top",
    )
    .await;
    assert_eq!(planned.status, 200, "{}", planned.body);
    let rewritten = planned.body["queryInfo"]["rewrittenQuery"]
        .as_str()
        .expect("a query");
    let answers = run(&account, &rewritten.replace(FILTER, "true")).await;
    assert!(answers.iter().all(|rows| rows.len() == 4), "{answers:?}");
    let mut rows = answers.concat();
    rows.sort_by_key(|row| row["orderByItems"][0]["item"].as_i64().map(|n| -n));
    let merged: Vec<&Value> = rows.iter().take(4).map(|row| &row["payload"]).collect();
    assert_eq!(json!(merged), json!([29, 28, 27, 26]));
    assert!(rows.iter().all(|row| row["_rid"].is_string()));
}

#[tokio::test]
async fn rewritten_aggregates_add_up() {
    let account = spread().await;
    let planned = plan(
        &account,
        "SELECT VALUE AVG(c.n) FROM c WHERE c.n >= 10",
        "Aggregate",
    )
    .await;
    assert_eq!(planned.body["queryInfo"]["aggregates"], json!(["Average"]));
    let rewritten = planned.body["queryInfo"]["rewrittenQuery"]
        .as_str()
        .expect("a query");
    let parts = run(&account, rewritten).await.concat();
    let add = |name: &str| -> i64 {
        parts
            .iter()
            .filter_map(|part| part[0]["item"][name].as_i64())
            .sum()
    };
    assert_eq!((add("sum"), add("count")), ((10..30).sum(), 20));
}

#[tokio::test]
async fn a_plan_that_the_client_does_not_support_is_rejected() {
    let account = Account::start().await;
    let refused = plan(&account, "SELECT COUNT(1) FROM c", "OrderBy,Aggregate").await;
    assert_eq!(refused.status, 400);
    let message = refused.body["message"].as_str().expect("a message");
    assert!(
        message.contains("Query contained NonValueAggregate"),
        "{message}"
    );
    assert_eq!(plan(&account, "SELECT FROM c", "").await.status, 400);
}

#[tokio::test]
async fn databases_and_containers_can_be_queried() {
    let account = Account::start().await;
    for (path, resource, list) in [
        ("dbs", ("dbs", ""), "Databases"),
        ("dbs/db/colls", ("colls", "dbs/db"), "DocumentCollections"),
    ] {
        for (id, found) in [("db", path == "dbs"), ("c", path != "dbs"), ("x", false)] {
            let answer = account
                .send(
                    &Request::new(Method::POST, resource, path)
                        .headers(&[("x-ms-documentdb-isquery", "True")])
                        .body(&json!({ "query": "SELECT * FROM root r WHERE r.id = @id",
                        "parameters": [{ "name": "@id", "value": id }] })),
                )
                .await;
            assert_eq!(answer.status, 200, "{}", answer.body);
            assert_eq!(answer.body["_count"], u64::from(found), "{id} in {list}");
            assert_eq!(
                answer.body[list].as_array().map(Vec::len),
                Some(usize::from(found))
            );
        }
    }
}
