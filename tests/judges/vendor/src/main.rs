//! `cargo test-vendor`: runs the vendor's own suites, each from its crate in the registry.
//!
//! It fails when a test fails that `differences.rs` does not list, and when a listed test passes.
//! `--docs` writes the table into docs/testing.md; other arguments select suites by name.

mod differences;
mod suite;

use std::process::ExitCode;

use differences::{DIFFERENCES, Difference};
use suite::{Outcome, Ran, SUITES};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/testing.md");
const BEGIN: &str = "<!-- cargo test-vendor -- --docs -->\n";
const END: &str = "<!-- end -->\n";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (options, names): (Vec<_>, Vec<_>) = arguments.iter().partition(|it| it.starts_with("--"));
    if let Some(unknown) = names
        .iter()
        .find(|name| SUITES.iter().all(|it| it.name != **name))
    {
        let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        eprintln!(
            "no suite is named `{unknown}`; the suites are {}",
            known.join(", ")
        );
        return ExitCode::FAILURE;
    }
    let mut table =
        "| suite | on | passed | failed on purpose | failed otherwise |\n|---|---|--:|--:|--:|\n".to_owned();
    let mut surprises = 0;
    for suite in SUITES {
        let is_selected =
            names.is_empty() && suite.is_gate || names.iter().any(|it| *it == suite.name);
        if !is_selected {
            continue;
        }
        match suite.run().await {
            Ok(ran) => {
                let expected: Vec<&Difference> = DIFFERENCES
                    .iter()
                    .filter(|it| it.suite == suite.name)
                    .collect();
                if suite.is_gate {
                    surprises += judge(&ran, &expected);
                }
                let (title, store) = (suite.title(), suite.on);
                table += &format!("| {title} | {store} | {} |\n", counts(&ran, &expected));
            }
            Err(reason) => {
                eprintln!("{}: not tested: {reason}", suite.name);
                surprises += 1;
            }
        }
    }
    println!("\n{table}");
    if options.iter().any(|option| *option == "--docs") && names.is_empty() {
        write_docs(&table);
    }
    ExitCode::from(u8::from(surprises > 0))
}

/// Returns the cells of a suite: the tests that passed, those that failed with an entry, and those
/// that failed without one.
fn counts(ran: &[Ran], expected: &[&Difference]) -> String {
    let with = |outcome| ran.iter().filter(move |it| it.outcome == outcome);
    let (passed, failed) = (with(Outcome::Passed).count(), with(Outcome::Failed).count());
    let on_purpose = with(Outcome::Failed)
        .filter(|it| expected.iter().any(|listed| listed.test == it.name))
        .count();
    let all = passed + failed;
    format!("{passed} of {all} | {on_purpose} | {}", failed - on_purpose)
}

/// Prints the tests whose outcome is not the expected one. Returns how many there are.
fn judge(ran: &[Ran], expected: &[&Difference]) -> usize {
    let mut surprises = 0;
    for test in ran {
        let listed = expected
            .iter()
            .find(|difference| difference.test == test.name);
        let surprise = match (test.outcome, listed) {
            (Outcome::Failed, None) => "FAILED",
            (Outcome::Passed, Some(difference)) if !difference.sometimes => {
                "passes now: remove it from differences.rs"
            }
            _ => continue,
        };
        println!("{}: {surprise}", test.name);
        surprises += 1;
    }
    for difference in expected {
        if ran.iter().all(|test| test.name != difference.test) {
            println!(
                "{}: no longer a test: remove it from differences.rs",
                difference.test
            );
            surprises += 1;
        }
    }
    surprises
}

fn write_docs(table: &str) {
    let text = std::fs::read_to_string(PAGE).expect("the page can be read");
    let (before, rest) = text.split_once(BEGIN).expect("the page has the marker");
    let (_, after) = rest.split_once(END).expect("the page has the end marker");
    let text = format!("{before}{BEGIN}{table}{END}{after}");
    std::fs::write(PAGE, text).expect("the page can be written");
}
