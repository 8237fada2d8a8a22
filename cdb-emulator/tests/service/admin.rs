//! Tests of the admin routes: faults and counters over HTTP, for this machine only.

use cdb_emulator::{Effect, Emulator, Fault, OperationKind};
use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, ask, http_client};

async fn change(emulator: &Emulator, body: &Value) -> (u16, Value) {
    ask(emulator, Method::POST, "_admin/settings", &body.to_string()).await
}

/// Returns the statuses of `count` reads of a missing document.
async fn statuses_of_reads(account: &Account, count: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..count {
        let read = account.item(Method::GET, "a", &[], None).await;
        statuses.push(read.status);
    }
    statuses
}

#[tokio::test]
async fn a_script_applies_once() {
    let account = Account::start().await;
    let status = |status| json!({ "status": { "status": status, "retryAfterMs": 7 } });
    let script = json!({ "faults": [{ "kinds": ["read"], "times": 3,
        "effects": [status(429), "pass", status(503)] }] });
    let (answered, active) = change(&account.emulator, &script).await;
    assert_eq!(answered, 200, "{active}");
    assert_eq!(active["faults"][0]["struck"], 0, "{active}");
    assert_eq!(statuses_of_reads(&account, 2).await, [429, 404]);
    let (_, active) = ask(&account.emulator, Method::GET, "_admin/settings", "").await;
    assert_eq!(active["faults"][0]["struck"], 2, "{active}");
    assert_eq!(statuses_of_reads(&account, 2).await, [503, 404]);
    let (_, active) = ask(&account.emulator, Method::GET, "_admin/settings", "").await;
    assert_eq!(active["faults"], json!([]));
}

#[tokio::test]
async fn rust_and_http_share_the_faults() {
    let account = Account::start().await;
    let lost = Fault::with_probability(Effect::DropAnswer, 0.25).on(OperationKind::Batch);
    account.emulator.inject(lost.clone());
    let (_, active) = ask(&account.emulator, Method::GET, "_admin/settings", "").await;
    let mut read = active["faults"][0].clone();
    read.as_object_mut().expect("an object").remove("struck");
    assert_eq!(serde_json::from_value::<Fault>(read).unwrap(), lost);
    let (status, active) = ask(&account.emulator, Method::DELETE, "_admin/faults", "").await;
    assert_eq!((status, &active["faults"]), (200, &json!([])));
}

#[tokio::test]
async fn a_seed_repeats_a_run() {
    let mut runs = Vec::new();
    for seed in [5, 5, 6] {
        let account = Account::start().await;
        let rate = json!({ "seed": seed, "faults": [
            { "effects": [{ "status": { "status": 503 } }], "probability": 0.4 },
            { "effects": [{ "status": { "status": 429 } }], "probability": 0.4 },
        ] });
        assert_eq!(change(&account.emulator, &rate).await.0, 200);
        runs.push(statuses_of_reads(&account, 40).await);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
    for status in [404, 429, 503] {
        assert!(runs[0].contains(&status), "{:?}", runs[0]);
    }
}

#[tokio::test]
async fn a_latency_applies_to_its_kind_of_operation() {
    let account = Account::start().await;
    let slow = json!({ "latency": { "fixedMs": 1.5 }, "faults": [{ "kinds": ["create"],
        "effects": [{ "delay": { "uniform": { "minMs": 120, "maxMs": 150 } } }] }] });
    let (status, active) = change(&account.emulator, &slow).await;
    assert_eq!(status, 200, "{active}");
    assert_eq!(active["latency"], json!({ "fixedMs": 1.5 }));
    let started = std::time::Instant::now();
    account.create(&json!({ "id": "a", "pk": "p" })).await;
    let create = started.elapsed().as_millis();
    assert!(create >= 120, "{create} ms");
    let started = std::time::Instant::now();
    statuses_of_reads(&account, 3).await;
    let reads = started.elapsed();
    assert!(reads.as_micros() >= 3 * 1500, "{reads:?}");
}

/// Returns bodies of `/_admin/settings`, and the reasons why they are rejected.
fn invalid_bodies() -> Vec<(String, &'static str)> {
    let good = json!({ "effects": ["dropAnswer"] });
    vec![
        (String::new(), "EOF"),
        ("[]".to_owned(), "expected a map"),
        ("{\"faults\": [".to_owned(), "EOF"),
        (
            json!({ "fault": [] }).to_string(),
            "unknown field `fault`, expected one of `host`, `port`, ",
        ),
        (
            json!({ "seed": -1 }).to_string(),
            "invalid setting `seed`: invalid value",
        ),
        (
            json!({ "seed": 1, "port": 8081 }).to_string(),
            "invalid setting `port`: it is fixed at the start; a running emulator can change seed, ",
        ),
        (
            json!({ "latency": { "fixedMs": -1 } }).to_string(),
            "not a valid duration",
        ),
        (
            json!({ "latency": { "fixedMs": 1e300 } }).to_string(),
            "not a valid duration",
        ),
        (
            json!({ "seed": 9, "latency": { "fixedMs": 999_999 } }).to_string(),
            "at most 10 minutes",
        ),
        (
            json!({ "faults": [good, {}] }).to_string(),
            "missing field `effects`",
        ),
        (
            json!({ "faults": [good, { "effects": [] }] }).to_string(),
            "invalid setting `faults[1]`: a fault needs at least one effect",
        ),
        (
            json!({ "faults": [{ "effects": ["dropEverything"] }] }).to_string(),
            "unknown variant `dropEverything`",
        ),
        (
            json!({ "faults": [{ "effects": ["pass"], "kinds": ["reed"] }] }).to_string(),
            "unknown variant `reed`",
        ),
        (
            json!({ "faults": [{ "effects": [{ "status": { "status": 200 } }] }] }).to_string(),
            "400 to 599",
        ),
        (
            json!({ "faults": [{ "effects": ["pass"], "probability": 2 }] }).to_string(),
            "between 0 and 1",
        ),
    ]
}

#[tokio::test]
async fn an_invalid_body_is_rejected_and_changes_nothing() {
    let emulator = Emulator::start().await.unwrap();
    let (_, before) = ask(&emulator, Method::GET, "_admin/settings", "").await;
    for (body, reason) in invalid_bodies() {
        let (status, answer) = ask(&emulator, Method::POST, "_admin/settings", &body).await;
        assert_eq!(
            (status, &answer["code"]),
            (400, &json!("BadRequest")),
            "{body}"
        );
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.contains(reason), "{body}: {message}");
    }
    let (_, after) = ask(&emulator, Method::GET, "_admin/settings", "").await;
    assert_eq!(after, before);
    let faults = json!([
        after["seed"],
        after["latency"],
        after["faults"],
        after["key"]
    ]);
    assert_eq!(faults, json!([0, { "fixedMs": 0.0 }, [], null]));
}

#[tokio::test]
async fn counters_can_be_read_and_reset() {
    let account = Account::start().await;
    statuses_of_reads(&account, 3).await;
    for _ in 0..2 {
        let (_, log) = ask(&account.emulator, Method::GET, "_admin/requests", "").await;
        assert_eq!(log["counts"], json!({ "read": 3, "metadata": 2 }));
        assert_eq!(log["statuses"], json!({ "201": 2, "404": 3 }));
    }
    let (status, log) = ask(&account.emulator, Method::DELETE, "_admin/requests", "").await;
    assert_eq!((status, &log["counts"]), (200, &json!({})));
    assert_eq!(account.emulator.requests().total(), 0);
}

#[tokio::test]
async fn a_physical_partition_is_split_over_http() {
    let account = Account::start().await;
    let split = async |range: &str| {
        let body = json!({ "database": "db", "container": "c", "range": range }).to_string();
        ask(&account.emulator, Method::POST, "_admin/split", &body).await
    };
    assert_eq!(split("0").await, (200, json!({ "children": ["1", "2"] })));
    let (status, gone) = split("0").await;
    assert_eq!(status, 410, "{gone}");
    let (status, refused) = ask(&account.emulator, Method::POST, "_admin/split", "{}").await;
    assert_eq!(status, 400, "{refused}");
}

#[tokio::test]
async fn unknown_routes_and_methods_are_rejected() {
    let emulator = Emulator::start().await.unwrap();
    for (method, path, status, says) in [
        (Method::GET, "_admin", 404, "/_admin/faults"),
        (Method::GET, "_admin/fault", 404, "/_admin/faults"),
        (Method::GET, "_admin/faults", 405, "DELETE"),
        (Method::PATCH, "_admin/settings", 405, "GET and POST"),
        (Method::POST, "_admin/requests", 405, "GET and DELETE"),
        (Method::GET, "_admin/split", 405, "POST"),
    ] {
        let (answered, body) = ask(&emulator, method, path, "").await;
        let message = body["message"].as_str().unwrap_or_default();
        assert!(
            answered == status && message.contains(says),
            "{path}: {body}"
        );
    }
}

#[tokio::test]
async fn pages_of_other_origins_are_rejected() {
    let emulator = Emulator::start().await.unwrap();
    let url = format!("{}_admin/settings", emulator.endpoint());
    let own = emulator.endpoint().trim_end_matches('/').to_owned();
    for (name, value, status) in [
        // A foreign name that resolves to this machine.
        ("host", "evil.example", 403),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        ("origin", &own, 200),
    ] {
        let request = http_client().post(&url).header(name, value).body("{}");
        let answered = request.send().await.expect("an answer").status();
        assert_eq!(answered, status, "{name}: {value}");
    }
}
