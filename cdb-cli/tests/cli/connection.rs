//! The options that select an account, and the errors of a wrong account, key or token.

use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cdb_cli::{Cli, Exit};
use cdb_emulator::{DataRole, Effect, Emulator, Fault, OperationKind};
use cdb_provider::documents::Durable;

use crate::harness::{Account, cdb, ends, run};

#[tokio::test]
async fn an_account_that_does_not_answer_is_a_service_error() {
    let gone = Account::empty().await;
    let endpoint = gone.emulator.endpoint();
    gone.emulator.stop().await;
    let run = cdb(&["policy", "check", "--endpoint", &endpoint, "--timeout", "1"]).await;
    assert_eq!(run.exit, Exit::Service, "{run:?}");
    run.complains(&format!("nothing listens at {endpoint}"));
}

#[tokio::test]
async fn a_missing_container_is_an_error_with_a_remedy() {
    let account = Account::empty().await;
    for command in [
        &["instances", "list"][..],
        &["queues"],
        &["messages", "list"],
    ] {
        let run = ends(Exit::Service, account.cdb(command)).await;
        run.complains("cdb policy apply --create");
    }
    let run = ends(Exit::Usage, cdb("queues --endpoint my-account")).await;
    run.complains("`my-account` is not a URL");
    run.complains("`https://account.");
}

/// A pipe that the reader has closed.
struct ClosedPipe;

impl std::io::Write for ClosedPipe {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_closed_standard_output_is_not_an_error() {
    for arguments in [&["cdb", "completions", "bash"][..], &["cdb", "model"]] {
        let mut err = Vec::new();
        let run = Cli::<Durable>::new("duroxide");
        let exit = run.run_with(arguments, &mut ClosedPipe, &mut err).await;
        assert_eq!((exit, &*err), (Exit::Ok, &[][..]), "{arguments:?}");
    }
}

#[tokio::test]
async fn an_unavailable_service_is_not_reported_as_unreachable() {
    let unavailable = Fault::always(Effect::error(503, 0))
        .on(OperationKind::Metadata)
        .on(OperationKind::Read);
    let emulator = Emulator::builder().fault(unavailable).start().await;
    let emulator = emulator.expect("the emulator starts");
    let account = Account { emulator };
    let run = ends(Exit::Service, account.cdb("queues --timeout 1")).await;
    assert!(
        run.err.contains("with a longer --timeout") && !run.err.contains("firewall"),
        "{run:?}"
    );
}

#[tokio::test]
async fn the_timeout_also_ends_the_opening_of_a_throttled_container() {
    let throttled = Fault::always(Effect::error(429, 3200)).on(OperationKind::Metadata);
    let emulator = Emulator::builder().fault(throttled).start().await;
    let emulator = emulator.expect("the emulator starts");
    let account = Account { emulator };
    let begun = std::time::Instant::now();
    let run = ends(Exit::Service, account.cdb("queues --timeout 1")).await;
    // By default a container is opened for 80 s.
    let taken = begun.elapsed();
    assert!(taken < Duration::from_secs(40), "{taken:?}: {run:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_record_of_a_change_without_an_operator_is_remarked() {
    let account = Account::start().await;
    let endpoint = account.emulator.endpoint();
    let limit = |user: Option<&str>, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cdb"));
        command.args(["limits", "set", "*", "--running", "1"]);
        command.args(["--endpoint", &endpoint]).args(more);
        command.env_remove("USER").env_remove("USERNAME");
        for name in ["USER", "USERNAME"] {
            command.envs(user.map(|user| (name, user)));
        }
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    let remark = "`unknown`; pass --by NAME";
    assert!(limit(None, &[]).contains(remark));
    for remarked in [
        limit(Some("ada"), &[]),
        limit(None, &["--by", "ada"]),
        limit(None, &["--dry-run"]),
    ] {
        assert_eq!(remarked, "");
    }
}

#[tokio::test]
async fn a_wrong_key_is_a_service_error_that_does_not_show_the_key() {
    let account = Account::start().await;
    let endpoint = account.emulator.endpoint();
    let key =
        "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZg==";
    let run = cdb(&["policy", "check", "--endpoint", &endpoint, "--key", key]).await;
    assert_eq!(run.exit, Exit::Service, "{run:?}");
    assert!(
        run.err.contains("refuses the key") && !run.err.contains(key),
        "{run:?}"
    );
    let doctor = cdb(&["doctor", "--endpoint", &endpoint, "--key", key]).await;
    for (text, whole) in [(&run.err, &run), (&doctor.out, &doctor)] {
        assert!(text.contains("leave out --key"), "{whole:?}");
        assert!(!text.contains("portal"), "{whole:?}");
    }
}

#[tokio::test]
async fn an_invalid_key_is_a_usage_error_that_does_not_show_the_key() {
    let run = cdb("policy check --endpoint http://localhost:1 --key hunter2!").await;
    assert_eq!(run.exit, Exit::Usage, "{run:?}");
    assert!(!run.err.contains("hunter2"), "{run:?}");
}

#[tokio::test]
async fn a_key_given_as_the_endpoint_is_a_usage_error_that_does_not_show_the_key() {
    let key = cdb_emulator::WELL_KNOWN_KEY;
    for account in [["--endpoint", key], ["--connection-string", key]] {
        let run = cdb(&[&["policy", "check"][..], &account].concat()).await;
        assert_eq!(run.exit, Exit::Usage, "{run:?}");
        assert!(!run.err.contains(key), "{run:?}");
    }
}

#[tokio::test]
async fn a_connection_string_alone_selects_an_account() {
    let account = Account::start().await;
    let (endpoint, key) = (account.emulator.endpoint(), account.emulator.key());
    // Explicit options override environment variables of the test process.
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
        &Cli::<Durable>::new("duroxide"),
        &arguments,
        &["--database", "duroxide", "--container", "duroxide"],
    )
    .await;
    assert_eq!(run.exit, Exit::Ok, "{run:?}");
}

/// Starts an account with an identity and the provider's container.
async fn with_identity() -> Account {
    let builder = Emulator::builder().identity("operator", DataRole::DataContributor);
    let emulator = builder.start().await.expect("the emulator starts");
    let account = Account { emulator };
    account.container::<Durable>().await;
    account
}

#[cfg(unix)]
#[tokio::test]
async fn a_token_command_runs_again_when_the_service_rejects_its_token() {
    let account = with_identity().await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let token = account
        .emulator
        .entra_token("operator", Duration::from_secs(3600));
    std::fs::write(path("good"), token).expect("it is written");
    std::fs::write(path("token"), "a.spoiled.token").expect("it is written");
    // Prints a spoiled token, then good tokens, and counts its runs.
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
async fn a_token_replaces_the_key_but_cannot_create_containers() {
    let account = with_identity().await;
    let lifetime = Duration::from_secs(3600);
    let token = account.emulator.entra_token("operator", lifetime);
    let list = ["messages", "list", "--token", &token];
    let run = account.cdb(&list).await;
    assert_eq!(
        (run.exit, &*run.out),
        (Exit::Ok, "no message is dead or retried\n"),
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
async fn a_failed_token_command_is_reported_without_itself_and_its_output() {
    let account = with_identity().await;
    let command = "echo hunter2; echo hunter2 >&2; exit 1";
    for words in [&["queues"][..], &["queues", "--json"]] {
        let words = [words, &["--token-command", command]].concat();
        let run = ends(Exit::Service, account.cdb(&words)).await;
        run.complains("COSMOS_TOKEN_COMMAND) returned no token: exit status: 1");
        run.complains("sign in again for a new token");
        assert!(!run.err.contains("hunter2"), "{run:?}");
    }
}

#[test]
fn variables_are_read_from_a_file_and_its_lines_are_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |file: &str| {
        std::fs::write(folder.path().join(".env"), file).expect("a file");
        let mut command = Command::new(env!("CARGO_BIN_EXE_cdb"));
        command
            .args(["policy", "diff"])
            .current_dir(folder.path())
            .env_remove("COSMOS_ENDPOINT");
        command.output().expect("it runs")
    };
    let read = run("COSMOS_ENDPOINT=ftp://orders\nCOSMOS_KEY=c2VjcmV0\n");
    assert!(
        String::from_utf8_lossy(&read.stderr).contains("ftp://orders"),
        "{read:?}"
    );
    let refused = run("COSMOS_KEY hunter2\n");
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        error.contains("a line is not NAME=VALUE") && !error.contains("hunter2"),
        "{error}"
    );
}

/// The command `cdb` in `folder`, whose environment names no account.
fn in_folder(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cdb"));
    command.args(arguments).current_dir(folder);
    for variable in [
        "COSMOS_ENDPOINT",
        "COSMOS_KEY",
        "COSMOS_CONNECTION_STRING",
        "COSMOS_TOKEN",
        "COSMOS_TOKEN_COMMAND",
    ] {
        command.env_remove(variable);
    }
    command
}

#[cfg(unix)]
#[test]
fn a_token_command_is_not_read_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let file =
        format!("COSMOS_ENDPOINT={endpoint}\nCOSMOS_TOKEN_COMMAND=\"touch ran; echo a.b.c\"\n");
    std::fs::write(folder.join(".env"), file).expect("a file");
    let ran = folder.join("ran");
    let queues = in_folder(folder, &["queues", "--timeout", "1"]).output();
    assert!(!ran.exists(), "{queues:?}");
    let arguments = ["queues", "--timeout", "1", "--endpoint", &endpoint];
    let mut trusted = in_folder(folder, &arguments);
    trusted.env("COSMOS_TOKEN_COMMAND", "touch ran; echo a.b.c");
    let queues = trusted.output();
    assert!(ran.exists(), "{queues:?}");
}

#[test]
fn a_credential_is_not_sent_to_the_endpoint_of_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let write = |file: &str| std::fs::write(folder.join(".env"), file).expect("a file");
    let key = cdb_emulator::WELL_KNOWN_KEY;
    let string = format!("AccountEndpoint=https://nowhere.invalid;AccountKey={key};");
    for (file, (variable, value)) in [
        (
            format!("COSMOS_ENDPOINT={endpoint}"),
            ("COSMOS_TOKEN", "a.b.c"),
        ),
        (
            format!("COSMOS_ENDPOINT={endpoint}\nCOSMOS_TOKEN=d.e.f"),
            ("COSMOS_TOKEN", "a.b.c"),
        ),
        (
            format!("COSMOS_ENDPOINT={endpoint}"),
            ("COSMOS_TOKEN_COMMAND", "echo a.b.c"),
        ),
        (format!("COSMOS_ENDPOINT={endpoint}"), ("COSMOS_KEY", key)),
        (
            format!("COSMOS_ENDPOINT={endpoint}"),
            ("COSMOS_CONNECTION_STRING", &string),
        ),
        (
            format!("COSMOS_CONNECTION_STRING=AccountEndpoint={endpoint}"),
            ("COSMOS_KEY", key),
        ),
        // A variable of the environment in the file.
        (
            format!("COSMOS_ENDPOINT={endpoint}\nCOSMOS_TOKEN=${{SECRET}}"),
            ("SECRET", "a.b.c"),
        ),
    ] {
        write(&file);
        let mut command = in_folder(folder, &["queues", "--timeout", "1"]);
        let run = command.env(variable, value).output().expect("it runs");
        assert_eq!(run.status.code(), Some(2), "{variable}: {run:?}");
        let error = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(error.contains("`.env`"), "{error}");
        while let Ok((mut connection, _)) = listener.accept() {
            // A check of the port may open a connection, but sends nothing.
            let mut request = String::new();
            connection.set_nonblocking(false).expect("a socket");
            connection.read_to_string(&mut request).expect("a request");
            assert_eq!(request, "", "{variable}");
        }
    }
    // Both in the file, or the endpoint from the user.
    write(&format!("COSMOS_ENDPOINT={endpoint}\nCOSMOS_KEY={key}\n"));
    drop(listener);
    let run = in_folder(folder, &["queues", "--timeout", "1"]).output();
    assert_eq!(run.expect("it runs").status.code(), Some(3));
    let mut command = in_folder(
        folder,
        &["queues", "--timeout", "1", "--endpoint", &endpoint],
    );
    let run = command.env("COSMOS_TOKEN", "a.b.c").output();
    assert_eq!(run.expect("it runs").status.code(), Some(3));
}
