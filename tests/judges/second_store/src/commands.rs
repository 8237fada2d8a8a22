//! The demo and the `cdb` command, as tests.

use std::fs::{self, File};
use std::path::Path;

use tokio::process::Command;

use crate::outcome::{Outcome, Ran};

/// The container of the demo, and the copy that `cdb import` makes of it.
const CONTAINERS: [&str; 2] = ["demo", "copy"];

/// Runs the demo, then commands on its container; `cargo` makes a command with the account in its
/// environment.
pub(crate) async fn run(
    cargo: impl Fn() -> Command,
    folder: &Path,
    log: &File,
) -> Result<Vec<Ran>, String> {
    let exported = folder.join("demo.jsonl");
    let again = folder.join("copy.jsonl");
    for former in [&exported, &again] {
        // The first run finds none.
        let _absent = fs::remove_file(former);
    }
    let [demo, copy] = CONTAINERS;
    let paths = [exported.to_string_lossy(), again.to_string_lossy()];
    let [exported_path, again_path] = &paths;
    let steps: [(&str, &str, &[&str]); 7] = [
        ("demo", demo, &["demo"]),
        ("doctor", demo, &["doctor"]),
        ("policy_check", demo, &["policy", "check"]),
        ("policy_apply", demo, &["policy", "apply"]),
        ("export", demo, &["export", "--out", exported_path]),
        ("import", copy, &["import", "--create", exported_path]),
        ("export_of_the_copy", copy, &["export", "--out", again_path]),
    ];
    let mut ran = Vec::new();
    for (name, container, arguments) in steps {
        let mut command = cargo();
        if arguments != ["demo"] {
            command.args(["run", "--quiet", "-p", "cdb-cli", "--bin", "cdb", "--"]);
        }
        command.args(arguments).env("COSMOS_CONTAINER", container);
        let failed = |error: std::io::Error| format!("{name}: {error}");
        command.stdout(log.try_clone().map_err(failed)?);
        command.stderr(log.try_clone().map_err(failed)?);
        let status = command.status().await.map_err(failed)?;
        ran.push(outcome(name, status.success()));
    }
    let is_equal = match (documents(&exported), documents(&again)) {
        (Some(documents), Some(copied)) => !documents.is_empty() && documents == copied,
        _ => false,
    };
    ran.push(outcome("the_copy_is_equal", is_equal));
    Ok(ran)
}

fn outcome(name: &str, passed: bool) -> Ran {
    let outcome = if passed {
        Outcome::Passed
    } else {
        Outcome::Failed
    };
    let name = name.to_owned();
    Ran { name, outcome }
}

/// Returns the exported lines in a defined order.
fn documents(path: &Path) -> Option<Vec<String>> {
    let text = fs::read_to_string(path).ok()?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    Some(lines)
}
