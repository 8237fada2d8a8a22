//! Every limit of the service that is documented and that the emulator has: its value is accepted, and
//! one more is refused.
//!
//! Source, unless noted otherwise: concepts-limits. Its 128 levels of nesting are left out: the same page
//! says that there is no restriction on nesting depth, and the emulator reads 127.

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Request};

const IN_P: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["p"]"#);

/// Sends what has this length or number.
enum Sent {
    /// Creates a document.
    Document(fn(usize) -> Value),
    /// Executes a batch.
    Batch(fn(usize) -> Value),
    /// Patches a document.
    Patch(fn(usize) -> Value),
    /// Executes a query.
    Query(fn(usize) -> String),
    /// Creates a container with this setting.
    Container(fn(usize) -> Value),
}

struct Limit {
    name: &'static str,
    most: usize,
    /// The status of one more.
    refused: u16,
    sent: Sent,
}

fn limit(name: &'static str, most: usize, refused: u16, sent: Sent) -> Limit {
    Limit {
        name,
        most,
        refused,
        sent,
    }
}

fn paths(prefix: &str, count: usize) -> Vec<Value> {
    let paths = (0..count).map(|n| json!({ "path": format!("/{prefix}{n}") }));
    paths.collect()
}

fn leaves(count: usize) -> Vec<Value> {
    let paths = (0..count).map(|n| json!({ "path": format!("/n{n}/?") }));
    paths.collect()
}

fn vector(dimensions: usize, kind: &str) -> Value {
    json!({
        "vectorEmbeddingPolicy": { "vectorEmbeddings": [{ "path": "/v", "dataType": "float32",
            "dimensions": dimensions, "distanceFunction": "cosine" }] },
        "indexingPolicy": { "includedPaths": [{ "path": "/*" }], "excludedPaths": [],
            "vectorIndexes": [{ "path": "/v", "type": kind }] },
    })
}

fn policy(list: &str, entries: Vec<Value>) -> Value {
    let mut policy = json!({ "includedPaths": [], "excludedPaths": [] });
    policy[list] = entries.into();
    let other = if list == "includedPaths" {
        "excludedPaths"
    } else {
        "includedPaths"
    };
    policy[other] = json!([{ "path": "/*" }]);
    json!({ "indexingPolicy": policy })
}

fn composites(lengths: &[usize]) -> Value {
    let composites: Vec<_> = lengths
        .iter()
        .enumerate()
        .map(|(at, length)| paths(&format!("c{at}x"), *length))
        .collect();
    json!({ "indexingPolicy": { "includedPaths": [{ "path": "/*" }], "excludedPaths": [],
        "compositeIndexes": composites } })
}

fn of_documents() -> Vec<Limit> {
    vec![
        limit(
            "bytes of an id",
            1023,
            400,
            Sent::Document(|n| json!({ "id": "i".repeat(n), "pk": "p" })),
        ),
        limit(
            "seconds to live",
            2_147_483_647,
            400,
            Sent::Document(|n| json!({ "id": n.to_string(), "pk": "p", "ttl": n })),
        ),
        limit(
            "operations of a batch",
            100,
            400,
            Sent::Batch(|n| {
                let operation = |at: usize| {
                    json!({ "operationType": "Upsert",
                "resourceBody": { "id": format!("b{at}"), "pk": "p" } })
                };
                (0..n).map(operation).collect()
            }),
        ),
        // partial-document-update, "Supported modes".
        limit(
            "operations of a patch",
            10,
            400,
            Sent::Patch(|n| {
                let operation =
                    |at: usize| json!({ "op": "set", "path": format!("/n{at}"), "value": 1 });
                json!({ "operations": (0..n).map(operation).collect::<Vec<_>>() })
            }),
        ),
    ]
}

fn of_queries() -> Vec<Limit> {
    vec![
        limit(
            "characters of a query",
            512 * 1024,
            400,
            Sent::Query(|n| {
                let query = "SELECT VALUE c.id FROM c";
                format!("{query}{}", " ".repeat(n - query.len()))
            }),
        ),
        limit(
            "joins of a query",
            10,
            400,
            Sent::Query(|n| {
                let joins = (0..n).map(|at| format!(" JOIN t{at} IN c.tags"));
                format!("SELECT VALUE c.id FROM c{}", joins.collect::<String>())
            }),
        ),
    ]
}

fn of_containers() -> Vec<Limit> {
    vec![
        limit(
            "characters of a name",
            255,
            400,
            Sent::Container(|n| json!({ "id": "n".repeat(n) })),
        ),
        limit(
            "seconds to live of a container",
            2_147_483_647,
            400,
            Sent::Container(|n| json!({ "defaultTtl": n })),
        ),
        // hierarchical-partition-keys.
        limit(
            "levels of a partition key",
            3,
            400,
            Sent::Container(|n| {
                let paths: Vec<_> = (0..n).map(|at| format!("/k{at}")).collect();
                json!({ "partitionKey": { "paths": paths, "kind": "MultiHash", "version": 2 } })
            }),
        ),
        limit(
            "unique keys",
            10,
            400,
            Sent::Container(|n| {
                let keys: Vec<_> = (0..n)
                    .map(|at| json!({ "paths": [format!("/u{at}")] }))
                    .collect();
                json!({ "uniqueKeyPolicy": { "uniqueKeys": keys } })
            }),
        ),
        limit(
            "paths of a unique key",
            16,
            400,
            Sent::Container(|n| {
                let paths: Vec<_> = (0..n).map(|at| format!("/u{at}")).collect();
                json!({ "uniqueKeyPolicy": { "uniqueKeys": [{ "paths": paths }] } })
            }),
        ),
    ]
}

fn of_policies() -> Vec<Limit> {
    vec![
        limit(
            "included paths",
            1500,
            400,
            Sent::Container(|n| policy("includedPaths", leaves(n))),
        ),
        limit(
            "excluded paths",
            1500,
            400,
            Sent::Container(|n| policy("excludedPaths", leaves(n))),
        ),
        limit(
            "properties of a composite index",
            8,
            400,
            Sent::Container(|n| composites(&[n])),
        ),
        limit(
            "paths of composite indexes",
            100,
            400,
            Sent::Container(|n| {
                let mut lengths = vec![2; 48];
                lengths.push(n - 96);
                composites(&lengths)
            }),
        ),
        // computed-properties, "Constraints".
        limit(
            "computed properties",
            20,
            400,
            Sent::Container(|n| {
                let property = |at: usize| json!({ "name": format!("p{at}"), "query": "SELECT VALUE LOWER(c.a) FROM c" });
                json!({ "computedProperties": (0..n).map(property).collect::<Vec<_>>() })
            }),
        ),
    ]
}

// vector-search, "Vector indexing policies".
fn of_vectors() -> Vec<Limit> {
    vec![
        limit(
            "dimensions of a flat vector",
            505,
            400,
            Sent::Container(|n| vector(n, "flat")),
        ),
        limit(
            "dimensions of a vector",
            4096,
            400,
            Sent::Container(|n| vector(n, "quantizedFlat")),
        ),
    ]
}

async fn status(account: &Account, sent: &Sent, n: usize) -> u16 {
    match sent {
        Sent::Document(document) => account.post(&[IN_P], &document(n)).await.status,
        Sent::Batch(operations) => account.batch(&operations(n)).await.status,
        Sent::Patch(patch) => {
            let patch = patch(n);
            account
                .item(Method::PATCH, "patched", &[], Some(&patch))
                .await
                .status
        }
        Sent::Query(text) => account.query(&[IN_P], &text(n), json!([])).await.status,
        Sent::Container(settings) => {
            let name = format!("c{}", uuid::Uuid::new_v4());
            let mut body = json!({ "id": name,
                "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
            let settings = settings(n);
            for (name, value) in settings.as_object().into_iter().flatten() {
                body[name] = value.clone();
            }
            let request = Request::new(Method::POST, ("colls", "dbs/db"), "dbs/db/colls");
            account.send(&request.body(&body)).await.status
        }
    }
}

#[tokio::test]
async fn a_documented_limit_is_accepted_and_one_more_is_refused() {
    let account = Account::with(Emulator::start().await.expect("it starts"), json!({})).await;
    account
        .create(&json!({ "id": "patched", "pk": "p" }))
        .await
        .is(201);
    for limit in [
        of_documents(),
        of_queries(),
        of_containers(),
        of_policies(),
        of_vectors(),
    ]
    .into_iter()
    .flatten()
    {
        let (name, most) = (limit.name, limit.most);
        let accepted = status(&account, &limit.sent, most).await;
        assert!((200..300).contains(&accepted), "{most} {name}: {accepted}");
        let refused = status(&account, &limit.sent, most + 1).await;
        assert_eq!(refused, limit.refused, "{} {name}", most + 1);
    }
}

#[tokio::test]
async fn a_document_has_at_most_2_mb() {
    let account = Account::start().await;
    let document = |id: &str, bytes: usize| {
        let bare = json!({ "id": id, "pk": "p", "text": "" }).to_string();
        json!({ "id": id, "pk": "p", "text": "x".repeat(bytes - bare.len()) })
    };
    let largest = 2 * 1024 * 1024 - 1;
    // The properties that the service adds count.
    let small = account.post(&[IN_P], &document("a", 1000)).await;
    let added = small.body.to_string().len() - 1000;
    let fits = document("b", largest - added);
    account.post(&[IN_P], &fits).await.is(201);
    let larger = document("c", largest + 1 - added);
    let refused = account.post(&[IN_P], &larger).await;
    refused.is(413);
    let message = refused.body["message"].to_string();
    assert!(message.contains("2097152 bytes"), "{message}");
    let request = document("d", 2 * 1024 * 1024 + 1);
    account.post(&[IN_P], &request).await.is(413);
}

#[tokio::test]
async fn a_partition_key_has_at_most_2048_bytes() {
    let account = Account::start().await;
    for (bytes, status) in [(2048, 201), (2049, 400)] {
        let key = "k".repeat(bytes);
        let header = json!([key]).to_string();
        let document = json!({ "id": "a", "pk": key });
        let answer = account
            .post(&[("x-ms-documentdb-partitionkey", &header)], &document)
            .await;
        assert_eq!(answer.status, status, "{bytes}");
    }
}
