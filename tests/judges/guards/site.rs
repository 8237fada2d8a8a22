//! A copy of the source in `target/guards`, which the mutants change, and the searches in it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::mutant::Search;
use crate::weave::CHOSEN;

/// How often a running search is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What a search has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Fault,
    Nothing,
    /// It had not ended in its time: a fault, perhaps an endless wait, but one that needs a look.
    Time,
}

#[derive(Debug)]
pub(crate) struct Site {
    source: PathBuf,
    copy: PathBuf,
    build: PathBuf,
}

impl Site {
    pub(crate) fn of(source: PathBuf) -> Self {
        let folder = source.join("target/guards");
        Self {
            source,
            copy: folder.join("source"),
            build: folder.join("build"),
        }
    }

    /// Makes the copy equal to the files that git knows, with their uncommitted changes. Equal files keep their
    /// times, so that cargo rebuilds only what changed.
    ///
    /// # Errors
    /// When git or the disk fails.
    pub(crate) fn restore(&self) -> Result<(), String> {
        let mut list = Command::new("git");
        list.args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(&self.source);
        let listed = list.output().map_err(|error| format!("git: {error}"))?;
        if !listed.status.success() {
            return Err(String::from_utf8_lossy(&listed.stderr).into_owned());
        }
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for file in listed.split('\0').filter(|file| !file.is_empty()) {
            // A file that was deleted and is still listed is not part of the source.
            if let Ok(content) = fs::read(self.source.join(file)) {
                self.write(Path::new(file), &content)?;
            }
        }
        Ok(())
    }

    /// Writes a file of the copy, unless it is equal.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn write(&self, file: &Path, content: &[u8]) -> Result<(), String> {
        let file = self.copy.join(file);
        if fs::read(&file).is_ok_and(|is| is == content) {
            return Ok(());
        }
        let failed = |error| format!("{}: {error}", file.display());
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::write(&file, content).map_err(failed)
    }

    /// Builds what a search runs, and returns its program. Incremental and without debug information, for the mutants
    /// with a build of their own.
    ///
    /// # Errors
    /// When the source does not compile: it is no mutant.
    pub(crate) fn program(&self, search: &Search) -> Result<PathBuf, String> {
        let mut cargo = Command::new("cargo");
        match search {
            Search::Test {
                package, target, ..
            } => {
                cargo.args(["test", "--no-run", "--package", package]);
                match target.as_str() {
                    "lib" => cargo.arg("--lib"),
                    target => cargo.args(["--test", target]),
                };
            }
            Search::Simulate(_) => {
                cargo.args(["build", "--release", "--package", "cdb-simulation"]);
            }
        }
        cargo
            .args(["--locked", "--quiet", "--message-format", "json"])
            .arg("--target-dir")
            .arg(&self.build)
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .current_dir(&self.copy)
            .stderr(Stdio::null());
        let built = cargo.output().map_err(|error| format!("cargo: {error}"))?;
        let messages = String::from_utf8_lossy(&built.stdout).into_owned();
        let messages = messages.lines().filter_map(|line| {
            let message: Option<serde_json::Value> = serde_json::from_str(line).ok();
            message
        });
        let (mut program, mut errors) = (None, String::new());
        for message in messages {
            if message["message"]["level"] == "error" {
                errors += message["message"]["rendered"].as_str().unwrap_or_default();
            }
            if let Some(executable) = message["executable"].as_str() {
                program = Some(PathBuf::from(executable));
            }
        }
        program
            .filter(|_| built.status.success())
            .ok_or(format!("it does not compile\n{errors}"))
    }

    /// Runs a search for at most this time, with the chosen mutant. Returns what it has found, and the processor time
    /// that it took.
    ///
    /// # Errors
    /// When the program cannot be run, or has no test of that name.
    pub(crate) fn search(
        &self,
        search: &Search,
        program: &Path,
        chosen: &str,
        most: Duration,
    ) -> Result<(Found, Duration), String> {
        let mut command = Command::new(program);
        command.env(CHOSEN, chosen);
        let package = match search {
            Search::Test {
                package, filter, ..
            } => {
                command.args([filter.as_str(), "--include-ignored"]);
                package
            }
            Search::Simulate(arguments) => {
                command.args(arguments);
                "cdb-simulation"
            }
        };
        // As cargo does: tests find their files from there.
        let folders: BTreeMap<_, _> = packages(&self.copy)?;
        command.current_dir(folders.get(package).unwrap_or(&self.copy));
        command.env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(Stdio::piped());
        let failed = |error| format!("{}: {error}", program.display());
        let (before, begun) = (processor_time(), Instant::now());
        let mut running = command.spawn().map_err(failed)?;
        let mut printed = running.stdout.take();
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            let read = printed.as_mut().map(|out| out.read_to_end(&mut text));
            read.map(|_| String::from_utf8_lossy(&text).into_owned())
        });
        let found = loop {
            if let Some(status) = running.try_wait().map_err(failed)? {
                break if status.success() {
                    Found::Nothing
                } else {
                    Found::Fault
                };
            }
            if begun.elapsed() > most {
                running.kill().map_err(failed)?;
                running.wait().map_err(failed)?;
                break Found::Time;
            }
            std::thread::sleep(LOOK);
        };
        let took = match (before, processor_time()) {
            (Some(before), Some(after)) => after.saturating_sub(before),
            _ => begun.elapsed(),
        };
        let printed = reader.join().ok().flatten().unwrap_or_default();
        if printed.contains("running 0 tests") && found == Found::Nothing {
            return Err(format!("no test is named {}", search.name()));
        }
        Ok((found, took))
    }
}

/// Returns the folder of each package.
fn packages(copy: &Path) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut metadata = Command::new("cargo");
    metadata
        .args(["metadata", "--no-deps", "--locked", "--format-version", "1"])
        .current_dir(copy);
    let answer = metadata
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let answer: serde_json::Value =
        serde_json::from_slice(&answer.stdout).map_err(|error| format!("cargo: {error}"))?;
    let all = answer["packages"].as_array().into_iter().flatten();
    let folders = all.filter_map(|package| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        Some((
            package["name"].as_str()?.to_owned(),
            manifest.parent()?.into(),
        ))
    });
    Ok(folders.collect())
}

/// Returns the processor time of the processes that this one has waited for; `None` where `/proc` does not tell.
fn processor_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // After the name, in parentheses, come the third and later fields; proc(5) counts from 1. The unit is 10 ms.
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (field(16)? + field(17)?)))
}
