//! `cdb emulator`, in a child process.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use cdb_model::Container as _;
use cdb_provider::documents::Durable;

#[cfg(unix)]
#[test]
fn the_emulator_runs_until_sigterm() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_cdb"))
        .args(["emulator", "--port", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    // The shell's built-in `kill`: a minimal image has no such program.
    let kill = format!("kill -TERM {}", child.id());
    let sent = Command::new("sh").args(["-c", &kill]).status();
    assert!(sent.expect("the shell runs").success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    assert!(
        line.starts_with("ready after ") && line.contains("http://127.0.0.1:"),
        "{line}"
    );
    let (connect, end) = rest.split_once('\n').expect("two lines");
    assert!(
        connect.starts_with("export COSMOS_ENDPOINT=http://127.0.0.1:")
            && connect.contains(" COSMOS_KEY="),
        "{connect}"
    );
    assert!(end.starts_with("stopped after 0 requests"), "{end}");
}

#[test]
fn an_invalid_option_is_a_usage_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_cdb"))
        .args(["emulator", "--port", "0", "--partitions", "0"])
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        error.starts_with("cdb: ") && error.contains("1 to 1000 physical partitions"),
        "{error}"
    );
}

#[test]
fn the_explorer_knows_every_type_of_the_provider() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../cdb-emulator/src/explorer/system.rs"
    );
    let known = std::fs::read_to_string(path).expect("the list");
    for document in Durable::DOCUMENTS {
        let line = format!("    \"{}\",\n", document.discriminator);
        assert!(known.contains(&line), "{path} lacks {line}");
    }
}
