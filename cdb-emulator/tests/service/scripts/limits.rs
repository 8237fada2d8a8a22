//! Tests of the limits of scripts.

use reqwest::Method;
use serde_json::json;

use super::{IN_P, assert_failed, define, fill, rows, run};
use crate::account::{Account, Headers, Request};

#[tokio::test]
async fn an_endless_script_is_stopped_and_rolled_back() {
    let account = Account::start().await;
    for script in [
        "function f() { __.createDocument(__.getSelfLink(), { id: 'a', pk: 'p' }, () => { while (true) {} }); }",
        "function f() { try { f() } catch { while (true) {} } finally { f() } }",
        "function f() { Promise.resolve().then(f) }",
        "() => /(a+)+$/.test('a'.repeat(60) + 'b')",
    ] {
        let answer = run(&account, script, json!([])).await;
        assert_eq!(answer.status, 408, "{script}: {}", answer.body);
        assert_eq!(answer.body["code"], "RequestTimeout");
    }
    assert_eq!(
        rows(&account, "SELECT VALUE COUNT(1) FROM c").await,
        [json!(0)]
    );
    define(
        &account,
        "udfs",
        &json!({ "id": "loop", "body": "() => { while (true) {} }" }),
    )
    .await;
    let query = account
        .query(IN_P, "SELECT VALUE udf.loop()", json!([]))
        .await;
    assert_eq!(query.status, 408, "{}", query.body);
}

#[tokio::test]
async fn memory_and_stack_are_limited() {
    let account = Account::start().await;
    for (script, cause) in [
        (
            "() => { let all = []; while (true) all.push('x'.repeat(1e6) + all.length); }",
            "out of memory",
        ),
        (
            "function f() { return f() + 1 }",
            "Maximum call stack size exceeded",
        ),
    ] {
        assert_failed(&run(&account, script, json!([])).await, "", cause);
    }
    let large = "() => __.response.setBody('x'.repeat(5e6))";
    assert_eq!(run(&account, large, json!([])).await.status, 413);
}

#[tokio::test]
async fn a_script_has_no_access_to_the_machine() {
    let account = Account::start().await;
    let names = "['require', 'process', 'std', 'os', 'fetch', 'setTimeout', 'XMLHttpRequest', 'WebAssembly', 'Deno', '$entry']";
    let script = format!("() => __.response.setBody({names}.filter(name => name in globalThis))");
    assert_eq!(run(&account, &script, json!([])).await.body, json!([]));
    let script = "async () => { try { await import('std'); __.response.setBody('imported') } catch (e) { __.response.setBody('refused') } }";
    assert_eq!(run(&account, script, json!([])).await.body, "refused");
}

#[tokio::test]
async fn executions_share_no_state() {
    let account = Account::start().await;
    let script = "() => { globalThis.n = (globalThis.n || 0) + 1; Array.prototype.x = 1; __.response.setBody(n); }";
    for _ in 0..2 {
        assert_eq!(run(&account, script, json!([])).await.body, 1);
    }
}

#[tokio::test]
async fn a_script_that_is_not_a_function_is_refused() {
    let account = Account::start().await;
    for (script, cause) in [
        ("function f( {", "Exception = SyntaxError: "),
        ("1 + 1", "is not a function"),
        (
            "function f() { none(); }",
            "Exception = ReferenceError: none is not defined",
        ),
    ] {
        assert_failed(&run(&account, script, json!([])).await, "", cause);
    }
}

#[tokio::test]
async fn operations_are_not_accepted_close_to_the_limit() {
    let account = Account::start().await;
    let script = r"function f() {
        var count = 0;
        next();
        function next() {
            var isAccepted = __.readDocument(__.getAltLink() + '/docs/none', function () {
                count++;
                next();
            });
            if (!isAccepted) __.response.setBody(count);
        }
    }";
    let answer = run(&account, script, json!([])).await;
    assert_eq!((answer.status, &answer.body), (200, &json!(10_000)));
    let busy = r"function f() {
        var rounds = 0;
        next();
        function next() {
            for (var n = 0; n < 1e6; n++) { }
            rounds++;
            var isAccepted = __.readDocument(__.getAltLink() + '/docs/none', next);
            if (!isAccepted) __.response.setBody(rounds);
        }
    }";
    let answer = run(&account, busy, json!([])).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(
        (2..100).contains(&answer.body.as_u64().unwrap_or_default()),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn a_script_of_long_queries_is_stopped() {
    let account = Account::start().await;
    let documents: Vec<_> = (0..100).map(|n| json!({ "n": n })).collect();
    fill(&account, &documents).await;
    // No index answers the condition.
    let script = r#"function f() {
        for (var n = 0; n < 10000; n++) __.queryDocuments(__.getSelfLink(), "SELECT * FROM c WHERE c.n + 1 = 0");
    }"#;
    let answer = run(&account, script, json!([])).await;
    assert_eq!(answer.status, 408, "{}", answer.body);
    let list: Vec<u32> = (0..500).collect();
    let joined = json!({ "id": "joined", "pk": "p", "list": list });
    assert_eq!(account.create(&joined).await.status, 201);
    let script = r#"function f() {
        var query = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.list JOIN b IN c.list WHERE a + b < 0";
        for (var n = 0; n < 10000; n++) __.queryDocuments(__.getSelfLink(), query);
    }"#;
    let answer = run(&account, script, json!([])).await;
    assert_eq!(answer.status, 408, "{}", answer.body);
    // A script that heeds the result of the call ends in time.
    let script = r#"function f() {
        var count = 0;
        next();
        function next() {
            count++;
            if (!__.queryDocuments(__.getSelfLink(), "SELECT * FROM c WHERE c.n + 1 = 0", next)) __.response.setBody(count);
        }
    }"#;
    let answer = run(&account, script, json!([])).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(
        (100..10_000).contains(&answer.body.as_u64().unwrap_or_default()),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn the_change_feed_has_every_write_of_a_large_script() {
    let account = Account::start().await;
    let at_once = r"function f() {
        var count = 0;
        while (__.createDocument(__.getSelfLink(), { pk: 'p' })) count++;
        __.response.setBody(count);
    }";
    let answer = run(&account, at_once, json!([])).await;
    assert_eq!((answer.status, &answer.body), (200, &json!(10_000)));
    let feed: Headers<'_> = &[
        IN_P[0],
        ("a-im", "Incremental Feed"),
        ("x-ms-max-item-count", "7000"),
    ];
    let mut changes = 0;
    let mut cursor = String::from("0");
    loop {
        let headers = [feed, &[("if-none-match", &*cursor)]].concat();
        let page = account
            .send(&Request {
                method: Method::GET,
                resource: ("docs", "dbs/db/colls/c"),
                path: "dbs/db/colls/c/docs",
                headers: &headers,
                body: None,
            })
            .await;
        if page.status == 304 {
            break;
        }
        changes += page.documents().len();
        cursor = page.header("etag").to_owned();
    }
    assert_eq!(changes, 10_000);
}
