//! How the command finds its account, and what it says when it does not.

use cdb_cli::{Cli, Exit};
use cdb_provider::documents::Durable;

use crate::harness::{Account, cdb, run};

#[tokio::test]
async fn an_account_that_does_not_answer_is_a_service_error() {
    let gone = Account::empty().await;
    let endpoint = gone.emulator.endpoint();
    gone.emulator.stop().await;
    let run = cdb(&["policy", "check", "--endpoint", &endpoint, "--timeout", "1"]).await;
    assert_eq!(run.exit, Exit::Service, "{run:?}");
    assert!(run.err.contains("read container"), "{run:?}");
}

#[tokio::test]
async fn a_wrong_key_is_a_service_error_and_is_not_shown() {
    let account = Account::start().await;
    let endpoint = account.emulator.endpoint();
    let key =
        "bm90IHRoZSBrZXkgYW5kIG5vYm9keXMga2V5IGF0IGFsbDogc2l4dHktZm91ciBieXRlcyBvZiBub3RoaW5nIQ==";
    let run = cdb(&["policy", "check", "--endpoint", &endpoint, "--key", key]).await;
    assert_eq!(run.exit, Exit::Service, "{run:?}");
    assert!(
        run.err.contains("refuses the key") && !run.err.contains(key),
        "{run:?}"
    );
}

#[tokio::test]
async fn a_key_that_is_none_is_a_usage_error_and_is_not_shown() {
    let run = cdb(&[
        "policy",
        "check",
        "--endpoint",
        "http://localhost:1",
        "--key",
        "hunter2!",
    ])
    .await;
    assert_eq!(run.exit, Exit::Usage, "{run:?}");
    assert!(!run.err.contains("hunter2"), "{run:?}");
}

#[tokio::test]
async fn a_connection_string_is_enough() {
    let account = Account::start().await;
    let (endpoint, key) = (account.emulator.endpoint(), account.emulator.key());
    // Explicit options win over variables that may be set where this test runs.
    let string = format!("AccountEndpoint=https://nowhere.invalid/;AccountKey={key};");
    let arguments = [
        "policy",
        "check",
        "--connection-string",
        &string,
        "--endpoint",
        &endpoint,
    ];
    let run = run(
        &Cli::<Durable>::new(),
        &arguments,
        &["--database", "duroxide", "--container", "duroxide"],
    )
    .await;
    assert_eq!(run.exit, Exit::Ok, "{run:?}");
}
