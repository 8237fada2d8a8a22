//! Tests of the Explorer: its endpoints, and the page in a browser.

use cdb_emulator::Emulator;
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, answer_of, http_client};
use crate::browser::Browser;

/// Markup in an id, which an unsafe page would execute.
const HOSTILE: &str = "<img src=x onerror=window.pwned=1>";

/// Creates a container with indexes on `/n` and `/pk` and 60 documents, one of them with markup.
async fn account(partitions: u32) -> Account {
    let emulator = Emulator::builder().physical_partitions(partitions).start();
    let policy = json!({ "indexingPolicy": { "indexingMode": "consistent", "excludedPaths": [{ "path": "/*" }],
        "includedPaths": [{ "path": "/n/?" }, { "path": "/pk/?" }] } });
    let account = Account::with(emulator.await.expect("it starts"), policy).await;
    for n in 0..60 {
        let id = if n == 7 {
            HOSTILE.to_owned()
        } else {
            format!("document-{n:02}")
        };
        let document = json!({ "id": id, "pk": "p", "type": "note", "n": n, "text": "</pre><script>window.pwned=1</script>" });
        account.create(&document).await.is(201);
    }
    account
}

/// Sends a request to an endpoint of the page; a POST if it has a body.
async fn ask(account: &Account, path: &str, body: Option<&Value>) -> (u16, Value) {
    let url = format!("{}_explorer/{path}", account.emulator.endpoint());
    let method = if body.is_some() {
        Method::POST
    } else {
        Method::GET
    };
    let request = http_client().request(method, url);
    let request = match body {
        Some(body) => request.body(body.to_string()),
        None => request,
    };
    answer_of(request).await
}

/// Runs a query on the container.
async fn query(account: &Account, sql: &str, scope: Value) -> (u16, Value) {
    let body =
        json!({ "database": "db", "container": "c", "query": sql, "scope": scope, "pageSize": 25 });
    ask(account, "api/query", Some(&body)).await
}

#[tokio::test]
async fn the_page_loads_and_runs_only_its_own_content() {
    let account = Account::start().await;
    let url = format!("{}_explorer", account.emulator.endpoint());
    let page = http_client().get(url).send().await.expect("an answer");
    assert_eq!(page.url().path(), "/_explorer/", "it is redirected");
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self';"),
        "{policy}"
    );
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    let text = page.text().await.unwrap();
    for file in ["page.js", "page.css"] {
        assert!(text.contains(file), "{text}");
        let url = format!("{}_explorer/{file}", account.emulator.endpoint());
        let answer = http_client().get(url).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let text = answer.text().await.unwrap();
        for careless in [
            "innerHTML",
            "insertAdjacentHTML",
            "http://",
            "https://",
            "eval(",
        ] {
            assert!(!text.contains(careless), "{file} has {careless}");
        }
    }
    assert!(!text.contains("://"), "no other server is named: {text}");
}

#[tokio::test]
async fn the_tree_has_containers_with_their_policy_and_partitions() {
    let account = account(2).await;
    let (status, tree) = ask(&account, "api/tree", None).await;
    assert_eq!(status, 200, "{tree}");
    assert_eq!(tree["databases"][0]["id"], "db");
    let container = &tree["databases"][0]["containers"][0];
    assert_eq!(container["id"], "c");
    assert_eq!(container["partitionKey"], json!(["/pk"]));
    assert_eq!(container["ranges"], json!(["0", "1"]));
    let included = &container["definition"]["indexingPolicy"]["includedPaths"];
    assert_eq!(included[0]["path"], "/n/?");
}

#[tokio::test]
async fn a_plan_separates_conditions_that_an_index_answers() {
    let account = account(1).await;
    let sql = "SELECT * FROM c WHERE c.n >= 50 AND c.text != 'x' ORDER BY c.n DESC";
    let (status, found) = query(&account, sql, json!({ "range": "0" })).await;
    assert_eq!(status, 200, "{found}");
    let plan = &found["plan"];
    assert_eq!(plan["served"], json!(["c.n >= 50"]), "{plan}");
    assert_eq!(plan["left"], json!(["c.text != \"x\""]), "{plan}");
    assert_eq!(plan["sort"], json!(["c.n DESC"]));
    assert_eq!(plan["used"], json!(["/n/?"]));
    let missing = plan["missing"].as_array().expect("a list");
    assert!(missing.contains(&json!("/text/?")), "{plan}");
    assert_eq!(found["metrics"]["retrievedDocumentCount"], 10.0, "{found}");
    let (_, scan) = query(
        &account,
        "SELECT * FROM c WHERE c.text != 'x'",
        json!("everything"),
    )
    .await;
    let (narrow, wide) = (&found["charge"], &scan["charge"]);
    assert!(narrow.as_f64() < wide.as_f64(), "{narrow} {wide}");
}

#[tokio::test]
async fn a_query_runs_in_each_scope() {
    let account = account(2).await;
    let other = json!({ "id": "a", "pk": "ключ ✓" });
    let key = [(
        "x-ms-documentdb-partitionkey",
        r#"["\u043a\u043b\u044e\u0447 \u2713"]"#,
    )];
    account.post(&key, &other).await.is(201);
    let count = async |scope: Value| {
        let (status, found) = query(&account, "SELECT VALUE COUNT(1) FROM c", scope).await;
        assert_eq!(status, 200, "{found}");
        found["rows"][0].as_u64().expect("a count")
    };
    assert_eq!(count(json!({ "partitionKey": ["p"] })).await, 60);
    assert_eq!(count(json!({ "partitionKey": ["ключ ✓"] })).await, 1);
    let (first, second) = (
        count(json!({ "range": "0" })).await,
        count(json!({ "range": "1" })).await,
    );
    assert_eq!(first + second, 61);
    let (status, refused) = query(
        &account,
        "SELECT VALUE COUNT(1) FROM c",
        json!("everything"),
    )
    .await;
    assert_eq!(status, 400, "the gateway does not merge: {refused}");
}

#[tokio::test]
async fn invalid_requests_get_the_service_s_errors() {
    let account = account(1).await;
    account.emulator.reset_requests();
    for (sql, scope, status) in [
        ("SELEC", json!("everything"), 400),
        (
            "SELECT * FROM c ORDER BY c.text",
            json!({ "range": "0" }),
            400,
        ),
        ("SELECT * FROM c", json!({ "range": "9" }), 410),
        ("SELECT * FROM c", json!({ "range": "\n" }), 400),
        ("SELECT * FROM c", json!({ "partitionKey": [] }), 400),
        (
            "SELECT * FROM c",
            json!({ "partitionKey": ["p", "q"] }),
            400,
        ),
        ("SELECT * FROM c", json!({ "planet": "x" }), 400),
    ] {
        let (answered, refused) = query(&account, sql, scope.clone()).await;
        assert_eq!(answered, status, "{sql} {scope}: {refused}");
        assert!(
            refused["code"].is_string() && refused["message"].is_string(),
            "{refused}"
        );
    }
    let nowhere = json!({ "database": "x", "container": "c", "query": "SELECT * FROM c" });
    assert_eq!(ask(&account, "api/query", Some(&nowhere)).await.0, 404);
    assert_eq!(ask(&account, "api/query", Some(&json!({}))).await.0, 400);
    assert_eq!(ask(&account, "api/query", None).await.0, 405);
    assert_eq!(ask(&account, "api/tree", Some(&json!({}))).await.0, 405);
    assert_eq!(ask(&account, "api/other", None).await.0, 404);
    assert_eq!(
        account.emulator.requests().total(),
        0,
        "looking is not counted"
    );
}

#[tokio::test]
async fn system_documents_are_hidden_on_request_and_counted() {
    let account = account(1).await;
    for n in 0..60 {
        let stored =
            json!({ "id": format!("p:history:{n}"), "pk": "p", "type": "history", "n": n });
        account.create(&stored).await.is(201);
    }
    let own = json!({ "id": "history:1", "pk": "p", "type": "history", "n": 99 });
    account.create(&own).await.is(201);
    let seen = async |sql: &str, hide: bool| {
        let (mut rows, mut hidden, mut continuation) = (0, 0, Value::Null);
        loop {
            let body = json!({ "database": "db", "container": "c", "query": sql, "pageSize": 25,
                "hideSystem": hide, "continuation": continuation });
            let (status, found) = ask(&account, "api/query", Some(&body)).await;
            assert_eq!(status, 200, "{found}");
            rows += found["rows"].as_array().expect("rows").len();
            hidden += found["hidden"].as_u64().expect("a number");
            continuation = found["continuation"].clone();
            if continuation.is_null() {
                return (rows, hidden);
            }
            assert_ne!(found["rows"], json!([]), "a page has rows to show");
        }
    };
    assert_eq!(seen("SELECT * FROM c", true).await, (61, 60));
    assert_eq!(seen("SELECT * FROM c", false).await, (121, 0));
    // Rows that are no documents are not hidden.
    assert_eq!(seen("SELECT c.id, c.type FROM c", true).await, (121, 0));
}

#[tokio::test]
async fn every_sample_of_a_container_is_answered() {
    let account = account(2).await;
    let (_, tree) = ask(&account, "api/tree", None).await;
    let samples = tree["databases"][0]["containers"][0]["samples"].clone();
    let samples = samples.as_array().expect("samples");
    assert!(samples.len() >= 6, "{samples:?}");
    for sample in samples {
        let scope = match sample["scope"].as_str().expect("a scope") {
            "range" => json!({ "range": "0" }),
            "partitionKey" => json!({ "partitionKey": ["p"] }),
            everything => json!(everything),
        };
        let (status, found) = query(&account, sample["query"].as_str().expect("SQL"), scope).await;
        assert_eq!(status, 200, "{sample}: {found}");
    }
}

/// Sends a change of a document.
async fn change(
    account: &Account,
    method: Method,
    origin: Option<&str>,
    body: &Value,
) -> (u16, Value) {
    let url = format!("{}_explorer/api/document", account.emulator.endpoint());
    let mut request = http_client().request(method, url).body(body.to_string());
    if let Some(origin) = origin {
        request = request.header("origin", origin);
    }
    answer_of(request).await
}

#[tokio::test]
async fn a_document_is_changed_only_in_the_version_that_the_page_shows() {
    let account = account(1).await;
    let find = "SELECT * FROM c WHERE c.n = 3";
    let read = async || query(&account, find, json!("everything")).await.1["rows"][0].clone();
    let first = read().await;
    let about = |etag: &Value| {
        json!({ "database": "db", "container": "c", "partitionKey": ["p"],
        "id": "document-03", "etag": etag })
    };
    let mut edit = about(&first["_etag"]);
    edit["document"] = json!({ "id": "document-03", "pk": "p", "n": 3, "text": "new" });
    let own = account.emulator.endpoint().trim_end_matches('/').to_owned();

    let foreign = change(&account, Method::PUT, Some("https://evil.example"), &edit).await;
    assert_eq!(foreign.0, 403, "{foreign:?}");
    let (status, changed) = change(&account, Method::PUT, Some(&own), &edit).await;
    assert_eq!(status, 200, "{changed}");
    assert!(changed["charge"].as_f64() > Some(0.0), "{changed}");
    assert_eq!(read().await["text"], "new");

    for (method, body) in [
        (Method::PUT, &edit),
        (Method::DELETE, &about(&first["_etag"])),
    ] {
        let (status, refused) = change(&account, method, None, body).await;
        let message = refused["message"].as_str().unwrap_or_default();
        assert_eq!(
            (status, &refused["code"]),
            (412, &json!("PreconditionFailed"))
        );
        assert!(message.contains("Run the query again"), "{message}");
    }
    // A replacement needs content, and a deletion takes none.
    let newest = about(&read().await["_etag"]);
    assert_eq!(change(&account, Method::PUT, None, &newest).await.0, 400);
    assert_eq!(change(&account, Method::DELETE, None, &edit).await.0, 400);
    assert_eq!(change(&account, Method::POST, None, &newest).await.0, 405);
    assert_eq!(change(&account, Method::DELETE, None, &newest).await.0, 200);
    assert_eq!(read().await, Value::Null);
    assert_eq!(change(&account, Method::DELETE, None, &newest).await.0, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_shows_documents_as_text_and_supports_the_keyboard() {
    let account = account(1).await;
    let url = format!("{}_explorer/", account.emulator.endpoint());
    let browsed = tokio::task::spawn_blocking(move || browse(&url)).await;
    if !browsed.expect("the page works") {
        println!(
            "skipped: no chromium, chromium-browser or google-chrome here, and CHROME names none"
        );
    }
}

/// Returns whether a browser is installed.
fn browse(url: &str) -> bool {
    let Some(mut browser) = Browser::open(url) else {
        return false;
    };
    browser.wait_for("document.querySelector('#tree button') !== null");
    let chosen = "document.activeElement.textContent === 'c'";
    for _ in 0..6 {
        if browser.evaluate(chosen) == json!(true) {
            break;
        }
        browser.press("Tab", 9, false);
    }
    browser.wait_for(chosen);
    browser.press("Enter", 13, false);
    browser.wait_for("document.querySelectorAll('#rows > .row-head').length === 50");
    let titles = browser.evaluate("document.getElementById('rows').textContent");
    assert!(
        titles.as_str().unwrap_or_default().contains(HOSTILE),
        "{titles}"
    );
    table(&mut browser);

    browser.evaluate("document.getElementById('next').focus()");
    browser.press("Enter", 13, false);
    browser.wait_for("document.querySelectorAll('#rows > .row-head').length === 10");
    assert_eq!(
        browser.evaluate("document.getElementById('next').disabled"),
        json!(true)
    );

    browser.evaluate(
        "document.getElementById('sql').select(), document.getElementById('sql').focus()",
    );
    let sql = "SELECT * FROM c WHERE c.n < 20 AND CONTAINS(c.id, \"7\") ORDER BY c.n";
    browser.call("Input.insertText", &json!({ "text": sql }));
    browser.press("Enter", 13, true);
    browser.wait_for("document.getElementById('status').textContent.startsWith('1 row ')");
    let status = browser.evaluate("document.getElementById('status').textContent");
    assert!(
        status.as_str().unwrap_or_default().contains(" RU in "),
        "{status}"
    );
    let plan = browser.evaluate("document.getElementById('plan').innerText");
    for part in ["c.n < 20", "CONTAINS", "/n/?", "/id/?"] {
        assert!(plan.as_str().unwrap_or_default().contains(part), "{plan}");
    }
    browser.screenshot("query");

    browser.call("Input.insertText", &json!({ "text": " nonsense" }));
    browser.press("Enter", 13, true);
    browser.wait_for("document.getElementById('error').textContent.startsWith('400 BadRequest')");
    fault(&mut browser);
    addresses(&mut browser, sql);

    assert_eq!(browser.evaluate("window.pwned === undefined"), json!(true));
    assert_eq!(
        browser.evaluate("document.querySelectorAll('img, #rows script').length"),
        json!(0)
    );
    true
}

/// Checks that the address and the history select the container and its query.
fn addresses(browser: &mut Browser, sql: &str) {
    browser.evaluate("history.back()");
    browser.wait_for("document.getElementById('status').textContent.startsWith('1 row ')");
    let shown = browser.evaluate("document.getElementById('sql').value");
    assert_eq!(shown, json!(sql));
    browser.evaluate("history.back()");
    browser.wait_for("document.getElementById('status').textContent.startsWith('50 rows ')");
    let query = "SELECT c.n, c.pk FROM c WHERE c.n = 3";
    browser.evaluate(&format!(
        "location.hash = `#db/c?query=${{encodeURIComponent('{query}')}}&scope=everything`"
    ));
    browser.wait_for("document.getElementById('head').innerText.split(/\\s+/).join() === 'n,pk'");
    browser.wait_for("document.title === 'db / c – Explorer – cdb-emulator'");
    browser.evaluate("location.hash = '#db/missing'");
    browser.wait_for(
        "document.getElementById('error').textContent.includes('no container db/missing')",
    );
    browser.wait_for("document.getElementById('work').hidden");
}

/// Checks the place of the label, and the table of documents and its folds.
fn table(browser: &mut Browser) {
    let head = "[...document.querySelectorAll('#head th')].map((cell) => cell.textContent)";
    assert_eq!(browser.evaluate(head), json!(["Id", "Type", "Key /pk"]));
    let label = "(() => { const [label, field] = ['label[for=sql]', '#sql'].map((name) => document.querySelector(name).getBoundingClientRect()); \
                 return label.left === field.left && label.bottom <= field.top && field.top - label.bottom < 12; })()";
    assert_eq!(
        browser.evaluate(label),
        json!(true),
        "the label stands elsewhere"
    );
    browser.screenshot("documents");
    let unfolded = "document.querySelectorAll('#rows .content:not([hidden]) pre').length";
    browser.evaluate("document.getElementById('expand').click()");
    assert_eq!(browser.evaluate(unfolded), json!(50));
    browser.screenshot("expanded");
    browser.evaluate("document.getElementById('expand').click()");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('#rows .content[hidden]').length"),
        json!(50)
    );
}

/// Checks that a fault of the query is shown as text with its place.
fn fault(browser: &mut Browser) {
    let error = browser.evaluate("document.getElementById('error').innerText");
    let error = error.as_str().unwrap_or_default();
    for part in ["near 'nonsense'", "Line 1, column 69", "^^^^^^^^"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains('{'), "the error is text: {error}");
    browser.screenshot("error");
}
