//! Tests of triggers after Microsoft's documentation and the samples of azure-cosmosdb-js-server.

use reqwest::Method;
use serde_json::{Value, json};

use super::{IN_P, assert_failed, define, fill, rows};
use crate::account::{Account, Answer, Headers};

const PRE: &str = "x-ms-documentdb-pre-trigger-include";
const POST: &str = "x-ms-documentdb-post-trigger-include";

/// Defines a trigger `t`.
async fn trigger(account: &Account, (kind, operation): (&str, &str), body: &str) {
    let definition =
        json!({ "id": "t", "body": body, "triggerType": kind, "triggerOperation": operation });
    define(account, "triggers", &definition).await;
}

async fn create(account: &Account, header: &str, document: &Value) -> Answer {
    account.post(&[IN_P[0], (header, "t")], document).await
}

#[tokio::test]
async fn a_pre_trigger_adds_a_timestamp() {
    // `trgPreValidateToDoItemTimestamp` of how-to-write-stored-procedures-triggers-udfs.
    let body = r#"function validateToDoItemTimestamp() {
        var context = getContext();
        var request = context.getRequest();
        var itemToCreate = request.getBody();
        if (!("timestamp" in itemToCreate)) {
            var ts = new Date();
            itemToCreate["timestamp"] = ts.getTime();
        }
        request.setBody(itemToCreate);
    }"#;
    let account = Account::start().await;
    trigger(&account, ("Pre", "Create"), body).await;
    let created = create(&account, PRE, &json!({ "id": "a", "pk": "p" })).await;
    assert_eq!(created.status, 201, "{}", created.body);
    assert!(created.body["timestamp"].as_i64() > Some(1_600_000_000_000));
    let given = create(
        &account,
        PRE,
        &json!({ "id": "b", "pk": "p", "timestamp": 1 }),
    )
    .await;
    assert_eq!(given.body["timestamp"], 1);
    let without = account.create(&json!({ "id": "c", "pk": "p" })).await;
    assert_eq!(without.body["timestamp"], Value::Null);
}

#[tokio::test]
async fn a_pre_trigger_canonicalizes_and_refuses() {
    let body = r#"function validateClass() {
        var doc = getContext().getRequest().getBody();
        doc.weekday = canonicalizeWeekDay(doc.weekday);
        doc.createdTime = new Date();
        getContext().getRequest().setBody(doc);
        function canonicalizeWeekDay(day) {
            if (!day || !day.length || day.length < 3) throw new Error("Bad input: " + day);
            var days = ["Monday", "Tuesday", "Wednesday", "Friday", "Saturday", "Sunday"];
            var fullDay;
            days.forEach(function (x) {
                if (day.substring(0, 3).toLowerCase() == x.substring(0, 3).toLowerCase()) fullDay = x;
            });
            if (fullDay) return fullDay;
            throw new Error("Bad weekday: " + day);
        }
    }"#;
    let account = Account::start().await;
    trigger(&account, ("Pre", "All"), body).await;
    let created = create(
        &account,
        PRE,
        &json!({ "id": "a", "pk": "p", "weekday": "mon" }),
    )
    .await;
    assert_eq!(created.body["weekday"], "Monday", "{}", created.body);
    assert!(
        created.body["createdTime"]
            .as_str()
            .expect("a text")
            .ends_with('Z')
    );
    let refused = create(
        &account,
        PRE,
        &json!({ "id": "b", "pk": "p", "weekday": "xyz" }),
    )
    .await;
    assert_failed(&refused, "", "Exception = Error: Bad weekday: xyz");
    assert_eq!(rows(&account, "SELECT VALUE c.id FROM c").await, ["a"]);
}

/// `updateMetadata` of azure-cosmosdb-js-server.
const UPDATE_METADATA: &str = r#"function updateMetadata() {
    var collection = getContext().getCollection();
    var collectionLink = collection.getSelfLink();
    var doc = getContext().getRequest().getBody();
    if (!doc.isMetadata && doc.size != undefined && doc.size > 0) getAndUpdateMetadata();
    function getAndUpdateMetadata() {
        var isAccepted = collection.queryDocuments(collectionLink, 'SELECT * FROM root r WHERE r.isMetadata = true', function (err, feed, options) {
            if (err) throw err;
            if (!feed || !feed.length) throw new Error("Failed to find the metadata document.");
            var metaDoc = feed[0];
            if (metaDoc.minSize == 0) metaDoc.minSize = doc.size;
            else metaDoc.minSize = Math.min(metaDoc.minSize, doc.size);
            metaDoc.maxSize = Math.max(metaDoc.maxSize, doc.size);
            metaDoc.totalSize += doc.size;
            var isAccepted = collection.replaceDocument(metaDoc._self, metaDoc, function (err) {
                if (err) throw err;
            });
            if (!isAccepted) throw new Error("The call replaceDocument(metaDoc) returned false.");
        });
        if (!isAccepted) throw new Error("The call queryDocuments for metaDoc returned false.");
    }
}"#;

#[tokio::test]
async fn a_post_trigger_updates_metadata_in_the_transaction() {
    let account = Account::start().await;
    trigger(&account, ("Post", "All"), UPDATE_METADATA).await;
    let lost = create(&account, POST, &json!({ "id": "a", "pk": "p", "size": 3 })).await;
    assert_failed(&lost, "", "Failed to find the metadata document.");
    assert_eq!(
        rows(&account, "SELECT VALUE c.id FROM c").await,
        Vec::<Value>::new()
    );
    fill(
        &account,
        &[json!({ "isMetadata": true, "minSize": 0, "maxSize": 0, "totalSize": 0 })],
    )
    .await;
    for (id, size) in [("a", 3), ("b", 1), ("c", 7)] {
        let document = json!({ "id": id, "pk": "p", "size": size });
        let created = create(&account, POST, &document).await;
        assert_eq!(
            (created.status, &created.body["id"]),
            (201, &json!(id)),
            "{}",
            created.body
        );
    }
    let sizes = rows(
        &account,
        "SELECT c.minSize, c.maxSize, c.totalSize FROM c WHERE c.isMetadata",
    )
    .await;
    assert_eq!(
        sizes,
        [json!({ "minSize": 1, "maxSize": 7, "totalSize": 11 })]
    );
}

#[tokio::test]
async fn a_post_trigger_sees_and_changes_the_response() {
    let account = Account::start().await;
    let body = r"function t() {
        var response = getContext().getResponse(), created = response.getBody();
        created.seen = [created._etag.length > 2, __.request.getOperationType(), __.request.getBody()._etag === undefined];
        response.setBody(created);
    }";
    trigger(&account, ("Post", "All"), body).await;
    let created = create(&account, POST, &json!({ "id": "a", "pk": "p" })).await;
    assert_eq!(
        created.body["seen"],
        json!([true, "Create", true]),
        "{}",
        created.body
    );
    let stored = account.item(Method::GET, "a", &[], None).await;
    assert_eq!(stored.body["seen"], Value::Null);
}

/// `uniqueConstraint` of azure-cosmosdb-js-server.
const UNIQUE: &str = r#"function uniqueConstraint() {
    let operationType = __.request.getOperationType();
    let docFromRequest = __.request.getBody();
    switch (operationType) {
        case "Create": insertMetaDoc(); break;
        case "Upsert": onUpsert(); break;
        case "Replace": onReplace(); break;
        case "Delete": onDelete(); break;
    }
    function onDelete() {
        let metaDocLink = __.getAltLink() + '/docs/' + uniqueId(docFromRequest);
        checkAccepted(__.deleteDocument(metaDocLink, {}, function (err) { if (err) throw new Error(err.number, "Failed to delete"); }));
    }
    function onReplace() {
        if (!docFromRequest._self) throw new Error(400, "_self is missing");
        checkAccepted(__.readDocument(docFromRequest._self, {}, function (err, oldDoc) {
            if (err) throw err;
            if (oldDoc.uid !== docFromRequest.uid) replaceMetaDocId(oldDoc);
        }));
    }
    function onUpsert() {
        let docLink = __.getAltLink() + '/docs/' + docFromRequest.id;
        checkAccepted(__.readDocument(docLink, {}, function (err, oldDoc) {
            if (err) {
                if (err.number == 404) insertMetaDoc();
                else throw err;
            } else if (oldDoc.uid !== docFromRequest.uid) replaceMetaDocId(oldDoc);
        }));
    }
    function insertMetaDoc() {
        let metaDoc = { id: uniqueId(docFromRequest), pk: docFromRequest.pk, isMetadata: true };
        checkAccepted(__.createDocument(__.getSelfLink(), metaDoc, {}, function (err) {
            if (!err) return;
            if (err.number == 409) throw new Error(err.number, "Unique constraint for property 'uid' failed: (" + err.number + "): " + err.message);
            throw err;
        }));
    }
    function replaceMetaDocId(oldDoc) {
        let metaDocLink = __.getAltLink() + '/docs/' + uniqueId(oldDoc);
        checkAccepted(__.readDocument(metaDocLink, {}, function (err, metaDoc) {
            if (err) throw new Error(err.number, "Failed to read");
            metaDoc.id = uniqueId(docFromRequest);
            checkAccepted(__.replaceDocument(metaDocLink, metaDoc, function (err) { if (err) throw new Error(err.number, "Failed to replace"); }));
        }));
    }
    function uniqueId(doc) { return "__uniqueConstraint_uid_" + doc.uid; }
    function checkAccepted(isAccepted) { if (!isAccepted) throw new Error(499, "The request was not accepted."); }
}"#;

#[tokio::test]
async fn a_pre_trigger_keeps_a_property_unique() {
    let account = Account::start().await;
    trigger(&account, ("Pre", "All"), UNIQUE).await;
    let uids = || {
        rows(
            &account,
            "SELECT VALUE c.id FROM c WHERE c.isMetadata ORDER BY c.id",
        )
    };
    let id = |uid: &str| json!(format!("__uniqueConstraint_uid_{uid}"));
    let headers: Headers<'_> = &[(PRE, "t")];

    let first = create(&account, PRE, &json!({ "id": "a", "pk": "p", "uid": "x" })).await;
    assert_eq!(first.status, 201, "{}", first.body);
    let second = create(&account, PRE, &json!({ "id": "b", "pk": "p", "uid": "x" })).await;
    assert_failed(
        &second,
        "409",
        "Unique constraint for property 'uid' failed: (409)",
    );
    assert_eq!(uids().await, [id("x")]);

    let mut changed = first.body.clone();
    changed["uid"] = "y".into();
    let replaced = account
        .item(Method::PUT, "a", headers, Some(&changed))
        .await;
    assert_eq!(replaced.status, 200, "{}", replaced.body);
    assert_eq!(uids().await, [id("y")]);

    let upsert = [IN_P[0], (PRE, "t"), ("x-ms-documentdb-is-upsert", "True")];
    for (document, status) in [("b", 201), ("a", 200)] {
        let document = json!({ "id": document, "pk": "p", "uid": document });
        let upserted = account.post(&upsert, &document).await;
        assert_eq!(upserted.status, status, "{}", upserted.body);
    }
    assert_eq!(uids().await, [id("a"), id("b")]);

    let deleted = account.item(Method::DELETE, "b", headers, None).await;
    assert_eq!(deleted.status, 204, "{}", deleted.body);
    assert_eq!(uids().await, [id("a")]);
}

#[tokio::test]
async fn a_trigger_runs_only_on_its_operations() {
    let account = Account::start().await;
    fill(&account, &[json!({})]).await;
    trigger(&account, ("Pre", "Update"), "function t() {}").await;
    let document = json!({ "id": "0", "pk": "p" });
    let upsert = [IN_P[0], (PRE, "t"), ("x-ms-documentdb-is-upsert", "True")];
    let refused = account.post(&upsert, &document).await;
    let cause = "Trigger 't' was defined with operation type 'Update', and therefore is invalid for 'Upsert'.";
    assert_failed(&refused, "", cause);
    let headers: Headers<'_> = &[(PRE, "t")];
    let replaced = account
        .item(Method::PUT, "0", headers, Some(&document))
        .await;
    assert_eq!(replaced.status, 200, "{}", replaced.body);
    for (header, ids, cause) in [
        (POST, "t", "was defined with type 'Pre'"),
        (PRE, "none", "The trigger 'none' does not exist"),
        (
            PRE,
            "t,u",
            "Currently only one PreTrigger is permitted per operation.",
        ),
    ] {
        let refused = account
            .post(&[IN_P[0], (header, ids)], &json!({ "id": "1", "pk": "p" }))
            .await;
        assert_failed(&refused, "", cause);
    }
}

#[tokio::test]
async fn a_trigger_cannot_break_the_rules_of_a_write() {
    let account = Account::start().await;
    for (operation, body, cause) in [
        (
            "Create",
            "function t() { var d = __.request.getBody(); d.pk = 'q'; __.request.setBody(d); }",
            "PartitionKey extracted",
        ),
        (
            "Create",
            "function t() { __.request.setBody({ pk: 'p' }); }",
            "'id; ' - are missing",
        ),
        (
            "Create",
            "function t() { __.request.setBody(1); }",
            "payload is invalid",
        ),
        (
            "Create",
            "function t() { getContext().getResponse(); }",
            "not a function",
        ),
    ] {
        let definition =
            json!({ "id": "t", "body": body, "triggerType": "Pre", "triggerOperation": operation });
        let upsert: Headers<'_> = &[("x-ms-documentdb-is-upsert", "True")];
        super::send(
            &account,
            Method::POST,
            ("triggers", ""),
            (upsert, Some(&definition)),
        )
        .await;
        let refused = create(&account, PRE, &json!({ "id": "a", "pk": "p" })).await;
        assert_eq!(refused.status, 400, "{body}");
        assert!(
            refused.body["message"].to_string().contains(cause),
            "{}",
            refused.body
        );
    }
    let patch = json!({ "operations": [{ "op": "set", "path": "/a", "value": 1 }] });
    fill(&account, &[json!({})]).await;
    trigger_for_all(&account).await;
    let patched = account
        .item(Method::PATCH, "0", &[(PRE, "all")], Some(&patch))
        .await;
    assert_eq!(patched.status, 400, "{}", patched.body);
}

async fn trigger_for_all(account: &Account) {
    let definition =
        json!({ "id": "all", "body": "() => {}", "triggerType": "Pre", "triggerOperation": "All" });
    define(account, "triggers", &definition).await;
}
