//! `cargo xtask test-clients`: runs the checks of Microsoft's JavaScript and Python clients against the
//! emulator and prints a table of client and area. `--docs` also writes the table into
//! docs/comparisons.md. Arguments without `--` select clients by name.
//!
//! It fails if a check fails that does not declare why, and if a client cannot be installed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use cdb_emulator::Emulator;
use cdb_sdk_tests::source;
use serde_json::Value;

const BEGIN: &str = "<!-- cargo xtask test-clients -- --docs -->\n";
const END: &str = "<!-- end -->\n";

/// The result of a check.
struct Check {
    area: String,
    name: String,
    error: Option<String>,
    /// Why the check is known to fail.
    declared: Option<String>,
}

/// The counts of an area.
#[derive(Default)]
struct Count {
    passed: usize,
    declared: usize,
    all: usize,
}

type Counts = BTreeMap<String, Count>;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let selected = |name: &str| {
        let mut names = arguments.iter().filter(|name| !name.starts_with("--"));
        names.clone().next().is_none() || names.any(|known| known.eq_ignore_ascii_case(name))
    };
    let mut table = Vec::new();
    let mut failures = 0;
    for client in ["JavaScript", "Python"]
        .into_iter()
        .filter(|name| selected(name))
    {
        match run(client).await {
            Ok(checks) => {
                failures += report(client, &checks);
                table.push((client, count(&checks)));
            }
            Err(reason) => {
                let needs = if client == "Python" {
                    "Python 3 with venv, and PyPI"
                } else {
                    "Node.js with npm, and the npm registry"
                };
                eprintln!("{client}: not tested: {reason}; the checks need {needs}");
                failures += 1;
            }
        }
    }
    let text = print(&table);
    println!("{text}");
    if arguments.iter().any(|argument| argument == "--docs") {
        write_docs(&text);
    }
    ExitCode::from(u8::from(failures > 0))
}

/// A script, and where its packages are.
struct Script {
    file: &'static str,
    packages: &'static str,
    /// The name of the directory in which the packages are installed.
    home: &'static str,
    /// Whether the script needs HTTPS.
    tls: bool,
}

fn scripts(client: &str) -> [Script; 2] {
    let script = |file, packages, home, tls| Script {
        file,
        packages,
        home,
        tls,
    };
    let applications = "clients/applications";
    if client == "Python" {
        let requirements = "clients/applications/requirements.txt";
        [
            script(
                "clients/python/checks.py",
                "python/requirements.txt",
                "azure-cosmos",
                false,
            ),
            script(
                "clients/applications/applications.py",
                requirements,
                "applications",
                false,
            ),
        ]
    } else {
        let checks = "clients/javascript/checks.mjs";
        [
            script(checks, "clients/javascript", "azure-cosmos-js", false),
            script(
                "clients/applications/applications.mjs",
                applications,
                "applications-js",
                true,
            ),
        ]
    }
}

/// Runs the scripts of a client, each against an emulator of its own.
async fn run(client: &str) -> Result<Vec<Check>, String> {
    let mut checks = Vec::new();
    for script in scripts(client) {
        checks.extend(run_script(client, &script).await?);
    }
    Ok(checks)
}

async fn run_script(client: &str, script: &Script) -> Result<Vec<Check>, String> {
    let folder = source("../../../target/tmp");
    let mut command = if client == "Python" {
        let python = cdb_sdk_tests::python(&folder, script.home, script.packages)?;
        let mut command = Command::new(python);
        command.arg(source(script.file));
        command
    } else {
        let home = cdb_sdk_tests::javascript(&folder, script.home, script.packages)?;
        // Node.js finds the packages in the directory of the script.
        let copy = home.join("script.mjs");
        fs::copy(source(script.file), &copy).map_err(|error| error.to_string())?;
        let mut command = Command::new("node");
        command.arg(copy);
        command
    };
    let builder = Emulator::builder().physical_partitions(3).tls(script.tls);
    let emulator = builder.start().await.map_err(|error| error.to_string())?;
    if let Some(certificate) = emulator.certificate_pem() {
        let file = folder.join("clients.pem");
        fs::write(&file, certificate).map_err(|error| error.to_string())?;
        command.env("NODE_EXTRA_CA_CERTS", file);
    }
    command.args([&emulator.endpoint(), emulator.key()]);
    command.arg(source("clients/queries.json"));
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output
        .expect("no panic")
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    lines.lines().map(check).collect()
}

fn check(line: &str) -> Result<Check, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
    let text = |name: &str| value[name].as_str().map(str::to_owned);
    Ok(Check {
        area: text("area").unwrap_or_default(),
        name: text("name").unwrap_or_default(),
        error: text("error"),
        declared: text("declared"),
    })
}

/// Prints the checks that fail. Returns how many of them are not declared.
fn report(client: &str, checks: &[Check]) -> usize {
    let mut failures = 0;
    for check in checks {
        let Some(error) = &check.error else { continue };
        let (area, name) = (&check.area, &check.name);
        let (word, cause) = match &check.declared {
            Some(reason) => ("declared", reason),
            None => ("failed", error),
        };
        println!("{client}: {area}: {name}\n  {word}: {cause}");
        failures += usize::from(check.declared.is_none());
    }
    failures
}

fn count(checks: &[Check]) -> Counts {
    let mut counts = Counts::new();
    for check in checks {
        let count = counts.entry(check.area.clone()).or_default();
        count.all += 1;
        count.passed += usize::from(check.error.is_none());
        count.declared += usize::from(check.error.is_some() && check.declared.is_some());
    }
    counts
}

/// Prints the table of area and client: passed of all checks, and the declared ones.
fn print(table: &[(&str, Counts)]) -> String {
    let mut areas: Vec<&str> = Vec::new();
    areas.extend(
        table
            .iter()
            .flat_map(|(_, counts)| counts.keys().map(String::as_str)),
    );
    areas.sort_unstable();
    areas.dedup();
    let cell = |count: Option<&Count>| match count {
        None => "–".to_owned(),
        Some(Count {
            passed,
            declared: 0,
            all,
        }) => format!("{passed} of {all}"),
        Some(Count {
            passed,
            declared,
            all,
        }) => format!("{passed} of {all}, {declared} declared"),
    };
    let row = |name: &str, cells: Vec<String>| format!("| {name} | {} |\n", cells.join(" | "));
    let names = table.iter().map(|(client, _)| (*client).to_owned());
    let mut text = row("area", names.collect());
    text.push_str(&row("---", vec!["---".to_owned(); table.len()]));
    for area in areas {
        let cells = table.iter().map(|(_, counts)| cell(counts.get(area)));
        text.push_str(&row(area, cells.collect()));
    }
    let total = |counts: &Counts| Count {
        passed: counts.values().map(|count| count.passed).sum(),
        declared: counts.values().map(|count| count.declared).sum(),
        all: counts.values().map(|count| count.all).sum(),
    };
    let totals = table.iter().map(|(_, counts)| cell(Some(&total(counts))));
    text.push_str(&row("all", totals.collect()));
    text
}

/// Writes the totals into the page. The areas are only printed.
fn write_docs(table: &str) {
    let lines: Vec<&str> = table.lines().collect();
    let [head, rule, .., total] = lines[..] else {
        panic!("the table has no rows");
    };
    let table = format!("{head}\n{rule}\n{total}\n");
    let path: PathBuf = Path::new(&source("../../../docs/comparisons.md")).to_owned();
    let text = fs::read_to_string(&path).expect("the page can be read");
    let (before, rest) = text.split_once(BEGIN).expect("the page has the marker");
    let (_, after) = rest.split_once(END).expect("the page has the end marker");
    fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).expect("it can be written");
}
