//! Tests of the command: its help, output, exit and errors.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use expect_test::expect_file;

use crate::account::http_client;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cdb-emulator"));
    command.args(arguments);
    command
}

/// Runs the command until it ends and returns its output.
fn ended(arguments: &[&str]) -> Output {
    command(arguments).output().expect("it runs")
}

/// Sends a signal with the shell's builtin `kill`, because a minimal image has no such program.
fn send(signal: &str, child: &Child) {
    let kill = format!("kill {signal} {}", child.id());
    let sent = Command::new("sh").args(["-c", &kill]).status();
    assert!(sent.expect("the shell runs").success());
}

/// A running command, its first line, and its further output. It is killed on drop.
pub(crate) struct Running {
    child: Child,
    first_line: String,
    output: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut child = command(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut first_line = String::new();
        output.read_line(&mut first_line).expect("a line");
        Self {
            child,
            first_line,
            output,
        }
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn endpoint(&self) -> &str {
        let mut words = self.first_line.split_whitespace();
        words.find(|word| word.starts_with("http")).expect("a URL")
    }

    /// Sends a signal, and returns the exit code and the remaining output.
    fn end_by(mut self, signal: &str) -> (Option<i32>, String) {
        send(signal, &self.child);
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        (self.child.wait().expect("it ended").code(), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process can have ended after the signal.
        let _ = self.child.kill();
        // Waiting prevents a zombie; the exit code was checked before.
        let _ = self.child.wait();
    }
}

#[test]
fn the_help_lists_every_option() {
    let output = ended(&["--help"]);
    assert!(output.status.success());
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    expect_file!["command_help.txt"].assert_eq(&help);
}

#[test]
fn invalid_options_are_reported() {
    let missing = "/nowhere/settings.json";
    let malformed = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&malformed, r#"{ "faults": [{ "effects": ["drop"] }] }"#).unwrap();
    let malformed = malformed.path().display().to_string();
    let file = tempfile::NamedTempFile::new().unwrap();
    let no_directory = file.path().join("data").display().to_string();
    for (arguments, code, says) in [
        (&["--prot", "1"][..], 2, "--port"),
        (&["--port", "66000"], 2, "66000"),
        (&["--certificate", "ca.pem"], 2, "--tls"),
        (
            &["--port", "0", "--partitions", "0"],
            1,
            "1 to 1000 physical partitions",
        ),
        (&["--port", "0", "--throughput", "0"], 1, "no limit"),
        (&["--port", "0", "--key", "no base64!"], 1, "base64"),
        (
            &["--settings", missing],
            1,
            "cannot read /nowhere/settings.json",
        ),
        (
            &["--port", "0", "--settings", &malformed],
            1,
            "unknown variant `drop`",
        ),
        (&["--port", "0", "--data", &no_directory], 1, "can write"),
    ] {
        let output = ended(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "it is not ready");
    }
}

#[test]
fn a_port_in_use_is_reported_with_the_remedy() {
    let running = Running::start(&["--port", "0"]);
    let endpoint = running.endpoint().trim_end_matches('/');
    let port = endpoint.rsplit(':').next().expect("a port");
    let output = ended(&["--port", port]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("port {port} is in use")), "{said}");
}

#[cfg(unix)]
#[test]
fn a_closed_output_does_not_stop_the_command() {
    let mut child = command(&["--port", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut first_line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    output.read_line(&mut first_line).expect("a line");
    drop(output);
    send("-TERM", &child);
    assert_eq!(child.wait().expect("it ended").code(), Some(0));
}

#[cfg(unix)]
#[tokio::test]
async fn the_command_serves_until_a_signal() {
    for (signal, count, partitions) in [
        ("-TERM", "3", "3 physical partitions and"),
        ("-INT", "1", "1 physical partition and"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().display().to_string();
        let arguments = ["--port", "0", "--data", &data, "--partitions", count];
        let running = Running::start(&arguments);
        let line = running.first_line.clone();
        for part in [
            "ready after ",
            " ms at http://127.0.0.1:",
            &data,
            partitions,
        ] {
            assert!(line.contains(part), "{line}");
        }
        let answer = http_client().get(running.endpoint()).send().await;
        assert_eq!(answer.expect("an answer").status(), 401);
        let (code, rest) = running.end_by(signal);
        assert_eq!(code, Some(0), "{rest}");
        assert!(
            rest.starts_with("export COSMOS_ENDPOINT=http://127.0.0.1:"),
            "{rest}"
        );
        assert!(rest.contains("\nstopped after 1 requests"), "{rest}");
    }
}

#[cfg(unix)]
#[test]
fn a_second_signal_ends_the_command_at_once() {
    let running = Running::start(&["--port", "0"]);
    let address = running.endpoint().trim_start_matches("http://");
    let address = address.trim_end_matches('/');
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head =
        "POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("it is sent");
    // The server waits for the body, so the request is in progress.
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 100");
    send("-TERM", &running.child);
    // The first signal closes the listener. A second one before that would count as the first.
    while TcpStream::connect(address).is_ok() {}
    let (code, rest) = running.end_by("-TERM");
    assert_eq!(code, Some(1), "{rest}");
    assert!(!rest.contains("stopped after"), "{rest}");
}

#[tokio::test]
async fn settings_are_read_from_and_certificates_written_to_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (faults, certificate) = (file("settings.json"), file("ca.pem"));
    let status = r#"{ "kinds": ["metadata"], "effects": [{ "status": { "status": 503 } }] }"#;
    std::fs::write(
        &faults,
        format!(r#"{{ "faults": [{status}], "physicalPartitions": 3, "throughput": 400 }}"#),
    )
    .unwrap();
    let arguments = [
        "--port",
        "0",
        "--settings",
        &faults,
        "--tls",
        "--certificate",
        &certificate,
        "--partitions",
        "2",
    ];
    let running = Running::start(&arguments);
    let line = &running.first_line;
    let overridden = "2 physical partitions and 400 RU/s";
    assert!(line.contains(overridden), "{line}");
    let pem = std::fs::read(&certificate).unwrap();
    let trusted = vec![reqwest::Certificate::from_pem(&pem).unwrap()];
    // Installs the cryptography provider of the process.
    drop(http_client());
    let client = reqwest::ClientBuilder::new().tls_certs_only(trusted);
    let answer = client.build().unwrap().get(running.endpoint()).send().await;
    assert_eq!(answer.expect("an answer").status(), 503);
}
