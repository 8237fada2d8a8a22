//! Completions that a shell asks for, as its script does.

use std::process::{Command, Output};

use crate::fixture;
use crate::harness::Account;

/// Completes the last word of a line as the script of fish does.
fn complete(endpoint: &str, words: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let variables = format!(
        "COSMOS_ENDPOINT={endpoint}\nCOSMOS_DATABASE=duroxide\nCOSMOS_CONTAINER=duroxide\n"
    );
    std::fs::write(folder.path().join(".env"), variables).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cdb"));
    command
        .env_clear()
        .env("COMPLETE", "fish")
        .current_dir(folder.path())
        .args(["--", "cdb"])
        .args(words);
    command.output().expect("it runs")
}

async fn completed(endpoint: &str, words: &'static [&'static str]) -> String {
    let endpoint = endpoint.to_owned();
    let output = tokio::task::spawn_blocking(move || complete(&endpoint, words));
    let output = output.await.expect("it ends");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_of_the_account_of_the_environment_complete_a_line() {
    let account = Account::start().await;
    let container = fixture::fill(&account).await;
    fixture::dead_intent(&container).await;
    fixture::members(&container).await;
    let endpoint = account.emulator.endpoint();
    let shown = completed(&endpoint, &["instances", "show", "ord"]).await;
    let expected = [
        "order-3\tOrder, Failed",
        "order-2::sub::4\tShip, Running",
        "order-2\tOrder, Running",
        "order-1\tOrder, Completed",
    ];
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected);
    let started = completed(&endpoint, &["instances", "list", "--orchestration", "S"]).await;
    assert_eq!(started, "Ship\n");
    let letters = completed(&endpoint, &["deadletters", "redrive", "i"]).await;
    assert_eq!(letters, "intent-turn-1@order-3\n");
    let groups = completed(&endpoint, &["members", "--group", "cdb"]).await;
    assert_eq!(groups, "cdb:members\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_without_an_account_shows_options_and_no_error() {
    let shown = completed("nonsense", &["instances", "sh"]).await;
    assert!(shown.starts_with("show\t"), "{shown}");
    assert_eq!(
        completed("nonsense", &["instances", "show", "ord"]).await,
        ""
    );
}
