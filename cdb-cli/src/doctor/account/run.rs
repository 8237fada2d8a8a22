//! A run of the check.

use super::answer::Answer;
use super::check::Check;
use super::probes::PROBES;
use super::report::{Answered, Report};
use super::subject::Subject;

/// Asks the questions of these names, or all of them if there is no name. Returns the answers in the
/// order of [`PROBES`]. Creates containers in the database `cdb-account-check`, and deletes them.
pub async fn run(subject: &Subject, names: &[&str]) -> Report {
    let before = subject.client.usage().total();
    let check = Check::open(subject).await;
    let mut answers = Vec::new();
    for probe in &PROBES {
        if names.is_empty() || names.contains(&probe.name) {
            let answer = (probe.ask)(&check).await;
            let answer = answer.unwrap_or_else(|error| Answer::No(error.to_string()));
            answers.push(Answered { probe, answer });
        }
    }
    let (requests, charge) = check.spent(before);
    Report {
        answers,
        requests,
        charge,
        remaining: check.clean_up().await,
    }
}
