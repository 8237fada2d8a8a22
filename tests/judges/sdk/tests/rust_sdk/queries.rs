//! Queries of one partition, and of three physical ones whose results the client merges.

use std::num::NonZeroU32;

use azure_data_cosmos::options::{MaxItemCountHint, QueryOptions, QueryPlanMode};
use azure_data_cosmos::{ContainerClient, CosmosError, FeedScope, Query};
use futures::TryStreamExt;
use serde_json::{Value, json};

use crate::account::Account;

async fn rows(
    container: &ContainerClient,
    query: impl Into<Query>,
    scope: FeedScope,
) -> Vec<Value> {
    let query = query.into();
    let stream = container
        .query_items::<Value>(query, scope, None)
        .await
        .expect("a query");
    stream.try_collect().await.expect("rows")
}

#[tokio::test]
async fn one_partition_answers_the_whole_dialect() {
    let account = Account::start().await;
    let container = account.filled().await;
    for (sql, expected) in [
        (
            "SELECT VALUE c.n FROM c ORDER BY c.n DESC",
            json!([23, 13, 3]),
        ),
        (
            "SELECT TOP 1 c.id, c.n AS number FROM c ORDER BY c.n",
            json!([{ "id": "03", "number": 3 }]),
        ),
        ("SELECT VALUE COUNT(1) FROM c WHERE c.n > 3", json!([2])),
        ("SELECT VALUE AVG(c.n) FROM c", json!([13])),
        (
            "SELECT c[\"group\"], SUM(c.n) AS total FROM c GROUP BY c[\"group\"]",
            json!([{ "group": "a", "total": 3 }, { "group": "b", "total": 13 }, { "group": "c", "total": 23 }]),
        ),
        ("SELECT DISTINCT VALUE c.pk FROM c", json!(["p3"])),
        (
            "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 1 LIMIT 1",
            json!([13]),
        ),
    ] {
        let found = rows(&container, sql, FeedScope::partition("p3")).await;
        assert_eq!(json!(found), expected, "{sql}");
    }
}

#[tokio::test]
async fn queries_of_all_partitions_are_merged() {
    let account = Account::start().await;
    let container = account.filled().await;
    for (sql, expected) in [
        (
            "SELECT VALUE c.n FROM c ORDER BY c.n",
            (0..30).collect::<Vec<_>>(),
        ),
        (
            "SELECT TOP 4 VALUE c.n FROM c ORDER BY c.n DESC",
            vec![29, 28, 27, 26],
        ),
        (
            "SELECT VALUE c.n FROM c WHERE c.n < 20 ORDER BY c.n OFFSET 5 LIMIT 3",
            vec![5, 6, 7],
        ),
        (
            "SELECT VALUE c.n FROM c WHERE c.pk IN ('p1', 'p2') ORDER BY c.n",
            vec![1, 2, 11, 12, 21, 22],
        ),
        (
            "SELECT VALUE c.n FROM c WHERE c.pk = 'p7' ORDER BY c.n DESC",
            vec![27, 17, 7],
        ),
    ] {
        assert_eq!(
            json!(rows(&container, sql, FeedScope::full_container()).await),
            json!(expected),
            "{sql}"
        );
    }
    for (sql, count) in [
        ("SELECT * FROM c", 30),
        ("SELECT * FROM c OFFSET 10 LIMIT 15", 15),
        ("SELECT TOP 7 * FROM c", 7),
        ("SELECT DISTINCT TOP 9 c[\"group\"] FROM c", 3),
        ("SELECT DISTINCT VALUE c.pk FROM c ORDER BY c.pk", 10),
    ] {
        assert_eq!(
            rows(&container, sql, FeedScope::full_container())
                .await
                .len(),
            count,
            "{sql}"
        );
    }
}

#[tokio::test]
async fn query_plans_of_the_service_work_like_the_client_s_own() {
    let account = Account::start().await;
    let container = account.filled().await;
    account.emulator.reset_requests();
    for (sql, expected) in [
        (
            "SELECT TOP 3 VALUE c.n FROM c WHERE c.n > @least ORDER BY c.n",
            json!([11, 12, 13]),
        ),
        (
            "SELECT VALUE c.n FROM c WHERE c.n > @least ORDER BY c.n DESC OFFSET 1 LIMIT 2",
            json!([28, 27]),
        ),
        (
            "SELECT DISTINCT VALUE c[\"group\"] FROM c WHERE c.n > @least ORDER BY c[\"group\"]",
            json!(["a", "b", "c"]),
        ),
    ] {
        let query = Query::from(sql)
            .with_parameter("@least", 10)
            .expect("a parameter");
        let options = QueryOptions::default().with_query_plan_mode(QueryPlanMode::GatewayOnly);
        let stream = container
            .query_items::<Value>(query, FeedScope::full_container(), Some(options))
            .await;
        let found: Vec<Value> = stream.expect("a query").try_collect().await.expect("rows");
        assert_eq!(json!(found), expected, "{sql}");
    }
}

#[tokio::test]
async fn queries_the_client_cannot_merge_are_refused_with_the_service_s_message() {
    let account = Account::start().await;
    let container = account.filled().await;
    let everywhere = FeedScope::full_container();
    let error = refusal(&container, "SELECT VALUE COUNT(1) FROM c", everywhere).await;
    assert_eq!(u16::from(error.status().status_code()), 400);
    let text = error.to_string();
    assert!(
        text.contains("Query contained Aggregate, which the calling client does not support"),
        "{text}"
    );
    let error = refusal(&container, "SELECT FROM", FeedScope::partition("p")).await;
    assert_eq!(u16::from(error.status().status_code()), 400);
}

/// A query is refused when it is planned, or when its first page is asked for.
async fn refusal(container: &ContainerClient, sql: &str, scope: FeedScope) -> CosmosError {
    match container.query_items::<Value>(sql, scope, None).await {
        Ok(stream) => stream
            .try_collect::<Vec<_>>()
            .await
            .expect_err("it is refused"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_query_resumes_from_its_token() {
    let account = Account::start().await;
    let container = account.filled().await;
    for sql in [
        "SELECT VALUE c.n FROM c",
        "SELECT VALUE c.n FROM c ORDER BY c.n DESC",
    ] {
        let small = MaxItemCountHint::Limit(NonZeroU32::new(4).expect("four"));
        let mut seen: Vec<Value> = Vec::new();
        let mut token = None;
        loop {
            let mut options = QueryOptions::default().with_max_item_count(small);
            if let Some(token) = token.take() {
                options = options.with_continuation_token(token);
            }
            let stream = container
                .query_items::<Value>(sql, FeedScope::full_container(), Some(options))
                .await;
            let mut pages = stream.expect("a query").into_pages();
            let Some(page) = pages.try_next().await.expect("a page") else {
                break;
            };
            seen.extend(page.into_items());
            if seen.len() >= 30 {
                break;
            }
            token = Some(pages.to_continuation_token().expect("a token"));
        }
        seen.sort_by_key(Value::as_i64);
        assert_eq!(json!(seen), json!((0..30).collect::<Vec<_>>()), "{sql}");
    }
}
