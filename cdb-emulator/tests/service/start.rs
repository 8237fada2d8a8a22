//! Tests of the start and the stop of the emulator.

use std::time::Duration;

use cdb_emulator::{Effect, Emulator, Fault, OperationKind, ReplicaLag, Settings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::account::{Account, http_client};

/// Returns the error of the start with these settings.
async fn refusal(builder: Settings) -> String {
    let started = builder.start().await;
    started.expect_err("it is refused").to_string()
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_reported() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let below = file.path().join("data");
    let said = refusal(Emulator::builder().data_dir(&below)).await;
    let named = said.contains(&below.display().to_string());
    assert!(named && said.contains("can write"), "{said}");
}

#[tokio::test]
async fn invalid_settings_are_rejected_with_the_reason() {
    let of = Emulator::builder;
    let probability = Fault::with_probability(Effect::DropAnswer, 7.0);
    for (builder, reason) in [
        (of().physical_partitions(0), "1 to 1000 physical partitions"),
        (of().physical_partitions(1001), "1 to 1000"),
        (of().throughput(0), "no limit"),
        (of().regions(["West", "West"]), "a name of its own"),
        (of().regions([""]), "a name of its own"),
        (
            of().replica_lag(ReplicaLag::writes(1).with_probability(2.0)),
            "between 0 and 1",
        ),
        (of().latency(Duration::from_secs(601)), "at most 10 minutes"),
        (of().fault(probability), "between 0 and 1"),
        (of().key("no base64!"), "not base64"),
        (of().key(""), "is empty"),
    ] {
        let said = refusal(builder).await;
        assert!(said.contains(reason), "{said}");
    }
}

#[tokio::test]
async fn faults_of_the_builder_apply_from_the_first_request() {
    let refused = Fault::once(Effect::StatusAfterEffect { status: 503 });
    let emulator = Emulator::builder().fault(refused).start().await.unwrap();
    let account = Account::with(emulator, json!({})).await;
    let document = json!({ "id": "a", "pk": "p" });
    account.create(&document).await.is(503);
    account.create(&document).await.is(409);
}

/// Reads the JSON at a URL.
async fn asked_for(url: &str) -> Value {
    let answer = http_client().get(url).send().await.expect("an answer");
    let body = answer.bytes().await.expect("a body");
    serde_json::from_slice(&body).expect("JSON")
}

/// Returns the host and port of an endpoint.
fn address(emulator: &Emulator) -> String {
    emulator.endpoint().replace("http://", "").replace('/', "")
}

#[tokio::test]
async fn stopping_completes_the_requests_in_progress() {
    let late = Effect::Delay(Duration::from_millis(300).into());
    let late = Fault::once(late).on(OperationKind::Metadata);
    let emulator = Emulator::builder().fault(late).start().await.unwrap();
    let address = address(&emulator);
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request).await.unwrap();
    // The fault is removed when it has matched the request.
    let faults = format!("{}_admin/settings", emulator.endpoint());
    while asked_for(&faults).await["faults"] != json!([]) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    emulator.stop().await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert!(TcpStream::connect(address).await.is_err(), "it is gone");
}
