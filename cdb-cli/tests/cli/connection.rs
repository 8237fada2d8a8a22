//! How the command finds its account, and what it says when it does not.

use std::time::Duration;

use cdb_cli::{Cli, Exit};
use cdb_emulator::{DataRole, Emulator};
use cdb_provider::documents::Durable;

use crate::harness::{Account, cdb, run};

#[tokio::test]
async fn an_account_that_does_not_answer_is_a_service_error() {
    let gone = Account::empty().await;
    let endpoint = gone.emulator.endpoint();
    gone.emulator.stop().await;
    let run = cdb(&["policy", "check", "--endpoint", &endpoint, "--timeout", "1"]).await;
    assert_eq!(run.exit, Exit::Service, "{run:?}");
    assert!(
        run.err.contains(&format!("nothing listens at {endpoint}")),
        "{run:?}"
    );
}

#[tokio::test]
async fn a_container_that_is_not_there_is_named_with_its_remedy() {
    let account = Account::empty().await;
    for command in [
        &["instances", "list"][..],
        &["queues"],
        &["deadletters", "list"],
    ] {
        let run = account.cdb(command).await;
        assert_eq!(run.exit, Exit::Service, "{run:?}");
        assert!(run.err.contains("cdb policy apply --create"), "{run:?}");
    }
    let run = cdb(&["queues", "--endpoint", "my-account"]).await;
    assert_eq!(run.exit, Exit::Usage, "{run:?}");
    assert!(
        run.err.contains("`my-account` is not a URL") && run.err.contains("`https://account."),
        "{run:?}"
    );
}

/// A pipe whose reader has gone.
struct Gone;

impl std::io::Write for Gone {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_is_no_error() {
    for arguments in [&["cdb", "completions", "bash"][..], &["cdb", "model"]] {
        let mut err = Vec::new();
        let run = Cli::<Durable>::new();
        let exit = run.run_with(arguments, &mut Gone, &mut err).await;
        assert_eq!((exit, &*err), (Exit::Ok, &[][..]), "{arguments:?}");
    }
}

#[tokio::test]
async fn a_service_that_is_there_and_busy_is_not_looked_for() {
    let unavailable = r#"{ "faults": [{ "kinds": ["metadata", "read"], "effects": [{ "status": { "status": 503 } }] }] }"#;
    let plan = serde_json::from_str(unavailable).expect("a plan");
    let emulator = Emulator::builder().faults(plan).start().await;
    let emulator = emulator.expect("the emulator starts");
    let account = Account { emulator };
    let run = account.cdb(&["queues", "--timeout", "1"]).await;
    assert_eq!(run.exit, Exit::Service, "{run:?}");
    assert!(
        run.err.contains("with a longer --timeout") && !run.err.contains("firewall"),
        "{run:?}"
    );
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
async fn a_key_in_the_place_of_the_endpoint_is_a_usage_error_and_is_not_shown() {
    let key = cdb_emulator::WELL_KNOWN_KEY;
    for account in [["--endpoint", key], ["--connection-string", key]] {
        let run = cdb(&[&["policy", "check"][..], &account].concat()).await;
        assert_eq!(run.exit, Exit::Usage, "{run:?}");
        assert!(!run.err.contains(key), "{run:?}");
    }
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

/// An account that knows an identity, with the provider's container.
async fn with_identity() -> Account {
    let builder = Emulator::builder().identity("operator", DataRole::DataContributor);
    let emulator = builder.start().await.expect("the emulator starts");
    let account = Account { emulator };
    account.container::<Durable>().await;
    account
}

#[cfg(unix)]
#[tokio::test]
async fn a_token_command_runs_once_and_again_when_its_token_is_refused() {
    let account = with_identity().await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let token = account
        .emulator
        .entra_token("operator", Duration::from_secs(3600));
    std::fs::write(path("good"), token).expect("it is written");
    std::fs::write(path("token"), "a.spoiled.token").expect("it is written");
    // Writes a spoiled token, then good ones, and counts.
    let command = format!(
        "echo run >> {runs}; cat {token}; cp {good} {token}",
        runs = path("runs"),
        token = path("token"),
        good = path("good"),
    );
    let run = account.cdb(&["doctor", "--token-command", &command]).await;
    assert_eq!(run.exit, Exit::Ok, "{run:?}");
    let runs = std::fs::read_to_string(path("runs")).expect("it ran");
    assert_eq!(runs.lines().count(), 2, "once for each token");
}

#[tokio::test]
async fn a_token_is_enough_and_what_its_owner_may_not_do_is_said() {
    let account = with_identity().await;
    let lifetime = Duration::from_secs(3600);
    let token = account.emulator.entra_token("operator", lifetime);
    let list = ["deadletters", "list", "--token", &token];
    let run = account.cdb(&list).await;
    assert_eq!(
        (run.exit, &*run.out),
        (Exit::Ok, "no dead letters\n"),
        "{run:?}"
    );
    let apply = [
        "policy",
        "apply",
        "--create",
        "--container",
        "other",
        "--token",
        &token,
    ];
    let endpoint = account.emulator.endpoint();
    let run = cdb(&[&apply[..], &["--endpoint", &endpoint]].concat()).await;
    assert_eq!(run.exit, Exit::Service, "{run:?}");
    assert!(!run.err.contains(&token), "{run:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_token_command_that_fails_is_told_in_its_own_words() {
    let account = with_identity().await;
    let command = "echo Please run 'az login' to set up account. >&2; exit 1";
    let run = account.cdb(&["queues", "--token-command", command]).await;
    assert_eq!(run.exit, Exit::Service, "{run:?}");
    assert!(run.err.contains("Please run az login"), "{run:?}");
}
