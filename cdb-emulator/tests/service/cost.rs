//! Tests of charges, which depend on the policy and on the documents and index entries of a
//! request.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer};

const IN_P: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["p"]"#);

/// Creates a container with exactly these indexes.
async fn indexing(paths: &[&str], composites: Value) -> Account {
    let included: Vec<Value> = paths.iter().map(|path| json!({ "path": path })).collect();
    let policy = json!({ "indexingPolicy": { "indexingMode": "consistent", "includedPaths": included,
        "excludedPaths": [{ "path": "/*" }], "compositeIndexes": composites } });
    Account::with(Emulator::start().await.expect("it starts"), policy).await
}

/// Creates twenty documents: `n` counts, `kind` has two values, `tags` has three elements.
async fn filled(paths: &[&str], composites: Value) -> (Account, f64) {
    let account = indexing(paths, composites).await;
    let mut charge = 0.0;
    for n in 0..20 {
        let body = json!({ "id": n.to_string(), "pk": "p", "n": n, "kind": n % 2,
            "tags": ["a", "b", "c"], "text": "x".repeat(500) });
        let created = account.create(&body).await;
        assert_eq!(created.status, 201, "{}", created.body);
        charge += created.charge();
    }
    (account, charge)
}

async fn ask(account: &Account, sql: &str) -> Answer {
    let headers = [
        IN_P,
        ("x-ms-documentdb-populatequerymetrics", "True"),
        ("x-ms-cosmos-populateindexmetrics", "True"),
    ];
    let answer = account.query(&headers, sql, json!([])).await;
    assert_eq!(answer.status, 200, "{sql}: {}", answer.body);
    answer
}

/// Returns a number of the metrics.
fn metric(answer: &Answer, name: &str) -> f64 {
    let metrics = answer.header("x-ms-documentdb-query-metrics");
    let found = metrics
        .split(';')
        .find_map(|metric| metric.strip_prefix(name)?.strip_prefix('='));
    found.and_then(|value| value.parse().ok()).unwrap_or(-1.0)
}

/// Returns a number of documents of the metrics.
fn documents(answer: &Answer, name: &str) -> String {
    format!("{:.0}", metric(answer, name))
}

fn utilization(answer: &Answer) -> Value {
    let header = STANDARD.decode(answer.header("x-ms-cosmos-index-utilization"));
    serde_json::from_slice(&header.expect("base64")).expect("JSON")
}

fn specs(utilization: &Value, list: &str) -> Vec<String> {
    let indexes = utilization[list].as_array().into_iter().flatten();
    let specs = indexes.filter_map(|index| index["IndexSpec"].as_str());
    specs.map(str::to_owned).collect()
}

#[tokio::test]
async fn an_index_costs_on_writes_and_a_missing_index_on_reads() {
    let (bare, bare_writes) = filled(&[], json!([])).await;
    let (one, one_writes) = filled(&["/n/?"], json!([])).await;
    let (array, array_writes) = filled(&["/n/?", "/tags/[]/?"], json!([])).await;
    let composite = json!([[{ "path": "/kind" }, { "path": "/n" }]]);
    let (_, composite_writes) = filled(&["/n/?"], composite).await;
    let more = |of: f64, than: f64, entries: f64| (of - than - 20.0 * entries * 0.2).abs() < 0.5;
    assert!(
        more(one_writes, bare_writes, 1.0),
        "{one_writes} {bare_writes}"
    );
    assert!(
        more(array_writes, one_writes, 3.0),
        "{array_writes} {one_writes}"
    );
    assert!(
        more(composite_writes, one_writes, 1.0),
        "{composite_writes} {one_writes}"
    );

    let sql = "SELECT VALUE c.id FROM c WHERE c.n = 7";
    let (scan, lookup) = (ask(&bare, sql).await, ask(&one, sql).await);
    assert_eq!(scan.documents(), lookup.documents());
    assert!(
        scan.charge() > lookup.charge() + 19.0 * 0.035,
        "{} {}",
        scan.charge(),
        lookup.charge()
    );
    let loaded = |answer: &Answer| documents(answer, "retrievedDocumentCount");
    assert_eq!(
        (loaded(&scan).as_str(), loaded(&lookup).as_str()),
        ("20", "1")
    );
    let sql = "SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(c.tags, 'z')";
    assert_eq!(loaded(&ask(&one, sql).await), "20");
    assert_eq!(loaded(&ask(&array, sql).await), "0");
}

#[tokio::test]
async fn metrics_count_loaded_and_returned_documents() {
    let (account, _) = filled(&["/n/?"], json!([])).await;
    let answer = ask(&account, "SELECT * FROM c WHERE c.n >= 10 AND c.kind = 0").await;
    assert_eq!(documents(&answer, "retrievedDocumentCount"), "10");
    assert_eq!(documents(&answer, "outputDocumentCount"), "5");
    assert!((metric(&answer, "indexUtilizationRatio") - 0.5).abs() < 0.01);
    assert!(metric(&answer, "retrievedDocumentSize") > 5000.0);
    assert!(metric(&answer, "totalExecutionTimeInMs") > 0.0);
    let count = ask(&account, "SELECT VALUE COUNT(1) FROM c WHERE c.n >= 10").await;
    assert_eq!(documents(&count, "retrievedDocumentCount"), "0");
    let plain = account.query(&[IN_P], "SELECT * FROM c", json!([])).await;
    assert_eq!(plain.header("x-ms-documentdb-query-metrics"), "");
    assert_eq!(plain.header("x-ms-cosmos-index-utilization"), "");
}

#[tokio::test]
async fn array_elements_are_charged_by_their_index() {
    let (with, _) = filled(&["/tags/[]/?"], json!([])).await;
    let (without, _) = filled(&["/tags/*"], json!([])).await;
    let (none, _) = filled(&[], json!([])).await;
    let odd = json!({ "id": "odd", "pk": "p", "tags": ["z"] });
    for account in [&with, &without, &none] {
        account.create(&odd).await.is(201);
    }
    for sql in [
        "SELECT VALUE c.id FROM c JOIN t IN c.tags WHERE t = 'z'",
        "SELECT VALUE c.id FROM c WHERE EXISTS (SELECT VALUE t FROM t IN c.tags WHERE t = 'z')",
        "SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(c.tags, 'z')",
    ] {
        for (account, loaded) in [(&with, "1"), (&without, "1"), (&none, "21")] {
            let answer = ask(account, sql).await;
            assert_eq!(answer.documents(), [json!("odd")], "{sql}");
            assert_eq!(
                documents(&answer, "retrievedDocumentCount"),
                loaded,
                "{sql}"
            );
        }
    }
}

#[tokio::test]
async fn the_utilization_has_the_used_and_the_missing_indexes() {
    let composite = json!([[{ "path": "/kind" }, { "path": "/n" }]]);
    let (account, _) = filled(&["/n/?", "/kind/?"], composite).await;
    let found = utilization(&ask(&account, "SELECT * FROM c WHERE c.n > 3 AND c.text = 'x'").await);
    assert_eq!(specs(&found, "UtilizedSingleIndexes"), ["/n/?"]);
    assert_eq!(specs(&found, "PotentialSingleIndexes"), ["/text/?"]);
    let paths = &found["PotentialCompositeIndexes"][0]["IndexSpecs"];
    assert_eq!(paths, &json!(["/text ASC", "/n ASC"]));
    for sql in [
        "SELECT * FROM c WHERE c.kind = 1 AND c.n > 3",
        "SELECT * FROM c ORDER BY c.kind DESC, c.n DESC",
        "SELECT * FROM c WHERE c.kind = 1 AND c.n > 3 ORDER BY c.kind, c.n",
    ] {
        let found = utilization(&ask(&account, sql).await);
        let paths = &found["UtilizedCompositeIndexes"][0]["IndexSpecs"];
        assert_eq!(paths, &json!(["/kind ASC", "/n ASC"]), "{sql}");
        assert_eq!(found["PotentialCompositeIndexes"], json!([]), "{sql}");
    }
}

#[tokio::test]
async fn the_gateway_visits_one_physical_partition_per_page() {
    const EVERYWHERE: (&str, &str) = ("x-ms-documentdb-query-enablecrosspartition", "True");
    let emulator = Emulator::builder().physical_partitions(4);
    let account = Account::with(emulator.start().await.expect("it starts"), json!({})).await;
    account
        .create(&json!({ "id": "a", "pk": "p", "n": 1 }))
        .await
        .is(201);
    let (mut pages, mut rows, mut next) = (Vec::new(), 0, String::new());
    loop {
        let headers = [EVERYWHERE, ("x-ms-continuation", &*next)];
        let page = account
            .query(&headers, "SELECT * FROM c WHERE c.n = 1", json!([]))
            .await;
        rows += page.documents().len();
        pages.push(page.charge());
        next = page.header("x-ms-continuation").to_owned();
        if next.is_empty() {
            break;
        }
    }
    assert_eq!((pages.len(), rows), (4, 1), "three pages are empty");
    let cheapest = pages.into_iter().min_by(f64::total_cmp);
    assert!(
        (cheapest.unwrap_or_default() - 2.5).abs() < 0.5,
        "{cheapest:?}"
    );
    let one = account
        .query(&[EVERYWHERE], "SELECT * FROM c WHERE c.pk = 'p'", json!([]))
        .await;
    assert_eq!(
        (one.documents().len(), one.header("x-ms-continuation")),
        (1, "")
    );
    // .NET client, `PartitionRoutingHelper`: the gateway leaves a parallel query to the client.
    let parallel = (
        "x-ms-documentdb-query-parallelizecrosspartitionquery",
        "True",
    );
    let refused = account
        .query(&[EVERYWHERE, parallel], "SELECT * FROM c", json!([]))
        .await;
    refused.has(400, "x-ms-substatus", "1004");
}

#[tokio::test]
async fn reads_and_writes_are_charged_by_size() {
    let account = indexing(&[], json!([])).await;
    for (kilobytes, read, write) in [(1, 1.0, 5.0), (100, 10.0, 50.0)] {
        let id = kilobytes.to_string();
        let body = json!({ "id": id, "pk": "p", "text": "x".repeat(kilobytes * 1024 - 260) });
        let created = account.create(&body).await;
        assert!(
            (created.charge() - write).abs() < write * 0.02,
            "{}",
            created.charge()
        );
        let replaced = account.item(Method::PUT, &id, &[], Some(&body)).await;
        assert!(
            (replaced.charge() - 2.0 * write).abs() < write * 0.04,
            "{}",
            replaced.charge()
        );
        let found = account.item(Method::GET, &id, &[], None).await;
        assert!(
            (found.charge() - read).abs() < read * 0.02,
            "{}",
            found.charge()
        );
    }
}
