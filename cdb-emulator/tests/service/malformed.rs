//! Tests of malformed requests: each gets an error in the service's form.

use std::io::{Read, Write};
use std::net::TcpStream;

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Request};

const DOCS: (&str, &str) = ("docs", "dbs/db/colls/c");
const IN_P: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["p"]"#);

/// Sends raw bytes, which a client would normalize, and returns status and body.
async fn raw(
    account: &Account,
    (method, target): (Method, &str),
    resource: (&str, &str),
    headers: &[(&str, &str)],
    body: &[u8],
) -> (u16, Value) {
    let (token, date) = account.authorization(&method, resource);
    let address = account.emulator.endpoint().replace("http://", "");
    let address = address.trim_end_matches('/').to_owned();
    let mut head = format!(
        "{method} {target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\nauthorization: {token}\r\n\
         x-ms-date: {date}\r\nx-ms-version: 2020-07-15\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend(body);
    let exchange = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(&bytes).expect("it is read");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    });
    let answer = exchange.await.expect("no panic");
    let status = answer.get(9..12).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (
        status.unwrap_or_default(),
        serde_json::from_str(body).unwrap_or_default(),
    )
}

fn is_refusal(status: u16, body: &Value) -> bool {
    (400..500).contains(&status) && body["code"].is_string() && body["message"].is_string()
}

async fn is_alive(account: &Account) {
    let created = account.create(&json!({ "id": "alive", "pk": "p" })).await;
    assert!(matches!(created.status, 201 | 409), "{}", created.body);
}

#[tokio::test]
async fn invalid_bodies_are_rejected() {
    let account = Account::start().await;
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let deep = format!(r#"{{"id":"deep","pk":"p","v":{deep}}}"#);
    for body in [
        &b""[..],
        b"{",
        b"[]",
        b"null",
        b"\"text\"",
        b"{\"id\":\"a\",\"pk\":\"p\"} and more",
        b"{\"id\":\"\xff\",\"pk\":\"p\"}",
        b"{\"id\":1,\"pk\":\"p\"}",
        b"{\"pk\":\"p\"}",
        b"{\"id\":\"\",\"pk\":\"p\"}",
        b"{\"id\":\"a\",\"pk\":\"p\",\"n\":1e999}",
        b"{\"id\":\"a\",\"pk\":\"p\",\"ttl\":0}",
        b"{\"id\":\"a\",\"pk\":\"p\",\"ttl\":\"1\"}",
        b"{\"id\":\"a\",\"pk\":\"p\",\"ttl\":null}",
        deep.as_bytes(),
    ] {
        let target = (Method::POST, "/dbs/db/colls/c/docs");
        let (status, answer) = raw(&account, target, DOCS, &[IN_P], body).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]);
        assert_eq!(status, 400, "{shown}: {answer}");
        assert!(is_refusal(status, &answer), "{shown}: {answer}");
    }
    is_alive(&account).await;
}

#[tokio::test]
async fn bodies_over_the_limit_are_rejected() {
    let account = Account::start().await;
    let document = |bytes: usize| json!({ "id": "a", "pk": "p", "text": "x".repeat(bytes) });
    let fits = account.create(&document(2 * 1024 * 1024 - 2000)).await;
    assert_eq!(fits.status, 201, "{}", fits.body);
    let large = account.create(&document(2 * 1024 * 1024)).await;
    assert_eq!(
        (large.status, &large.body["code"]),
        (413, &json!("RequestEntityTooLarge"))
    );
    let operation = json!({ "operationType": "Create", "resourceBody": document(700_000) });
    let batch = account
        .batch(&json!([operation, operation, operation]))
        .await;
    assert_eq!(batch.status, 413, "{}", batch.body);
    is_alive(&account).await;
}

#[tokio::test]
async fn unknown_paths_are_rejected() {
    let account = Account::start().await;
    for (target, resource) in [
        ("/dbs/../../etc/passwd", ("dbs", "dbs/../../etc/passwd")),
        ("/dbs/%2e%2e/colls/c", ("colls", "dbs/../colls/c")),
        (
            "/dbs/db/colls/..%2f..%2fetc",
            ("colls", "dbs/db/colls/../../etc"),
        ),
        (
            "/dbs/db/colls/c/docs/..%2f..%2f..%2fpasswd",
            ("docs", "dbs/db/colls/c/docs/../../../passwd"),
        ),
        ("/dbs/db%00/colls/c", ("colls", "dbs/db\0/colls/c")),
        ("/dbs/%ff", ("dbs", "dbs/x")),
        (
            "/dbs/db/colls/c/docs/%zz",
            ("docs", "dbs/db/colls/c/docs/%zz"),
        ),
        ("/dbs/db/colls/c/nothing", DOCS),
        ("/nothing/at/all", ("", "")),
        ("//dbs//db//colls//none", ("colls", "dbs/db/colls/none")),
    ] {
        let (status, answer) = raw(&account, (Method::GET, target), resource, &[IN_P], b"").await;
        assert!(is_refusal(status, &answer), "{target}: {status} {answer}");
    }
    is_alive(&account).await;
}

#[tokio::test]
async fn invalid_names_are_rejected() {
    let account = Account::start().await;
    let long = "x".repeat(256);
    for name in [
        "", "a/b", "..", ".", "a\\b", "a?b", "a#b", "a ", "a\u{0}b", "a\nb", &long,
    ] {
        let body = json!({ "id": name, "partitionKey": { "paths": ["/pk"] } });
        for (path, resource) in [("dbs", ("dbs", "")), ("dbs/db/colls", ("colls", "dbs/db"))] {
            let request = Request::new(Method::POST, resource, path).body(&body);
            let answer = account.send(&request).await;
            assert_eq!(answer.status, 400, "{path} {name:?}: {}", answer.body);
        }
    }
    is_alive(&account).await;
}

#[tokio::test]
async fn invalid_headers_are_rejected() {
    let account = Account::start().await;
    account.create(&json!({ "id": "a", "pk": "p" })).await;
    let long = format!("[\"{}\"]", "x".repeat(2049));
    let get = (Method::GET, "/dbs/db/colls/c/docs/a");
    let item = ("docs", "dbs/db/colls/c/docs/a");
    for header in [
        ("x-ms-documentdb-partitionkey", "p"),
        ("x-ms-documentdb-partitionkey", "[]"),
        ("x-ms-documentdb-partitionkey", "[\"p\",\"q\"]"),
        ("x-ms-documentdb-partitionkey", "[[1]]"),
        ("x-ms-documentdb-partitionkey", "[{\"a\":1}]"),
        ("x-ms-documentdb-partitionkey", "{\"p\":1}"),
        ("x-ms-documentdb-partitionkey", "[\"p\""),
        ("x-ms-documentdb-partitionkey", "[\"p\u{e9}"),
        ("x-ms-documentdb-partitionkey", &long),
    ] {
        let (status, answer) = raw(&account, get.clone(), item, &[header], b"").await;
        assert_eq!(status, 400, "{header:?}: {answer}");
        assert!(is_refusal(status, &answer), "{header:?}: {answer}");
    }
    let query = br#"{"query":"SELECT * FROM c"}"#;
    let post = (Method::POST, "/dbs/db/colls/c/docs");
    let is_query = ("x-ms-documentdb-isquery", "True");
    for header in [
        ("x-ms-max-item-count", "0"),
        ("x-ms-max-item-count", "-2"),
        ("x-ms-max-item-count", "ten"),
        ("x-ms-continuation", "nonsense"),
        ("x-ms-session-token", "nonsense"),
        ("x-ms-consistency-level", "Strong"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ] {
        let headers = [is_query, IN_P, header];
        let (status, answer) = raw(&account, post.clone(), DOCS, &headers, query).await;
        assert_eq!(status, 400, "{header:?}: {answer}");
    }
    let stale = ("x-ms-cosmos-intended-collection-rid", "AAAAAYAAAAk=");
    let (status, answer) = raw(&account, get, item, &[IN_P, stale], b"").await;
    assert_eq!(status, 400, "{answer}");
    is_alive(&account).await;
}

#[tokio::test]
async fn invalid_batches_and_patches_are_rejected() {
    let account = Account::start().await;
    account
        .create(&json!({ "id": "a", "pk": "p", "n": "text", "list": [1] }))
        .await;
    for batch in [
        json!([]),
        json!({}),
        json!(null),
        json!([{}]),
        json!([{ "operationType": "Truncate" }]),
        json!([{ "operationType": "Create" }, 1]),
    ] {
        assert_eq!(account.batch(&batch).await.status, 400, "{batch}");
    }
    let many: Vec<Value> = (0..101)
        .map(|_| json!({ "operationType": "Read", "id": "a" }))
        .collect();
    account.batch(&json!(many)).await.is(400);
    let bodiless = account.batch(&json!([{ "operationType": "Create" }])).await;
    assert_eq!((bodiless.status, bodiless.statuses()), (207, vec![400]));

    let eleven: Vec<Value> = (0..11)
        .map(|n| json!({ "op": "set", "path": format!("/p{n}"), "value": n }))
        .collect();
    for patch in [
        json!({}),
        json!([]),
        json!({ "operations": [] }),
        json!({ "operations": eleven }),
        json!({ "operations": [{ "op": "copy", "from": "/n", "path": "/m" }] }),
        json!({ "operations": [{ "op": "set", "path": "n", "value": 1 }] }),
        json!({ "operations": [{ "op": "set", "path": "", "value": 1 }] }),
        json!({ "operations": [{ "op": "set", "path": "/no/parent", "value": 1 }] }),
        json!({ "operations": [{ "op": "set", "path": "/list/7", "value": 1 }] }),
        json!({ "operations": [{ "op": "replace", "path": "/none", "value": 1 }] }),
        json!({ "operations": [{ "op": "remove", "path": "/none" }] }),
        json!({ "operations": [{ "op": "incr", "path": "/n", "value": 1 }] }),
        json!({ "operations": [{ "op": "incr", "path": "/m", "value": "1" }] }),
        json!({ "operations": [{ "op": "move", "from": "/list", "path": "/list/0" }] }),
        json!({ "operations": [{ "op": "set", "path": "/id", "value": "b" }] }),
        json!({ "operations": [{ "op": "set", "path": "/pk", "value": "q" }] }),
        json!({ "operations": [{ "op": "set", "path": "/_ts", "value": 1 }] }),
        json!({ "operations": [{ "op": "set", "path": "/ttl", "value": 0 }] }),
        json!({ "operations": [{ "op": "set", "path": "/m", "value": 1 }], "condition": "c.n = 1" }),
        json!({ "operations": [{ "op": "set", "path": "/m", "value": 1 }], "condition": "from c where" }),
    ] {
        let answer = account.item(Method::PATCH, "a", &[], Some(&patch)).await;
        assert_eq!(answer.status, 400, "{patch}: {}", answer.body);
    }
    let read = account.item(Method::GET, "a", &[], None).await;
    assert_eq!(
        (&read.body["n"], &read.body["m"]),
        (&json!("text"), &Value::Null)
    );
}

async fn define(account: &Account, definition: &Value) -> Answer {
    account
        .send(&Request::new_container().body(definition))
        .await
}

#[tokio::test]
async fn invalid_definitions_are_rejected() {
    let account = Account::with(Emulator::start().await.expect("it starts"), json!({})).await;
    let key = json!({ "paths": ["/pk"], "kind": "Hash" });
    let root = json!([{ "path": "/*" }]);
    let levels = |count: usize| (0..count).map(|n| format!("/k{n}")).collect::<Vec<_>>();
    let composite = |count: usize| {
        levels(count)
            .iter()
            .map(|path| json!({ "path": path }))
            .collect::<Vec<_>>()
    };
    let with = |name: &str, value: Value| {
        let mut definition = json!({ "id": "x", "partitionKey": key });
        definition[name] = value;
        definition
    };
    let indexing = |name: &str, value: Value| {
        let mut policy = json!({ "includedPaths": root, "excludedPaths": [] });
        policy[name] = value;
        with("indexingPolicy", policy)
    };
    for definition in [
        json!({ "id": "x" }),
        json!({ "id": "x", "partitionKey": {} }),
        json!({ "id": "x", "partitionKey": { "paths": [] } }),
        json!({ "id": "x", "partitionKey": { "paths": ["pk"] } }),
        json!({ "id": "x", "partitionKey": { "paths": ["/a", "/b"], "kind": "Hash" } }),
        json!({ "id": "x", "partitionKey": { "paths": levels(4), "kind": "MultiHash" } }),
        json!({ "id": "x", "partitionKey": { "paths": ["/pk"], "kind": "Range" } }),
        with("defaultTtl", json!(0)),
        with("defaultTtl", json!("1")),
        with("defaultTtl", json!(-2)),
        with(
            "uniqueKeyPolicy",
            json!({ "uniqueKeys": vec![json!({ "paths": ["/a"] }); 11] }),
        ),
        with(
            "uniqueKeyPolicy",
            json!({ "uniqueKeys": [{ "paths": levels(17) }] }),
        ),
        with(
            "uniqueKeyPolicy",
            json!({ "uniqueKeys": [{ "paths": [] }] }),
        ),
        with("indexingPolicy", json!("all")),
        with(
            "indexingPolicy",
            json!({ "includedPaths": [{ "path": "/a/?" }], "excludedPaths": [] }),
        ),
        indexing("excludedPaths", root.clone()),
        indexing("excludedPaths", json!([{ "path": "/a" }])),
        indexing("excludedPaths", json!([{ "path": "/a-b/?" }])),
        indexing("excludedPaths", json!([{}])),
        indexing("excludedPaths", json!("/a/?")),
        indexing("indexingMode", json!("eager")),
        indexing("compositeIndexes", json!([composite(1)])),
        indexing("compositeIndexes", json!([composite(9)])),
        indexing("compositeIndexes", json!(vec![composite(8); 13])),
        indexing(
            "compositeIndexes",
            json!([[{ "path": "/a/*" }, { "path": "/b" }]]),
        ),
        indexing(
            "compositeIndexes",
            json!([[{ "path": "/a", "order": "up" }, { "path": "/b" }]]),
        ),
        json!({ "id": "x", "partitionKey": key, "defaultTtl": 5, "indexingPolicy": { "indexingMode": "none" } }),
    ] {
        let answer = define(&account, &definition).await;
        assert_eq!(answer.status, 400, "{definition}: {}", answer.body);
        assert!(is_refusal(answer.status, &answer.body), "{definition}");
    }
    let all = json!({ "id": "x", "partitionKey": { "paths": levels(3), "kind": "MultiHash", "version": 2 },
        "defaultTtl": -1, "indexingPolicy": { "indexingMode": "Consistent" },
        "uniqueKeyPolicy": { "uniqueKeys": [{ "paths": ["/a", "/b"] }] } });
    let created = define(&account, &all).await;
    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(created.body["indexingPolicy"]["includedPaths"], root);
}

#[tokio::test]
async fn a_replaced_container_keeps_immutable_properties_and_updates_expiry() {
    let account = Account::start().await;
    account.create(&json!({ "id": "plain", "pk": "p" })).await;
    account
        .create(&json!({ "id": "lasting", "pk": "p", "ttl": -1 }))
        .await;
    let replace = async |definition: Value| {
        account
            .send(&Request::container(Method::PUT).body(&definition))
            .await
    };
    for (changed, status) in [
        (
            json!({ "id": "d", "partitionKey": { "paths": ["/pk"] } }),
            400,
        ),
        (
            json!({ "id": "c", "partitionKey": { "paths": ["/other"] } }),
            400,
        ),
        (
            json!({ "id": "c", "partitionKey": { "paths": ["/pk"] },
                "uniqueKeyPolicy": { "uniqueKeys": [{ "paths": ["/a"] }] } }),
            403,
        ),
    ] {
        assert_eq!(replace(changed.clone()).await.status, status, "{changed}");
    }
    let expiring = json!({ "id": "c", "partitionKey": { "paths": ["/pk"] }, "defaultTtl": 1 });
    let replaced = replace(expiring).await;
    assert_eq!(replaced.status, 200, "{}", replaced.body);
    // Omitted, so the default applies.
    assert_eq!(
        replaced.body["indexingPolicy"]["includedPaths"],
        json!([{ "path": "/*" }])
    );
    tokio::time::sleep(std::time::Duration::from_millis(2100)).await;
    account.item(Method::GET, "plain", &[], None).await.is(404);
    account
        .item(Method::GET, "lasting", &[], None)
        .await
        .is(200);
}
