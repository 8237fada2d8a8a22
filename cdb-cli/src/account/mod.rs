//! The account check, `cdb doctor --account`: what the project assumes about the service, as questions to an
//! account.
//!
//! `probes` has the table of all questions. Each names the files that rely on the answer. The
//! questions rely on an endpoint only, so they also run on the embedded emulator and on the
//! in-memory emulator of the Cosmos team, where the suites check that they can be answered with no.

mod check;
mod probes;
mod raw;
mod report;
mod samples;

use std::fmt;

use cdb_client::CosmosClient;

pub use probes::PROBES;
pub use report::{Answered, Report};

/// Why a question has no answer.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// The clients of one account.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Subject {
    client: CosmosClient,
    satellite: Option<CosmosClient>,
    entra: Option<CosmosClient>,
}

impl Subject {
    /// An account without the questions that are asked on request.
    pub fn new(client: CosmosClient) -> Self {
        Self {
            client,
            satellite: None,
            entra: None,
        }
    }

    /// Also sends writes to the endpoint of this client, which is in a region for reads.
    #[must_use]
    pub fn with_satellite(mut self, client: CosmosClient) -> Self {
        self.satellite = Some(client);
        self
    }

    /// Also asks what the Entra ID identity of this client may do.
    #[must_use]
    pub fn with_entra(mut self, client: CosmosClient) -> Self {
        self.entra = Some(client);
        self
    }
}

/// A question to an account.
#[derive(Debug)]
#[non_exhaustive]
pub struct Probe {
    /// Its name, by which a run selects it.
    pub name: &'static str,
    /// The question.
    pub question: &'static str,
    /// The files that rely on the answer.
    pub relied_on_by: &'static [&'static str],
    /// Whether correctness depends on the answer. Otherwise costs, latency or an error text do.
    pub is_required: bool,
    ask: probes::Ask,
}

/// An answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The service does what the project assumes.
    Yes(String),
    /// It does something else, or the request failed.
    No(String),
    /// The account lacks a feature, or the question was not requested.
    NotAsked(String),
}

impl Answer {
    /// Returns yes if the assumption holds.
    pub(crate) fn when(holds: bool, found: impl Into<String>) -> Self {
        if holds {
            Self::Yes(found.into())
        } else {
            Self::No(found.into())
        }
    }

    /// Returns no if something failed.
    pub(crate) fn unless(failed: &[String], found: impl Into<String>) -> Self {
        match failed {
            [] => Self::Yes(found.into()),
            failed => Self::No(failed.join("; ")),
        }
    }

    /// Returns `true` for a no.
    pub fn is_no(&self) -> bool {
        matches!(self, Self::No(_))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes(found) => write!(f, "yes: {found}"),
            Self::No(found) => write!(f, "NO: {found}"),
            Self::NotAsked(why) => write!(f, "not asked: {why}"),
        }
    }
}

/// Asks the questions of these names, or all of them if there is no name. Returns the answers in the
/// order of [`PROBES`]. Creates containers in the database `cdb-account-check`, and deletes them.
pub async fn run(subject: &Subject, names: &[&str]) -> Report {
    let before = subject.client.usage().total();
    let check = check::Check::open(subject).await;
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
