//! `cargo xtask test-second-store`: the suites on the in-memory emulator of the Cosmos team.
//!
//! It fails when a test fails that `differences.txt` does not declare, and when a declared one
//! passes or is gone. `--docs` writes the table into docs/testing.md; names select suites. `--serve`
//! runs no suite: it prints the variables of an account, and serves it.

mod commands;
mod difference;
mod outcome;
mod suite;

use std::path::Path;
use std::process::ExitCode;

use cdb_second_store::{Host, KEY, Partitions};
use difference::Difference;
use outcome::{Outcome, Ran};
use suite::{SUITES, Suite};

const PAGE: &str = "docs/testing.md";
const BEGIN: &str = "<!-- cargo xtask test-second-store --docs -->\n";
const END: &str = "<!-- end -->\n";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments).await {
        Ok(0) => ExitCode::SUCCESS,
        Ok(surprises) => {
            eprintln!("{surprises} tests end otherwise than differences.txt says");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the number of tests whose outcome is not the expected one.
async fn run(arguments: &[String]) -> Result<usize, String> {
    let (options, names): (Vec<_>, Vec<_>) = arguments.iter().partition(|it| it.starts_with("--"));
    let known = |name: &&&String| SUITES.iter().all(|suite| suite.name != **name);
    if let Some(unknown) = names.iter().find(known) {
        let known = SUITES.map(|suite| suite.name).join(", ");
        return Err(format!(
            "no suite is named `{unknown}`; the suites are {known}"
        ));
    }
    let has = |option: &str| options.iter().any(|it| *it == option);
    if let Some(unknown) = options
        .iter()
        .find(|it| !["--docs", "--serve"].contains(&it.as_str()))
    {
        return Err(format!(
            "`{unknown}` is not known; there are --docs and --serve"
        ));
    }
    if has("--serve") {
        return serve().await;
    }
    let writes = has("--docs");
    if writes && !names.is_empty() {
        return Err("--docs needs all suites".to_owned());
    }
    let declared = Difference::all(include_str!("../differences.txt"))?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let mut table = "| suite | passed | skipped | declared |\n|---|--:|--:|--:|\n".to_owned();
    let mut surprises = 0;
    for suite in &SUITES {
        if !names.is_empty() && !names.iter().any(|name| *name == suite.name) {
            continue;
        }
        let ran = suite.run(&root).await?;
        let expected = declared.iter().filter(|it| it.suite == suite.name);
        surprises += judge(&ran, &expected.collect::<Vec<_>>());
        table += &row(suite, &ran);
    }
    println!("\n{table}");
    if writes {
        write_into(&root.join(PAGE), &table)?;
    }
    Ok(surprises)
}

async fn serve() -> Result<usize, String> {
    let host = Host::start(Partitions::One)
        .await
        .map_err(|error| error.to_string())?;
    println!("COSMOS_ENDPOINT={} COSMOS_KEY={KEY}", host.endpoint());
    std::future::pending().await
}

/// Prints the tests whose outcome is not the expected one. Returns their number.
fn judge(ran: &[Ran], declared: &[&Difference]) -> usize {
    let mut surprises = Vec::new();
    for test in ran {
        let declared = declared.iter().find(|it| it.test == test.name);
        match test.outcome {
            Outcome::Failed if declared.is_none() => {
                surprises.push(format!("{}: FAILED", test.name));
            }
            Outcome::Passed | Outcome::Skipped if declared.is_some_and(|it| !it.sometimes) => {
                surprises.push(format!("{}: declared, and passes", test.name));
            }
            _ => {}
        }
    }
    for difference in declared {
        if ran.iter().all(|test| test.name != difference.test) {
            surprises.push(format!("{}: declared, and not a test", difference.test));
        }
    }
    for surprise in &surprises {
        println!("{surprise}");
    }
    surprises.len()
}

fn row(suite: &Suite, ran: &[Ran]) -> String {
    let count = |outcome| ran.iter().filter(|test| test.outcome == outcome).count();
    format!(
        "| {} | {} | {} | {} |\n",
        suite.title,
        count(Outcome::Passed),
        count(Outcome::Skipped),
        count(Outcome::Failed)
    )
}

fn write_into(page: &Path, table: &str) -> Result<(), String> {
    let failed = |why: String| format!("{}: {why}", page.display());
    let text = std::fs::read_to_string(page).map_err(|error| failed(error.to_string()))?;
    let parts = text.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or_else(|| failed(format!("`{}` is missing", BEGIN.trim())))?;
    std::fs::write(page, format!("{before}{BEGIN}{table}{END}{after}"))
        .map_err(|error| failed(error.to_string()))
}
