//! Tests of requests that Microsoft's clients send and that the protocol's description does not name.

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Headers, Request};

const IN_P: Headers<'_> = &[("x-ms-documentdb-partitionkey", r#"["p"]"#)];
const EVERYWHERE: Headers<'_> = &[("x-ms-documentdb-query-enablecrosspartition", "True")];

async fn filled(count: usize) -> Account {
    let account = Account::start().await;
    for n in 0..count {
        let document = json!({ "id": format!("{n:03}"), "pk": "p", "n": n });
        account.create(&document).await.is(201);
    }
    account
}

async fn get(
    account: &Account,
    resource: (&str, &str),
    path: &str,
    headers: Headers<'_>,
) -> Answer {
    let request = Request::new(Method::GET, resource, path).headers(headers);
    account.send(&request).await
}

#[tokio::test]
async fn the_refusal_of_a_query_that_needs_a_merge_contains_its_plan() {
    let account = filled(1).await;
    let sql = "SELECT VALUE c.n FROM c ORDER BY c.n";
    let refused = account.query(EVERYWHERE, sql, json!([])).await;
    refused.has(400, "x-ms-substatus", "1004");
    let plan = refused.body["additionalErrorInfo"]
        .as_str()
        .expect("a text");
    let plan: Value = serde_json::from_str(plan).expect("JSON");
    assert_eq!(plan["queryInfo"]["orderBy"], json!(["Ascending"]));
    assert_eq!(plan["queryRanges"][0]["max"], "FF");
}

#[tokio::test]
async fn an_unknown_version_is_refused() {
    let account = filled(0).await;
    // Refused by the service: learn.microsoft.com/answers 456967, azure-cosmos-dotnet-v3#3170.
    for (version, status) in [
        ("2018-12-31", 200),
        ("2021-03-15", 400),
        ("2019-10-14", 400),
    ] {
        let headers = [IN_P[0], ("x-ms-version", version)];
        let answer = account.query(&headers, "SELECT * FROM c", json!([])).await;
        assert_eq!(answer.status, status, "{version}");
    }
}

#[tokio::test]
async fn a_patch_can_be_an_array_of_operations() {
    let account = filled(1).await;
    let operations = json!([{ "op": "incr", "path": "/n", "value": 2 }]);
    let patched = account
        .item(Method::PATCH, "000", &[], Some(&operations))
        .await;
    assert_eq!((patched.status, &patched.body["n"]), (200, &json!(2)));
    let batch = json!([{ "operationType": "Patch", "id": "000", "resourceBody": operations }]);
    let results = account.batch(&batch).await;
    assert_eq!(results.statuses(), [200]);
    assert_eq!(results.body[0]["resourceBody"]["n"], 4);
}

#[tokio::test]
async fn a_filter_of_a_thousand_documents_is_answered() {
    let account = filled(20).await;
    let terms: Vec<String> = (0..1000)
        .map(|n| format!("(c.id = @id{n} AND c.pk = @pk{n})"))
        .collect();
    let parameters = (0..1000).flat_map(|n| {
        let id = json!({ "name": format!("@id{n}"), "value": format!("{n:03}") });
        [id, json!({ "name": format!("@pk{n}"), "value": "p" })]
    });
    let sql = format!("SELECT * FROM c WHERE {}", terms.join(" OR "));
    let begun = std::time::Instant::now();
    let found = account.query(EVERYWHERE, &sql, parameters.collect()).await;
    assert_eq!(found.documents().len(), 20, "{}", found.body);
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_sorted_query_resumes_with_another_filter() {
    let account = filled(10).await;
    let page = |sql: &'static str, token: String| {
        let account = &account;
        async move {
            let headers = [
                IN_P[0],
                ("x-ms-max-item-count", "3"),
                ("x-ms-continuation", &token),
            ];
            account.query(&headers, sql, json!([])).await
        }
    };
    let first = page(
        "SELECT VALUE c.n FROM c WHERE (true) ORDER BY c.n",
        String::new(),
    )
    .await;
    assert_eq!(first.documents(), [0, 1, 2]);
    let token = first.header("x-ms-continuation").to_owned();
    let resumed = page(
        "SELECT VALUE c.n FROM c WHERE (c.n >= 2) ORDER BY c.n",
        token.clone(),
    )
    .await;
    assert_eq!(resumed.documents(), [3, 4, 5]);
    for other in [
        "SELECT VALUE c.n FROM c WHERE (true) ORDER BY c.n DESC",
        "SELECT VALUE c.n FROM c WHERE (true)",
    ] {
        assert_eq!(page(other, token.clone()).await.status, 400, "{other}");
    }
}

#[tokio::test]
async fn a_query_over_folded_rows_is_merged_or_refused() {
    let account = filled(3).await;
    let plan = async |sql: &str, known: &str| {
        let headers: Headers<'_> = &[
            ("x-ms-cosmos-is-query-plan-request", "True"),
            ("x-ms-cosmos-supported-query-features", known),
        ];
        account.query(headers, sql, json!([])).await
    };
    let counted = "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.n FROM c)";
    let planned = plan(counted, "DCount,Distinct").await;
    assert_eq!(planned.status, 200, "{}", planned.body);
    let info = &planned.body["queryInfo"];
    assert_eq!(info["dCountInfo"], json!({ "dCountAlias": "" }));
    assert_eq!(info["rewrittenQuery"], "SELECT DISTINCT VALUE c.n FROM c");
    assert_eq!(plan(counted, "Aggregate,Distinct").await.status, 400);
    for sql in [
        "SELECT VALUE COUNT(1) FROM (SELECT c.n FROM c GROUP BY c.n)",
        "SELECT VALUE SUM(r) FROM (SELECT DISTINCT VALUE c.n FROM c) AS r",
        "SELECT * FROM (SELECT TOP 1 c.n FROM c) AS r",
    ] {
        let refused = plan(sql, "DCount,Distinct,Aggregate,GroupBy,Top").await;
        assert_eq!(refused.status, 400, "{sql}");
        assert_eq!(
            account.query(EVERYWHERE, sql, json!([])).await.status,
            400,
            "{sql}"
        );
    }
}

#[tokio::test]
async fn index_metrics_of_version_2_are_percent_encoded() {
    let account = filled(1).await;
    let headers = [IN_P[0], ("x-ms-cosmos-populateindexmetrics-V2", "true")];
    let answer = account
        .query(&headers, "SELECT * FROM c WHERE c.n = 1", json!([]))
        .await;
    let text = answer.header("x-ms-cosmos-index-utilization");
    let text = text
        .replace("%22", "\"")
        .replace("%2F", "/")
        .replace("%3F", "?");
    assert!(text.contains("\"IndexSpec\"%3A\"/n/?\""), "{text}");
    assert!(
        text.starts_with("%7B\"Utilized\"%3A") || text.starts_with("%7B\"Potential\"%3A"),
        "{text}"
    );
}

#[tokio::test]
async fn a_container_has_no_scripts_and_no_conflicts() {
    let account = filled(0).await;
    for (kind, list) in [
        ("sprocs", "StoredProcedures"),
        ("triggers", "Triggers"),
        ("udfs", "UserDefinedFunctions"),
        ("conflicts", "Conflicts"),
    ] {
        let path = format!("dbs/db/colls/c/{kind}");
        let listed = get(&account, (kind, "dbs/db/colls/c"), &path, &[]).await;
        assert_eq!(
            (listed.status, &listed.body[list]),
            (200, &json!([])),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_global_secondary_index_is_refused() {
    let account = filled(0).await;
    // Both names of the definition, as the Java SDK sends them.
    for name in [
        "globalSecondaryIndexDefinition",
        "materializedViewDefinition",
    ] {
        let definition = json!({ "sourceCollectionId": "c", "definition": "SELECT * FROM c" });
        let container = json!({
            "id": "index", "partitionKey": { "paths": ["/state"], "kind": "Hash" }, name: definition,
        });
        let create = Request::new(Method::POST, ("colls", "dbs/db"), "dbs/db/colls");
        let refused = account.send(&create.body(&container)).await;
        assert_eq!(refused.status, 400, "{name}");
        let text = refused.body["message"].as_str().unwrap_or_default();
        assert!(text.contains("no global secondary indexes"), "{text}");
    }
}

#[tokio::test]
async fn scripts_are_refused() {
    let account = filled(0).await;
    let body =
        json!({ "id": "s", "body": "() => {}", "triggerType": "Pre", "triggerOperation": "All" });
    let needs = |refused: Answer| {
        let text = refused.body["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(text.contains("does not run scripts"), "{text}");
        refused.status
    };
    for kind in ["sprocs", "triggers", "udfs"] {
        let path = format!("dbs/db/colls/c/{kind}");
        let request = Request::new(Method::POST, (kind, "dbs/db/colls/c"), &path).body(&body);
        assert_eq!(needs(account.send(&request).await), 400, "{kind}");
    }
    let arguments = json!([]);
    let execution = Request::to(Method::POST, "sprocs", "dbs/db/colls/c/sprocs/s").body(&arguments);
    assert_eq!(needs(account.send(&execution).await), 400);
    let triggered: Headers<'_> = &[
        ("x-ms-documentdb-partitionkey", r#"["p"]"#),
        ("x-ms-documentdb-pre-trigger-include", "t"),
    ];
    let document = json!({ "id": "new", "pk": "p" });
    assert_eq!(needs(account.post(triggered, &document).await), 400);
    let query = "SELECT VALUE udf.f(c) FROM c";
    let everywhere: Headers<'_> = &[("x-ms-documentdb-query-enablecrosspartition", "True")];
    assert_eq!(
        needs(account.query(everywhere, query, json!([])).await),
        400
    );
}

#[tokio::test]
async fn a_container_reports_its_quota_and_statistics() {
    let builder = Emulator::builder().physical_partitions(2);
    let account = Account::with(builder.start().await.expect("it starts"), json!({})).await;
    for n in 0..20 {
        let body = json!({ "id": n.to_string(), "pk": n.to_string() });
        let key = format!("[\"{n}\"]");
        let headers = [("x-ms-documentdb-partitionkey", &*key)];
        account.post(&headers, &body).await.is(201);
    }
    let headers: Headers<'_> = &[
        ("x-ms-documentdb-populatequotainfo", "True"),
        ("x-ms-documentdb-populatepartitionstatistics", "True"),
    ];
    let path = "dbs/db/colls/c";
    let read = get(&account, ("colls", path), path, headers).await;
    assert!(
        read.header("x-ms-resource-usage")
            .contains("documentsCount=20;")
    );
    assert!(
        read.header("x-ms-resource-quota")
            .contains("collectionSize=")
    );
    let statistics = read.body["statistics"].as_array().expect("a list");
    let counts = statistics
        .iter()
        .map(|range| range["documentCount"].as_u64().unwrap_or(0));
    assert_eq!((statistics.len(), counts.sum::<u64>()), (2, 20));
    assert_eq!(
        read.body["geospatialConfig"],
        json!({ "type": "Geography" })
    );
    assert_eq!(
        read.body["conflictResolutionPolicy"]["mode"],
        "LastWriterWins"
    );
}

#[tokio::test]
async fn hexadecimal_numbers_and_countif_are_evaluated() {
    let account = filled(5).await;
    for (sql, expected) in [
        ("SELECT VALUE 0x1F + 0XA", json!(41)),
        ("SELECT VALUE COUNTIF(c.n > 2) FROM c", json!(2)),
        ("SELECT VALUE COUNTIF(c.n > 20) FROM c", json!(0)),
    ] {
        let found = account.query(IN_P, sql, json!([])).await;
        assert_eq!(found.documents(), [expected], "{sql}");
    }
    account
        .query(IN_P, "SELECT VALUE 0xG", json!([]))
        .await
        .is(400);
}
