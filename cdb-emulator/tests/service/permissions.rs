//! Tests of users, permissions and resource tokens.

use cdb_emulator::Emulator;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Answer, Headers, Request};

const IN_P: Headers<'_> = &[("x-ms-documentdb-partitionkey", r#"["p"]"#)];

async fn send(account: &Account, method: Method, path: &str, body: Option<&Value>) -> Answer {
    // A list is signed with the link of its parent.
    let segments: Vec<&str> = path.split('/').collect();
    let is_list = segments.len() % 2 == 1;
    let kind = segments[segments.len() - if is_list { 1 } else { 2 }];
    let link = if is_list {
        segments[..segments.len() - 1].join("/")
    } else {
        path.to_owned()
    };
    let request = Request::new(method, (kind, &link), path).body(body);
    account.send(&request).await
}

/// Creates a permission of a new user and returns its token.
async fn token(account: &Account, permission: Value) -> String {
    let user = json!({ "id": "u" });
    send(account, Method::POST, "dbs/db/users", Some(&user)).await;
    let mut body = permission;
    body["id"] = "p".into();
    send(
        account,
        Method::DELETE,
        "dbs/db/users/u/permissions/p",
        None,
    )
    .await;
    let created = send(
        account,
        Method::POST,
        "dbs/db/users/u/permissions",
        Some(&body),
    )
    .await;
    assert_eq!(created.status, 201, "{}", created.body);
    let token = created.body["_token"].as_str().expect("a token");
    assert!(token.starts_with("type=resource&ver=1&sig="), "{token}");
    utf8_percent_encode(token, NON_ALPHANUMERIC).to_string()
}

async fn as_token(
    account: &Account,
    token: &str,
    (method, path): (Method, &str),
    (headers, body): (Headers<'_>, Option<&Value>),
) -> u16 {
    let request = Request::new(method, ("", ""), path)
        .headers(headers)
        .body(body);
    let answer = account.send_as(token, "", &request).await;
    answer.expect("an answer").status
}

async fn filled() -> Account {
    let account = Account::start().await;
    assert_eq!(
        account
            .create(&json!({ "id": "1", "pk": "p" }))
            .await
            .status,
        201
    );
    account
}

#[tokio::test]
async fn users_and_permissions_are_created_listed_replaced_and_deleted() {
    let account = filled().await;
    let users = "dbs/db/users";
    let user = json!({ "id": "u" });
    assert_eq!(
        send(&account, Method::POST, users, Some(&user))
            .await
            .status,
        201
    );
    assert_eq!(
        send(&account, Method::POST, users, Some(&user))
            .await
            .status,
        409
    );
    let permission = json!({ "id": "p", "permissionMode": "Read", "resource": "dbs/db/colls/c" });
    let permissions = "dbs/db/users/u/permissions";
    let created = send(&account, Method::POST, permissions, Some(&permission)).await;
    assert_eq!(
        (created.status, &created.body["permissionMode"]),
        (201, &json!("Read"))
    );
    let renamed = json!({ "id": "v" });
    assert_eq!(
        send(&account, Method::PUT, "dbs/db/users/u", Some(&renamed))
            .await
            .status,
        200
    );
    let listed = send(&account, Method::GET, "dbs/db/users/v/permissions", None).await;
    assert_eq!(listed.body["Permissions"][0]["id"], "p");
    assert_eq!(
        send(&account, Method::GET, users, None).await.body["_count"],
        1
    );
    assert_eq!(
        send(&account, Method::DELETE, "dbs/db/users/v", None)
            .await
            .status,
        204
    );
    assert_eq!(
        send(&account, Method::POST, users, Some(&renamed))
            .await
            .status,
        201
    );
    let listed = send(&account, Method::GET, "dbs/db/users/v/permissions", None).await;
    assert_eq!(
        listed.body["_count"], 0,
        "a deleted user has no permissions"
    );
}

#[tokio::test]
async fn an_invalid_permission_is_refused() {
    let account = filled().await;
    let user = json!({ "id": "u" });
    send(&account, Method::POST, "dbs/db/users", Some(&user)).await;
    let permissions = "dbs/db/users/u/permissions";
    let permission = json!({ "id": "p", "permissionMode": "Read", "resource": "dbs/db/colls/c" });
    for (name, value) in [
        ("permissionMode", "Write"),
        ("resource", "dbs/db/colls/none"),
        ("id", ""),
    ] {
        let mut wrong = permission.clone();
        wrong[name] = value.into();
        let refused = send(&account, Method::POST, permissions, Some(&wrong)).await;
        assert_eq!(refused.status, 400, "{name}");
    }
}

/// Permissions, each with the status of a read, a write, a feed, and a read of the database.
fn grants(self_link: &Value) -> [(Value, [u16; 4]); 7] {
    [
        (
            json!({ "permissionMode": "Read", "resource": "dbs/db/colls/c" }),
            [200, 403, 200, 403],
        ),
        (
            json!({ "permissionMode": "Read", "resource": self_link }),
            [200, 403, 200, 403],
        ),
        (
            json!({ "permissionMode": "All", "resource": "dbs/db/colls/c" }),
            [200, 201, 200, 403],
        ),
        (
            json!({ "permissionMode": "All", "resource": "dbs/db/colls/c", "resourcePartitionKey": ["q"] }),
            [403, 403, 403, 403],
        ),
        (
            json!({ "permissionMode": "Read", "resource": "dbs/db/colls/c", "resourcePartitionKey": ["p"] }),
            [200, 403, 200, 403],
        ),
        (
            json!({ "permissionMode": "Read", "resource": "dbs/db/colls/c/docs/1" }),
            [200, 403, 403, 403],
        ),
        (
            json!({ "permissionMode": "Read", "resource": "dbs/db/colls/c/docs/7" }),
            [403, 403, 403, 403],
        ),
    ]
}

#[tokio::test]
async fn a_token_allows_what_its_permission_names() {
    let account = filled().await;
    let docs = "dbs/db/colls/c/docs";
    let item = "dbs/db/colls/c/docs/1";
    let new = json!({ "id": "2", "pk": "p" });
    let self_link = send(&account, Method::GET, "dbs/db/colls/c", None)
        .await
        .body["_self"]
        .clone();
    for (permission, [read, write, feed, database]) in grants(&self_link) {
        let name = permission.to_string();
        let token = token(&account, permission).await;
        let none = (IN_P, None);
        assert_eq!(
            as_token(&account, &token, (Method::GET, item), none).await,
            read,
            "{name}"
        );
        let body = (IN_P, Some(&new));
        assert_eq!(
            as_token(&account, &token, (Method::POST, docs), body).await,
            write,
            "{name}"
        );
        assert_eq!(
            as_token(&account, &token, (Method::GET, docs), none).await,
            feed,
            "{name}"
        );
        assert_eq!(
            as_token(&account, &token, (Method::GET, "dbs/db"), none).await,
            database,
            "{name}"
        );
        assert_eq!(
            as_token(&account, &token, (Method::GET, ""), none).await,
            200,
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_changed_or_foreign_token_is_refused() {
    let account = filled().await;
    let read = json!({ "permissionMode": "Read", "resource": "dbs/db/colls/c" });
    let issued = token(&account, read.clone()).await;
    let all = token(
        &account,
        json!({ "permissionMode": "All", "resource": "dbs/db/colls/c" }),
    )
    .await;
    // The signature of one grant does not fit another.
    let (start, _) = issued.split_once("%3B").expect("two parts");
    let (_, grant) = all.split_once("%3B").expect("two parts");
    let item = (Method::GET, "dbs/db/colls/c/docs/1");
    let mixed = format!("{start}%3B{grant}");
    assert_eq!(
        as_token(&account, &mixed, item.clone(), (IN_P, None)).await,
        401
    );
    let key = "b3RoZXIga2V5IG9mIGFuIGFjY291bnQ=";
    let other = Emulator::builder()
        .key(key)
        .start()
        .await
        .expect("it starts");
    let other = Account::with(other, json!({})).await;
    assert_eq!(as_token(&other, &issued, item, (IN_P, None)).await, 401);
}

const CONTAINER: &str = "dbs/db/colls/c";
const ITEM: &str = "dbs/db/colls/c/docs/1";
const SCRIPTS: &str = "dbs/db/colls/c/sprocs";
const PROCEDURE: &str = "dbs/db/colls/c/sprocs/s";
const DELETE_KEY: &str = "dbs/db/colls/c/operations/partitionkeydelete";
const IN_Q: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["q"]"#);
const PLAN: (&str, &str) = ("x-ms-cosmos-is-query-plan-request", "true");
const QUERY: (&str, &str) = ("x-ms-documentdb-isquery", "true");

/// Checks that a token of this permission does not allow any of these requests.
async fn assert_refused(
    account: &Account,
    permission: &Value,
    requests: &[(Method, &str, Headers<'_>, &Value)],
) {
    let token = token(account, permission.clone()).await;
    for (method, path, headers, body) in requests {
        let name = format!("{permission}: {method} {path}");
        let request = (method.clone(), *path);
        let status = as_token(account, &token, request, (headers, Some(body))).await;
        assert_eq!(status, 403, "{name}");
    }
    let get = (Method::GET, CONTAINER);
    let status = as_token(account, &token, get, (IN_P, None)).await;
    assert_eq!(status, 200, "{permission}");
}

#[tokio::test]
async fn a_token_of_an_item_does_not_change_the_container() {
    let account = filled().await;
    let definition = send(&account, Method::GET, CONTAINER, None).await.body;
    let of_item = json!({ "permissionMode": "All", "resource": ITEM });
    let requests = [
        (Method::PUT, CONTAINER, IN_P, &definition),
        (Method::DELETE, CONTAINER, IN_P, &Value::Null),
        (Method::POST, DELETE_KEY, IN_P, &Value::Null),
    ];
    assert_refused(&account, &of_item, &requests).await;
    // A header of a read does not make a change one.
    let of_reads = json!({ "permissionMode": "Read", "resource": CONTAINER });
    let requests = [
        (Method::PUT, CONTAINER, &[IN_P[0], QUERY][..], &definition),
        (Method::DELETE, CONTAINER, &[PLAN], &Value::Null),
    ];
    assert_refused(&account, &of_reads, &requests).await;
}

#[tokio::test]
async fn a_token_of_a_partition_key_changes_nothing_else() {
    let account = filled().await;
    let definition = send(&account, Method::GET, CONTAINER, None).await.body;
    let script = json!({ "id": "s", "body": "function f() {}" });
    let document = json!({ "id": "1", "pk": "q" });
    let bulk = [
        IN_P[0],
        ("x-ms-cosmos-is-batch-request", "true"),
        ("x-ms-cosmos-batch-atomic", "false"),
        ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ];
    let of_key =
        json!({ "permissionMode": "All", "resource": CONTAINER, "resourcePartitionKey": ["p"] });
    let requests = [
        (Method::PUT, CONTAINER, IN_P, &definition),
        (Method::DELETE, CONTAINER, IN_P, &Value::Null),
        (Method::POST, DELETE_KEY, &[IN_Q], &Value::Null),
        (Method::POST, SCRIPTS, IN_P, &script),
        (Method::PUT, PROCEDURE, IN_P, &script),
        (Method::DELETE, PROCEDURE, IN_P, &Value::Null),
        (Method::PUT, ITEM, &[IN_Q, PLAN], &document),
        (Method::POST, "dbs/db/colls/c/docs", &bulk, &document),
    ];
    assert_refused(&account, &of_key, &requests).await;
    let token = token(&account, of_key).await;
    let deleted = as_token(&account, &token, (Method::POST, DELETE_KEY), (IN_P, None)).await;
    assert_eq!(deleted, 200);
}
