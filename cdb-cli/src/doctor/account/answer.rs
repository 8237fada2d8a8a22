//! An answer, and why there is none.

use std::fmt;

/// Why a question has no answer.
pub(crate) type Failure = Box<dyn std::error::Error>;

/// What a question gives.
pub(crate) type Outcome = Result<Answer, Failure>;

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
