//! The suites: what each runs.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use cdb_second_store::{Host, KEY, Partitions};
use tokio::process::Command;

use crate::commands;
use crate::outcome::{self, Outcome, Ran};

/// A suite, which runs on an account of its own.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// What the table calls it.
    pub(crate) title: &'static str,
    /// Of each container. The provider's suites expect the order of one.
    partitions: Partitions,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// `cargo test` with these arguments, and those of the test programs.
    Tests(&'static [&'static str], &'static [&'static str]),
    /// The demo and the `cdb` command.
    Commands,
}

pub(crate) const SUITES: [Suite; 6] = [
    Suite {
        name: "validation",
        title: "duroxide's provider validation",
        partitions: Partitions::One,
        kind: Kind::Tests(&["-p", "cdb-tests", "--test", "suite"], &["validation::"]),
    },
    Suite {
        name: "suite",
        title: "`tests/suite`, the rest",
        partitions: Partitions::One,
        kind: Kind::Tests(
            &["-p", "cdb-tests", "--test", "suite"],
            &["--skip", "validation::"],
        ),
    },
    Suite {
        name: "client",
        title: "`cdb-client`",
        partitions: Partitions::Four,
        kind: Kind::Tests(&["-p", "cdb-client", "--test", "service"], &[]),
    },
    Suite {
        name: "coordination",
        title: "`cdb-coordination`",
        partitions: Partitions::Four,
        kind: Kind::Tests(&["-p", "cdb-coordination", "--test", "*"], &[]),
    },
    Suite {
        name: "work",
        title: "`cdb-work`",
        partitions: Partitions::One,
        kind: Kind::Tests(&["-p", "cdb-work", "--test", "*"], &[]),
    },
    Suite {
        name: "commands",
        title: "`cargo demo`, `cdb`",
        partitions: Partitions::Four,
        kind: Kind::Commands,
    },
];

impl Suite {
    /// Runs it. Returns the outcomes of its tests.
    ///
    /// # Errors
    /// It does not compile or start.
    pub(crate) async fn run(&self, root: &Path) -> Result<Vec<Ran>, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.name);
        let host = Host::start(self.partitions).await.map_err(failed)?;
        let logs = root.join("target/second-store");
        fs::create_dir_all(&logs).map_err(failed)?;
        let log = logs.join(format!("{}.log", self.name));
        println!("{}: its output is in {}", self.name, log.display());
        let file = File::create(&log).map_err(failed)?;
        let ran = match self.kind {
            Kind::Tests(cargo, tests) => {
                let mut command = command(root, &host);
                command.args(["test", "--no-fail-fast"]).args(cargo);
                command.arg("--").args(tests);
                command.args(["--show-output", "--test-threads", "4"]);
                command
                    .stderr(file.try_clone().map_err(failed)?)
                    .stdout(file);
                command.status().await.map_err(failed)?;
                let output = fs::read(&log).map_err(failed)?;
                outcome::read(&String::from_utf8_lossy(&output))
            }
            Kind::Commands => commands::run(|| command(root, &host), &logs, &file).await?,
        };
        if ran.is_empty() {
            return Err(format!("{}: no test ran; see {}", self.name, log.display()));
        }
        let failures = ran.iter().filter(|test| test.outcome == Outcome::Failed);
        println!(
            "{}: {} tests, {} failed",
            self.name,
            ran.len(),
            failures.count()
        );
        Ok(ran)
    }
}

/// Returns `cargo` with the account in its environment.
fn command(root: &Path, host: &Host) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(root)
        .env("COSMOS_ENDPOINT", host.endpoint())
        .env("COSMOS_KEY", KEY)
        .env("RUST_LOG", "off")
        .env("COSMOS_ANY_DATE", "1")
        .env_remove("COSMOS_CONNECTION_STRING")
        .stdin(Stdio::null());
    command
}
