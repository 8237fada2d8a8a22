//! The outcomes that libtest prints.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The test says that it needs something else.
    Skipped,
    Failed,
}

/// A test that ran, named by program and path.
#[derive(Debug, PartialEq)]
pub(crate) struct Ran {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
}

/// Reads the output of `cargo test … -- --show-output`: for each program a line of cargo, the
/// results, and what each test printed. Ignored tests are left out.
pub(crate) fn read(output: &str) -> Vec<Ran> {
    let mut outcomes = BTreeMap::new();
    let (mut program, mut printing) = (String::new(), None);
    for line in output.lines() {
        if let Some(started) = started(line) {
            program = started;
            printing = None;
        } else if let Some((test, outcome)) = result(line) {
            outcomes.insert(format!("{program}::{test}"), outcome);
        } else if let Some(test) = printing_test(line) {
            printing = Some(format!("{program}::{test}"));
        } else if line.starts_with("skipped: ")
            && let Some(outcome) = printing.as_ref().and_then(|test| outcomes.get_mut(test))
            && *outcome == Outcome::Passed
        {
            *outcome = Outcome::Skipped;
        }
    }
    let ran = |(name, outcome)| Ran { name, outcome };
    outcomes.into_iter().map(ran).collect()
}

/// Returns the program that cargo runs: `Running tests/lease/main.rs (target/debug/deps/lease-0123)`.
fn started(line: &str) -> Option<String> {
    let path = line.trim_start().strip_prefix("Running ")?;
    let (_, path) = path.trim_end_matches(')').rsplit_once('/')?;
    let (name, _) = path.rsplit_once('-')?;
    Some(name.to_owned())
}

fn result(line: &str) -> Option<(&str, Outcome)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.split(" - ").next().unwrap_or(name);
    // Output of the test may stand before its result.
    match result.rsplit(' ').next()? {
        "ok" => Some((name, Outcome::Passed)),
        "FAILED" => Some((name, Outcome::Failed)),
        _ => None,
    }
}

fn printing_test(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Ran, read};

    #[test]
    fn results_are_named_by_program_and_skips_are_known() {
        let output = "   Compiling lease v0.1.0
     Running tests/lease/main.rs (target/debug/deps/lease-0123)
test one::a ... ok
test one::b ... FAILED
test one::c - should panic ... ok
test one::d ... ignored
---- one::a stdout ----
skipped: needs the emulator
     Running tests/other.rs (/work/target/debug/deps/other_one-4567)
test a ... ok
";
        let ran = |name: &str, outcome| Ran {
            name: name.to_owned(),
            outcome,
        };
        let expected = [
            ran("lease::one::a", Outcome::Skipped),
            ran("lease::one::b", Outcome::Failed),
            ran("lease::one::c", Outcome::Passed),
            ran("other_one::a", Outcome::Passed),
        ];
        assert_eq!(read(output), expected);
    }
}
