//! Tests of the query functions of `__`, after the examples of the API's reference.

use serde_json::{Value, json};

use super::{fill, run};
use crate::account::Account;

async fn people() -> Account {
    let account = Account::start().await;
    let documents: Vec<Value> = [
        ("John", 40, json!(["x", "y"])),
        ("Ann", 20, json!(["z"])),
        ("Bob", 25, json!([])),
    ]
    .map(|(name, age, tags)| json!({ "name": name, "age": age, "tags": tags }))
    .into();
    fill(&account, &documents).await;
    account
}

#[tokio::test]
async fn documents_are_filtered_mapped_sorted_and_flattened() {
    let account = people().await;
    for (query, expected) in [
        ("__.filter(d => d.age < 30, set)", json!(["1", "2"])),
        (
            "__.filter(d => d.age < 30, { pageSize: 1 }, set)",
            json!([]),
        ),
        (
            "__.map(d => d.id + d.name, set)",
            json!(["0John", "1Ann", "2Bob"]),
        ),
        ("__.pluck('age', set)", json!([40, 20, 25])),
        (
            "__.sortBy(d => d.age, (e, f) => set(e, f.map(d => d.id)))",
            json!(["1", "2", "0"]),
        ),
        (
            "__.sortByDescending(d => d.name, set)",
            json!(["0", "2", "1"]),
        ),
        (
            "__.chain().filter(d => d.age < 30).map(d => d.tags).flatten(true).value(set)",
            json!(["z"]),
        ),
        (
            "__.chain().filter(d => d.age > 30).pluck('age').value({}, set)",
            json!([40]),
        ),
        (
            "__.chain().unwind(d => d.tags, (d, t) => d.name + t).value(set)",
            json!(["Johnx", "Johny", "Annz"]),
        ),
        ("__.unwind(d => d.tags, {}, set)", json!(["x", "y", "z"])),
    ] {
        let script = format!(
            "function f() {{
                var result = {query};
                if (!result.isAccepted) throw new Error('The call was not accepted');
                function set(error, feed) {{
                    if (error) throw error;
                    __.response.setBody(feed.map(each => each.id || each));
                }}
            }}"
        );
        let answer = run(&account, &script, json!([])).await;
        assert_eq!((answer.status, &answer.body), (200, &expected), "{query}");
    }
}

#[tokio::test]
async fn without_a_callback_the_result_is_the_response() {
    let account = people().await;
    let answer = run(&account, "() => __.chain().pluck('age').value()", json!([])).await;
    assert_eq!(answer.body, "[40,20,25]");
    let failed = run(&account, "() => __.map(d => d.none.none)", json!([])).await;
    assert_eq!(failed.status, 400, "{}", failed.body);
    let misused = run(&account, "() => __.filter()", json!([])).await;
    assert_eq!(misused.header("x-ms-substatus"), "400", "{}", misused.body);
}
