//! Tests of stored procedures after Microsoft's documentation and the samples of
//! azure-cosmosdb-js-server.

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::json;

use super::{IN_P, assert_failed, define, execute, fill, rows, run, send};
use crate::account::{Account, Headers};

#[tokio::test]
async fn a_procedure_sets_the_body_of_its_response() {
    let account = Account::start().await;
    let script = r#"function helloWorld() {
        var context = getContext();
        var response = context.getResponse();
        response.setBody("Hello, World");
    }"#;
    let answer = run(&account, script, json!([])).await;
    assert_eq!((answer.status, &answer.body), (200, &json!("Hello, World")));
    assert!(answer.header("x-ms-session-token").starts_with("0:"));
    for (script, expected) in [
        (
            "() => getContext().getResponse().setBody({ a: [1.5, null] })",
            json!({ "a": [1.5, null] }),
        ),
        ("(a, b) => __.response.setBody(a + b.c)", json!(3)),
        (
            "function () { __.response.setBody(__.request.getBody().length) };",
            json!(2),
        ),
        (
            "// a comment\nfunction f() { g() }\nfunction g() { __.response.setBody('helper') }",
            json!("helper"),
        ),
    ] {
        let answer = run(&account, script, json!([1, { "c": 2 }])).await;
        assert_eq!((answer.status, &answer.body), (200, &expected), "{script}");
    }
}

/// `spCreateToDoItems` of how-to-write-stored-procedures-triggers-udfs.
const CREATE_ITEMS: &str = r#"function createToDoItems(items) {
    var collection = getContext().getCollection();
    var collectionLink = collection.getSelfLink();
    var count = 0;
    if (!items) throw new Error("The array is undefined or null.");
    var numItems = items.length;
    if (numItems == 0) {
        getContext().getResponse().setBody(0);
        return;
    }
    tryCreate(items[count], callback);
    function tryCreate(item, callback) {
        var options = { disableAutomaticIdGeneration: false };
        var isAccepted = collection.createDocument(collectionLink, item, options, callback);
        if (!isAccepted) getContext().getResponse().setBody(count);
    }
    function callback(err, item, options) {
        if (err) throw err;
        count++;
        if (count >= numItems) {
            getContext().getResponse().setBody(count);
        } else {
            tryCreate(items[count], callback);
        }
    }
}"#;

#[tokio::test]
async fn items_without_an_id_are_created_with_a_generated_one() {
    let account = Account::start().await;
    let items: Vec<_> = (0..500).map(|n| json!({ "pk": "p", "n": n })).collect();
    let answer = run(&account, CREATE_ITEMS, json!([items])).await;
    assert_eq!((answer.status, &answer.body), (200, &json!(500)));
    let count = "SELECT VALUE COUNT(1) FROM c WHERE LENGTH(c.id) = 36";
    assert_eq!(rows(&account, count).await, [json!(500)]);
    let rids = rows(&account, "SELECT DISTINCT VALUE c._rid FROM c").await;
    assert_eq!(rids.len(), 500);
    assert!(answer.charge() > 500.0 * 4.5, "{}", answer.charge());
}

#[tokio::test]
async fn an_exception_rolls_back_every_write() {
    let account = Account::start().await;
    fill(&account, &[json!({ "n": 1 })]).await;
    let items = json!([[{ "id": "a", "pk": "p" }, { "id": "0", "pk": "p" }]]);
    let answer = run(&account, CREATE_ITEMS, items).await;
    let cause = r#"Exception = Error: {\"Errors\":[\"Entity with the specified id already exists"#;
    assert_failed(&answer, "409", cause);
    assert_eq!(rows(&account, "SELECT VALUE c.id FROM c").await, ["0"]);
    let message = answer.body["message"].as_str().expect("a text");
    let start = r#"Message: {"Errors":["Encountered exception while executing function. Exception = Error: "#;
    assert!(message.starts_with(start), "{message}");
    assert!(message.contains(r"\r\nStack trace: Error: "), "{message}");
    assert!(!message.contains("(native)"), "{message}");
    let answer = run(&account, CREATE_ITEMS, json!([])).await;
    assert_failed(
        &answer,
        "",
        "Exception = Error: The array is undefined or null.",
    );
    assert!(
        answer.body["message"]
            .as_str()
            .expect("a text")
            .contains("createToDoItems (script.js:5:")
    );
}

#[tokio::test]
async fn a_numbered_error_is_the_substatus() {
    let account = Account::start().await;
    let thrown = run(
        &account,
        "function f() { throw new Error(4711, 'no'); }",
        json!([]),
    )
    .await;
    assert_failed(&thrown, "4711", "Exception = Error: no");
    let text = run(&account, "function f() { throw 'plain'; }", json!([])).await;
    assert_failed(&text, "", "Exception = plain");
    let aborted = "function f() { Promise.resolve().then(() => getContext().abort(new Error(412, 'late'))); }";
    assert_failed(&run(&account, aborted, json!([])).await, "412", "late");
}

#[tokio::test]
async fn bulk_import_counts_the_documents() {
    let account = Account::start().await;
    let script = r#"function bulkImport(docs) {
        var collection = getContext().getCollection();
        var collectionLink = collection.getSelfLink();
        var count = 0;
        if (!docs) throw new Error("The array is undefined or null.");
        var docsLength = docs.length;
        if (docsLength == 0) { getContext().getResponse().setBody(0); return; }
        tryCreate(docs[count], callback);
        function tryCreate(doc, callback) {
            var isAccepted = collection.createDocument(collectionLink, doc, callback);
            if (!isAccepted) getContext().getResponse().setBody(count);
        }
        function callback(err, doc, options) {
            if (err) throw err;
            count++;
            if (count >= docsLength) getContext().getResponse().setBody(count);
            else tryCreate(docs[count], callback);
        }
    }"#;
    let documents: Vec<_> = (0..50)
        .map(|n| json!({ "id": n.to_string(), "pk": "p" }))
        .collect();
    let answer = run(&account, script, json!([documents])).await;
    assert_eq!((answer.status, &answer.body), (200, &json!(50)));
    assert_eq!(
        rows(&account, "SELECT VALUE COUNT(1) FROM c").await,
        [json!(50)]
    );
}

#[tokio::test]
async fn bulk_delete_removes_what_its_query_finds() {
    let account = Account::start().await;
    let documents: Vec<_> = (0..120).map(|n| json!({ "old": n % 2 == 0 })).collect();
    fill(&account, &documents).await;
    let script = r#"function bulkDeleteSproc(query) {
        var collection = getContext().getCollection();
        var collectionLink = collection.getSelfLink();
        var response = getContext().getResponse();
        var responseBody = { deleted: 0, continuation: true };
        if (!query) throw new Error("The query is undefined or null.");
        tryQueryAndDelete();
        function tryQueryAndDelete(continuation) {
            var requestOptions = { continuation: continuation };
            var isAccepted = collection.queryDocuments(collectionLink, query, requestOptions, function (err, documents, responseOptions) {
                if (err) throw err;
                if (documents.length > 0) tryDelete(documents);
                else if (responseOptions.continuation) tryQueryAndDelete(responseOptions.continuation);
                else { responseBody.continuation = false; response.setBody(responseBody); }
            });
            if (!isAccepted) response.setBody(responseBody);
        }
        function tryDelete(documents) {
            if (documents.length > 0) {
                var isAccepted = collection.deleteDocument(documents[0]._self, {}, function (err, responseOptions) {
                    if (err) throw err;
                    responseBody.deleted++;
                    documents.shift();
                    tryDelete(documents);
                });
                if (!isAccepted) response.setBody(responseBody);
            } else {
                tryQueryAndDelete();
            }
        }
    }"#;
    let answer = run(
        &account,
        script,
        json!(["SELECT c._self FROM c WHERE c.old = true"]),
    )
    .await;
    assert_eq!(answer.body, json!({ "deleted": 60, "continuation": false }));
    assert_eq!(
        rows(&account, "SELECT VALUE COUNT(1) FROM c").await,
        [json!(60)]
    );
}

#[tokio::test]
async fn two_players_swap_their_items() {
    let account = Account::start().await;
    fill(
        &account,
        &[json!({ "item": "sword" }), json!({ "item": "shield" })],
    )
    .await;
    // `tradePlayerItems` of stored-procedures-triggers-udfs.
    let script = r#"function tradePlayerItems(playerId1, playerId2) {
        var context = getContext();
        var container = context.getCollection();
        var response = context.getResponse();
        var player1Item, player2Item;
        var filterQuery = { 'query': 'SELECT * FROM Players p where p.id = @playerId1',
            'parameters': [{ 'name': '@playerId1', 'value': playerId1 }] };
        var accept = container.queryDocuments(container.getSelfLink(), filterQuery, {}, function (err, items, responseOptions) {
            if (err) throw new Error("Error" + err.message);
            if (items.length != 1) throw "Unable to find player 1";
            player1Item = items[0];
            var filterQuery2 = { 'query': 'SELECT * FROM Players p where p.id = @playerId2',
                'parameters': [{ 'name': '@playerId2', 'value': playerId2 }] };
            var accept2 = container.queryDocuments(container.getSelfLink(), filterQuery2, {}, function (err2, items2) {
                if (err2) throw new Error("Error" + err2.message);
                if (items2.length != 1) throw "Unable to find player 2";
                player2Item = items2[0];
                swapItems(player1Item, player2Item);
            });
            if (!accept2) throw "Unable to read player details, abort ";
        });
        if (!accept) throw "Unable to read player details, abort ";
        function swapItems(player1, player2) {
            var item = player1.item;
            player1.item = player2.item;
            player2.item = item;
            var accept = container.replaceDocument(player1._self, player1, function (err, itemReplaced) {
                if (err) throw "Unable to update player 1, abort ";
                var accept2 = container.replaceDocument(player2._self, player2, function (err2, itemReplaced2) {
                    if (err2) throw "Unable to update player 2, abort";
                    response.setBody([itemReplaced.item, itemReplaced2.item]);
                });
                if (!accept2) throw "Unable to update player 2, abort";
            });
            if (!accept) throw "Unable to update player 1, abort";
        }
    }"#;
    let answer = run(&account, script, json!(["0", "1"])).await;
    assert_eq!(answer.body, json!(["shield", "sword"]), "{}", answer.body);
    let missing = run(&account, script, json!(["0", "x"])).await;
    assert_failed(&missing, "", "Exception = Unable to find player 2");
    let items = "SELECT VALUE c.item FROM c ORDER BY c.id";
    assert_eq!(rows(&account, items).await, ["shield", "sword"]);
}

#[tokio::test]
async fn a_document_is_updated_with_its_etag() {
    let account = Account::start().await;
    fill(&account, &[json!({ "counter": 1 })]).await;
    let script = r#"function updateSproc(id, update, etag) {
        var collection = getContext().getCollection();
        var query = { query: "select * from root r where r.id = @id", parameters: [{ name: "@id", value: id }] };
        var isAccepted = collection.queryDocuments(collection.getSelfLink(), query, { continuation: undefined }, function (err, documents) {
            if (err) throw err;
            if (documents.length == 0) throw new Error("Document not found.");
            var document = documents[0];
            for (var field in update.$inc) document[field] += update.$inc[field];
            var options = { etag: etag || document._etag };
            var isAccepted = collection.replaceDocument(document._self, document, options, function (err, updated) {
                if (err) throw err;
                getContext().getResponse().setBody(updated);
            });
            if (!isAccepted) throw new Error("The stored procedure timed out.");
        });
        if (!isAccepted) throw new Error("The stored procedure timed out.");
    }"#;
    let answer = run(&account, script, json!(["0", { "$inc": { "counter": 2 } }])).await;
    assert_eq!(answer.body["counter"], 3, "{}", answer.body);
    let stale = run(
        &account,
        script,
        json!(["0", { "$inc": { "counter": 2 } }, "\"stale\""]),
    )
    .await;
    assert_failed(&stale, "412", "precondition");
    let missing = run(&account, script, json!(["1", {}])).await;
    assert_failed(&missing, "", "Document not found.");
}

#[tokio::test]
async fn a_count_continues_where_it_ended() {
    let account = Account::start().await;
    fill(&account, &vec![json!({ "category": "food" }); 60]).await;
    let script = r"function count(filterQuery, continuationToken) {
        var collection = getContext().getCollection();
        var maxResult = 25;
        var result = 0;
        tryQuery(continuationToken);
        function tryQuery(nextContinuationToken) {
            var responseOptions = { continuation: nextContinuationToken, pageSize: maxResult };
            if (result >= maxResult || !query(responseOptions)) setBody(nextContinuationToken);
        }
        function query(responseOptions) {
            return (filterQuery && filterQuery.length) ?
                collection.queryDocuments(collection.getSelfLink(), filterQuery, responseOptions, onReadDocuments) :
                collection.readDocuments(collection.getSelfLink(), responseOptions, onReadDocuments);
        }
        function onReadDocuments(err, docFeed, responseOptions) {
            if (err) throw 'Error while reading document: ' + err;
            result += docFeed.length;
            if (responseOptions.continuation) tryQuery(responseOptions.continuation);
            else setBody(null);
        }
        function setBody(continuationToken) {
            getContext().getResponse().setBody({ count: result, continuationToken: continuationToken });
        }
    }";
    for query in [
        json!("SELECT * FROM docs WHERE docs.category = 'food'"),
        json!(""),
    ] {
        let mut counts = Vec::new();
        let mut continuation = json!(null);
        loop {
            let answer = run(&account, script, json!([query, continuation])).await;
            assert_eq!(answer.status, 200, "{}", answer.body);
            counts.push(answer.body["count"].clone());
            continuation = answer.body["continuationToken"].clone();
            if continuation.is_null() {
                break;
            }
        }
        assert_eq!(counts, [25, 25, 10], "{query}");
    }
}

#[tokio::test]
async fn documents_are_read_upserted_and_patched_by_name() {
    let account = Account::start().await;
    fill(&account, &[json!({ "n": 1 })]).await;
    let script = r#"function f() {
        var link = __.getAltLink() + "/docs/0", seen = [];
        __.readDocument(link, {}, function (err, document, options) {
            if (err) throw err;
            seen.push(document.n, options.statusCode);
            __.readDocument(link, { ifNoneMatch: document._etag }, function (err, same, options) {
                seen.push(err === undefined && same === undefined && options.notModified);
            });
            document.n = 2;
            __.upsertDocument(__.getSelfLink(), document, function (err, upserted) {
                if (err) throw err;
                seen.push(upserted.n);
            });
            __.upsertDocument(__.getAltLink(), { id: "new", pk: "p" }, function (err, created, options) {
                seen.push(options.statusCode);
            });
            __.patchDocument(link, [{ op: "incr", path: "/n", value: 3 }], function (err, patched) {
                if (err) throw err;
                seen.push(patched.n);
                __.response.setBody(seen);
            });
        });
        __.readDocument(__.getAltLink() + "/docs/none", function (err) {
            seen.push(err.number, JSON.parse(err.body).Errors.length, err instanceof Error);
        });
    }"#;
    let answer = run(&account, script, json!([])).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.body, json!([1, 200, 404, 1, true, true, 2, 201, 5]));
}

#[tokio::test]
async fn an_error_without_a_callback_ends_the_procedure() {
    let account = Account::start().await;
    let script = "function f() { __.deleteDocument(__.getAltLink() + '/docs/none'); }";
    assert_failed(
        &run(&account, script, json!([])).await,
        "404",
        "Entity with the specified id",
    );
    for (script, cause) in [
        (
            "() => __.createDocument('dbs/x/colls/y/', {})",
            "Invalid collection link: ",
        ),
        (
            "() => __.readDocument('dbs/x/colls/y/docs/z')",
            "Invalid document link: ",
        ),
        (
            "() => __.createDocument(__.getSelfLink())",
            "requires at least 2 argument(s)",
        ),
        (
            "() => __.createDocument(__.getSelfLink(), 1)",
            "must be an object or a string",
        ),
        (
            "() => __.createDocument(__.getSelfLink(), {}, 1)",
            "parameter must be of type",
        ),
        (
            "() => __.queryDocuments(__.getSelfLink(), 'SELECT')",
            "Syntax error",
        ),
    ] {
        let answer = run(&account, script, json!([])).await;
        assert_eq!(answer.status, 400, "{script}");
        assert!(
            answer.body["message"].to_string().contains(cause),
            "{script}: {}",
            answer.body
        );
    }
}

#[tokio::test]
async fn a_procedure_stays_in_its_partition_key() {
    let account = Account::start().await;
    fill(&account, &[json!({})]).await;
    let foreign = "() => __.createDocument(__.getSelfLink(), { id: 'x', pk: 'q' })";
    let cause =
        "Requests originating from scripts cannot reference partition keys other than the one";
    assert_failed(&run(&account, foreign, json!([])).await, "400", cause);
    define(
        &account,
        "sprocs",
        &json!({ "id": "all", "body": "() => __.readDocuments(__.getSelfLink(), (e, d) => __.response.setBody(d.length))" }),
    )
    .await;
    for (key, expected) in [(r#"["p"]"#, 1), (r#"["q"]"#, 0), ("[\"\\u00e9\"]", 0)] {
        let headers: Headers<'_> = &[("x-ms-documentdb-partitionkey", key)];
        let answer = execute(&account, "all", headers, json!([])).await;
        assert_eq!(
            (answer.status, &answer.body),
            (200, &json!(expected)),
            "{key}"
        );
    }
    let without = execute(&account, "all", &[], json!([])).await;
    assert_eq!(without.status, 400, "{}", without.body);
    let missing = execute(&account, "none", IN_P, json!([])).await;
    assert_eq!(missing.status, 404);
    let get = send(&account, Method::PATCH, ("sprocs", "all"), (&[], None)).await;
    assert_eq!(get.status, 405);
}

#[tokio::test]
async fn the_log_is_in_a_header_on_request() {
    let account = Account::start().await;
    let script = "function f(fails) { console.log('a %s, ', 1 + 1); console.log('ü'); if (fails) throw new Error('x'); }";
    define(&account, "sprocs", &json!({ "id": "s", "body": script })).await;
    let silent = execute(&account, "s", IN_P, json!([])).await;
    assert_eq!(silent.header("x-ms-documentdb-script-log-results"), "");
    let headers: Headers<'_> = &[IN_P[0], ("x-ms-documentdb-script-enable-logging", "True")];
    for (fails, status) in [(false, 200), (true, 400)] {
        let answer = execute(&account, "s", headers, json!([fails])).await;
        let log = answer
            .header("x-ms-documentdb-script-log-results")
            .replace("%20", " ");
        assert_eq!((answer.status, &*log), (status, "a 2%2C %C3%BC"));
    }
}

#[tokio::test]
async fn a_caught_failure_leaves_nothing_behind() {
    let unique = json!({ "uniqueKeyPolicy": { "uniqueKeys": [{ "paths": ["/u"] }] } });
    let account = Account::with(Emulator::start().await.expect("it starts"), unique).await;
    fill(&account, &[json!({ "u": 1 }), json!({ "u": 2 })]).await;
    let script = r"function f() {
        var renamed = { id: 'new', pk: 'p', u: 2 };
        __.replaceDocument(__.getAltLink() + '/docs/0', renamed, function (err) {
            __.response.setBody(err && err.number);
        });
    }";
    let answer = run(&account, script, json!([])).await;
    assert_eq!((answer.status, &answer.body), (200, &json!(409)));
    let ids = rows(&account, "SELECT VALUE c.id FROM c ORDER BY c.id").await;
    assert_eq!(ids, ["0", "1"]);
}
