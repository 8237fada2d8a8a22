//! The memory and the speed of an emulator whose container has many physical partitions.
//!
//! `cargo test -p cdb-emulator --test service many_partitions -- --nocapture` prints them.

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};

use crate::account::{Account, Request};
use crate::command::Running;

const DOCUMENTS: u32 = 1000;

/// The measured emulator, and an account whose key signs its requests.
struct Measured {
    process: Running,
    account: Account,
}

impl Measured {
    /// Starts an emulator with a container of this many partitions.
    async fn start(partitions: u32) -> Self {
        let partitions = partitions.to_string();
        let arguments = ["--port", "0", "--partitions", &*partitions];
        let measured = Self {
            process: Running::start(&arguments),
            account: Account::start().await,
        };
        let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
        let container = json!({ "id": "c", "partitionKey": key });
        measured
            .post(("dbs", ""), "dbs", &[], &json!({ "id": "db" }))
            .await;
        measured
            .post(("colls", "dbs/db"), "dbs/db/colls", &[], &container)
            .await;
        measured
    }

    async fn post(
        &self,
        resource: (&str, &str),
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Value {
        let request = Request::new(Method::POST, resource, path)
            .headers(headers)
            .body(body);
        let answer = self
            .account
            .send_to(self.process.endpoint(), &request)
            .await;
        assert!(answer.status < 300, "{}", answer.body);
        answer.body
    }

    async fn documents(&self, headers: &[(&str, &str)], body: &Value) -> Value {
        let container = "dbs/db/colls/c";
        self.post(("docs", container), "dbs/db/colls/c/docs", headers, body)
            .await
    }

    /// Returns the resident memory of the process in KB.
    fn memory(&self) -> u64 {
        let file = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(file).expect("a status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let mut words = line.expect("a size").split_whitespace();
        words.next().expect("a number").parse().expect("a number")
    }
}

/// Creates documents and queries every partition. Returns the memory, and the mean time of a
/// creation.
async fn measure(partitions: u32) -> (u64, Duration) {
    let measured = Measured::start(partitions).await;
    let begun = Instant::now();
    for n in 0..DOCUMENTS {
        let key = json!([n]).to_string();
        let document = json!({ "id": n.to_string(), "pk": n, "text": "x".repeat(200) });
        let headers = [("x-ms-documentdb-partitionkey", &*key)];
        measured.documents(&headers, &document).await;
    }
    let time = begun.elapsed() / DOCUMENTS;
    let mut found = 0;
    for range in 0..partitions {
        let range = range.to_string();
        let headers = [
            ("x-ms-documentdb-partitionkeyrangeid", &*range),
            ("x-ms-documentdb-isquery", "True"),
        ];
        let query = json!({ "query": "SELECT VALUE COUNT(1) FROM c" });
        let count = measured.documents(&headers, &query).await;
        found += count["Documents"][0].as_u64().expect("a count");
    }
    assert_eq!(
        found,
        u64::from(DOCUMENTS),
        "every document is in one partition"
    );
    let memory = measured.memory();
    eprintln!("{partitions} partitions: {memory} KB, {time:?} per creation");
    (memory, time)
}

#[tokio::test]
async fn a_hundred_partitions_need_little_more_memory_than_one() {
    let (one, _) = measure(1).await;
    let (hundred, _) = measure(100).await;
    assert!(hundred < one + 8 * 1024, "{one} KB and {hundred} KB");
}
