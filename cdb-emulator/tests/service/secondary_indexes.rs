//! Tests of global secondary indexes over raw HTTP.

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Headers, Request};

/// The requests of these tests. The source is `dbs/db/colls/c`, with the partition key `/pk`.
struct Shop(Account);

impl Shop {
    async fn start() -> Self {
        let emulator = Emulator::start().await.expect("it starts");
        Self(Account::with(emulator, json!({ "defaultTtl": -1 })).await)
    }

    async fn post(&self, headers: Headers<'_>, body: &Value) -> Answer {
        let request = Request::new_container().headers(headers).body(body);
        self.0.send(&request).await
    }

    async fn index(&self, id: &str, query: &str) -> Answer {
        self.post(&[], &definition(id, "c", query)).await
    }

    async fn container(&self, method: Method, id: &str, body: Option<&Value>) -> Answer {
        let link = format!("dbs/db/colls/{id}");
        let request = Request::to(method, "colls", &link).body(body);
        self.0.send(&request).await
    }

    async fn put(&self, document: Value) {
        let key = json!([document["pk"]]).to_string();
        let headers = [
            ("x-ms-documentdb-partitionkey", key.as_str()),
            ("x-ms-documentdb-is-upsert", "True"),
        ];
        let answer = self.0.post(&headers, &document).await;
        assert!(answer.status < 300, "{}", answer.body);
    }

    /// Queries the documents of `index` with this value of its partition key.
    async fn found(&self, index: &str, key: &str) -> Vec<Value> {
        let link = format!("dbs/db/colls/{index}");
        let key = json!([key]).to_string();
        let path = format!("{link}/docs");
        let headers = [
            ("x-ms-documentdb-isquery", "True"),
            ("content-type", "application/query+json"),
            ("x-ms-documentdb-partitionkey", &key),
        ];
        let sql = json!({ "query": "SELECT * FROM c ORDER BY c._id", "parameters": [] });
        let request = Request::new(Method::POST, ("docs", &link), &path);
        let request = request.headers(&headers).body(&sql);
        let answer = self.0.send(&request).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.documents()
    }

    /// Returns the `_id` of each document that [`found`](Self::found) returns.
    async fn sources(&self, index: &str, key: &str) -> Vec<String> {
        let found = self.found(index, key).await;
        let ids = found.iter().filter_map(|document| document["_id"].as_str());
        ids.map(str::to_owned).collect()
    }
}

fn definition(id: &str, source: &str, query: &str) -> Value {
    json!({
        "id": id, "partitionKey": { "paths": ["/status"], "kind": "Hash", "version": 2 },
        "materializedViewDefinition": { "sourceCollectionId": source, "definition": query },
    })
}

const BY_STATUS: &str = "SELECT c.pk, c.status, c.total FROM c";

fn order(id: &str, status: &str) -> Value {
    json!({ "id": id, "pk": "p", "status": status, "total": 7, "remark": "x" })
}

#[tokio::test]
async fn an_index_contains_the_selected_properties_of_each_document_of_its_source() {
    let shop = Shop::start().await;
    shop.put(order("1", "open")).await; // before the index exists
    assert_eq!(shop.index("by", BY_STATUS).await.status, 201);
    shop.put(order("2", "open")).await;
    shop.put(json!({ "id": "1", "pk": "q", "status": "open" }))
        .await;

    let found = shop.found("by", "open").await;
    let ids: Vec<_> = found.iter().map(|document| &document["_id"]).collect();
    assert_eq!(ids, ["1", "1", "2"]);
    assert_ne!(
        found[0]["id"], found[1]["id"],
        "ids are unique in the index"
    );
    for document in &found {
        let mut names: Vec<_> = document.as_object().expect("an object").keys().collect();
        names.retain(|name| !name.starts_with('_') || *name == "_id");
        names.sort();
        let expected: &[&str] = match document["pk"].as_str() {
            Some("p") => &["_id", "id", "pk", "status", "total"],
            _ => &["_id", "id", "pk", "status"],
        };
        assert_eq!(names, expected);
    }
}

#[tokio::test]
async fn an_index_follows_changes_and_deletions() {
    let shop = Shop::start().await;
    assert_eq!(shop.index("by", BY_STATUS).await.status, 201);
    shop.put(order("1", "open")).await;
    shop.put(order("2", "open")).await;
    shop.put(order("1", "paid")).await;
    assert_eq!(shop.sources("by", "open").await, ["2"]);
    assert_eq!(shop.sources("by", "paid").await, ["1"]);

    let in_p: Headers<'_> = &[("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    let patch = json!({ "operations": [{ "op": "set", "path": "/status", "value": "paid" }] });
    let answer = shop.0.item(Method::PATCH, "2", in_p, Some(&patch)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(shop.sources("by", "paid").await, ["1", "2"]);

    let renamed = order("3", "paid");
    assert_eq!(
        shop.0
            .item(Method::PUT, "2", in_p, Some(&renamed))
            .await
            .status,
        200
    );
    assert_eq!(shop.sources("by", "paid").await, ["1", "3"]);

    // A batch that fails changes nothing.
    let deletions = json!([
        { "operationType": "Delete", "id": "1" }, { "operationType": "Delete", "id": "missing" },
    ]);
    assert_eq!(shop.0.batch(&deletions).await.status, 207);
    assert_eq!(shop.sources("by", "paid").await, ["1", "3"]);

    assert_eq!(
        shop.0.item(Method::DELETE, "1", in_p, None).await.status,
        204
    );
    assert_eq!(shop.sources("by", "paid").await, ["3"]);
}

#[tokio::test]
async fn documents_of_an_index_expire_with_those_of_the_source() {
    let shop = Shop::start().await;
    assert_eq!(shop.index("by", BY_STATUS).await.status, 201);
    shop.put(json!({ "id": "1", "pk": "p", "status": "open", "ttl": 1 }))
        .await;
    shop.put(order("2", "open")).await;
    let in_p: Headers<'_> = &[("x-ms-documentdb-partitionkey", r#"["p"]"#)];
    while shop.0.item(Method::GET, "1", in_p, None).await.status == 200 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(shop.sources("by", "open").await, ["2"]);

    // The document that replaces an expired one is a new one.
    shop.put(order("1", "open")).await;
    assert_eq!(shop.sources("by", "open").await, ["1", "2"]);
    // The source's default is that of the index too.
    let mut source = shop.container(Method::GET, "c", None).await.body;
    source["defaultTtl"] = 1.into();
    assert_eq!(
        shop.container(Method::PUT, "c", Some(&source)).await.status,
        200
    );
    while shop.0.item(Method::GET, "1", in_p, None).await.status == 200 {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(shop.sources("by", "open").await.is_empty());
}

#[tokio::test]
async fn clients_do_not_write_to_an_index() {
    let shop = Shop::start().await;
    assert_eq!(shop.index("by", "SELECT * FROM c").await.status, 201);
    shop.put(order("1", "open")).await;
    let found = shop.found("by", "open").await;
    let id = found[0]["id"].as_str().expect("an id");
    let own = format!("dbs/db/colls/by/docs/{id}");
    let headers: Headers<'_> = &[("x-ms-documentdb-partitionkey", r#"["open"]"#)];
    let document = json!({ "id": "9", "status": "open" });
    let link = "dbs/db/colls/by";
    for (method, resource, path, body) in [
        (Method::POST, link, "dbs/db/colls/by/docs", Some(&document)),
        (Method::PUT, &*own, &*own, Some(&document)),
        (Method::DELETE, &*own, &*own, None),
    ] {
        let request = Request::new(method.clone(), ("docs", resource), path)
            .headers(headers)
            .body(body);
        let answer = shop.0.send(&request).await;
        assert_eq!(answer.status, 403, "{method}: {}", answer.body);
    }
    let request = Request::to(Method::GET, "docs", &own).headers(headers);
    let read = shop.0.send(&request).await;
    assert_eq!((read.status, &read.body["remark"]), (200, &json!("x")));
}

#[tokio::test]
async fn source_and_index_describe_each_other() {
    let shop = Shop::start().await;
    let created = shop.index("by", BY_STATUS).await.body;
    let source = shop.container(Method::GET, "c", None).await.body;
    assert_eq!(
        source["materializedViews"],
        json!([{ "id": "by", "_rid": created["_rid"] }])
    );
    let read = shop.container(Method::GET, "by", None).await.body;
    let described = json!({
        "sourceCollectionId": "c", "sourceCollectionRid": source["_rid"], "definition": BY_STATUS, "status": "Active",
    });
    for name in [
        "materializedViewDefinition",
        "globalSecondaryIndexDefinition",
    ] {
        assert_eq!(created[name], described, "{name}");
        assert_eq!(read[name], described, "{name}");
    }

    // By the source's resource id, and under the newer name.
    let mut newer = definition("newer", "c", BY_STATUS);
    newer["globalSecondaryIndexDefinition"] =
        json!({ "sourceCollectionRid": source["_rid"], "definition": "SELECT * FROM c" });
    let newer = shop.post(&[], &newer).await;
    assert_eq!(newer.status, 201, "{}", newer.body);
    let index = &newer.body["materializedViewDefinition"];
    assert_eq!(index["sourceCollectionId"], "c");
    assert_eq!(index["definition"], "SELECT * FROM c");
}

#[tokio::test]
async fn an_invalid_index_is_refused() {
    let shop = Shop::start().await;
    assert_eq!(shop.index("by", BY_STATUS).await.status, 201);
    for (source, query) in [
        ("c", "SELECT c.status FROM c"), // without the source's partition key
        ("missing", BY_STATUS),
        ("by", BY_STATUS), // an index of an index
        ("c", "SELECT c.pk, c.status AS state FROM c"),
        ("c", "SELECT c.pk, c.status FROM c WHERE c.total > 1"),
    ] {
        let answer = shop.post(&[], &definition("bad", source, query)).await;
        assert_eq!(answer.status, 400, "{source}, {query}: {}", answer.body);
    }
    let body = definition("bad", "c", BY_STATUS);
    let manual = shop.post(&[("x-ms-offer-throughput", "400")], &body).await;
    assert_eq!(manual.status, 400, "{}", manual.body);
    let autoscale: Headers<'_> = &[(
        "x-ms-cosmos-offer-autopilot-settings",
        r#"{"maxThroughput":1000}"#,
    )];
    assert_eq!(shop.post(autoscale, &body).await.status, 201);
}

#[tokio::test]
async fn source_and_query_of_an_index_cannot_change() {
    let shop = Shop::start().await;
    let created = shop.index("by", BY_STATUS).await.body;
    let mut same = created.clone();
    same["indexingPolicy"] = json!({ "indexingMode": "consistent", "includedPaths": [{ "path": "/status/?" }],
        "excludedPaths": [{ "path": "/*" }] });
    let replaced = shop.container(Method::PUT, "by", Some(&same)).await;
    assert_eq!(replaced.status, 200, "{}", replaced.body);
    assert_eq!(
        replaced.body["materializedViewDefinition"],
        created["materializedViewDefinition"]
    );
    let mut other = created.clone();
    other["globalSecondaryIndexDefinition"]["definition"] = "SELECT * FROM c".into();
    let mut none = created.clone();
    for name in [
        "materializedViewDefinition",
        "globalSecondaryIndexDefinition",
    ] {
        none.as_object_mut().expect("an object").remove(name);
    }
    for changed in [other, none] {
        let answer = shop.container(Method::PUT, "by", Some(&changed)).await;
        assert_eq!(answer.status, 400, "{}", answer.body);
    }
    let mut source = shop.container(Method::GET, "c", None).await.body;
    source["materializedViewDefinition"] = created["materializedViewDefinition"].clone();
    assert_eq!(
        shop.container(Method::PUT, "c", Some(&source)).await.status,
        400
    );
}

#[tokio::test]
async fn an_index_in_a_directory_follows_its_source_after_a_restart_and_a_change_of_its_policy() {
    let folder = tempfile::tempdir().expect("a directory");
    let open = async || {
        let emulator = Emulator::builder().data_dir(folder.path()).start().await;
        Shop(Account::with(emulator.expect("it starts"), json!({})).await)
    };
    let shop = open().await;
    assert_eq!(shop.index("by", BY_STATUS).await.status, 201);
    shop.put(order("1", "open")).await;
    shop.put(order("2", "open")).await;
    shop.0.emulator.stop().await;

    let shop = open().await;
    assert_eq!(shop.sources("by", "open").await, ["1", "2"]);
    let mut index = shop.container(Method::GET, "by", None).await.body;
    index["indexingPolicy"]["excludedPaths"] = json!([{ "path": "/total/?" }]);
    let replaced = shop.container(Method::PUT, "by", Some(&index)).await;
    assert_eq!(replaced.status, 200, "{}", replaced.body);
    shop.put(order("1", "paid")).await;
    shop.put(order("3", "open")).await;
    assert_eq!(shop.sources("by", "open").await, ["2", "3"]);
    assert_eq!(shop.sources("by", "paid").await, ["1"]);
}

#[tokio::test]
async fn a_source_is_deleted_after_its_indexes() {
    let shop = Shop::start().await;
    assert_eq!(shop.index("by", BY_STATUS).await.status, 201);
    let refused = shop.container(Method::DELETE, "c", None).await;
    assert_eq!(refused.status, 400, "{}", refused.body);
    assert_eq!(shop.container(Method::DELETE, "by", None).await.status, 204);
    shop.put(order("1", "open")).await;
    assert_eq!(shop.container(Method::DELETE, "c", None).await.status, 204);
}
