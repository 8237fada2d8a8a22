//! The exit codes, and the failures that lead to them.

pub(crate) mod causes;
pub(crate) mod remedy;

use std::fmt;
use std::process::ExitCode;

use cdb_client::ErrorKind;
use cdb_provider::observe::ObserveError;
use duroxide::ClientError;
use duroxide::providers::ProviderError;
use serde::Serialize;

use self::causes::with_causes;

/// The exit codes of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Exit {
    /// 0: the command succeeded, without a finding.
    Ok = 0,
    /// 1: the answer is a finding: the policy differs, the doctor found a problem, the instance does
    /// not exist.
    Finding = 1,
    /// 2: wrong usage: an unknown option, no endpoint, a destructive command without `--yes`.
    Usage = 2,
    /// 3: the service cannot be reached, or refused a request.
    Service = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The reason why a command gave no answer.
#[derive(Debug)]
pub(crate) struct Failure {
    pub exit: Exit,
    /// One sentence. Empty when the reader closed standard output, so nothing is reported.
    pub message: String,
    /// What to do, when the message does not say it.
    pub remedy: Option<&'static str>,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn finding(message: impl Into<String>) -> Self {
        Self::new(Exit::Finding, message)
    }

    pub(crate) fn service(message: impl Into<String>) -> Self {
        Self::new(Exit::Service, message)
    }

    /// The failure of a command about something that a container of the type `model` does not hold.
    pub(crate) fn lacks(model: &str, what: &str) -> Self {
        Self::usage(format!(
            "`{model}` holds no {what}; choose another container with --container"
        ))
    }

    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            remedy: None,
        }
    }

    /// Returns the failure as JSON in one line, for a user who calls the command `program`.
    pub(crate) fn json(&self, program: &str) -> String {
        let remedy = |remedy| remedy::for_program(remedy, program);
        let json = FailureJson {
            error: &self.message,
            remedy: self.remedy.map(remedy),
            exit_code: self.exit as u8,
        };
        serde_json::to_string(&json).expect("strings and a number")
    }

    /// Returns the message and the remedy, for a user who calls the command `program`.
    pub(crate) fn text(&self, program: &str) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}; {}", self.message, remedy::for_program(remedy, program)),
            None => self.message.clone(),
        }
    }
}

/// The form of a failure with `--json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FailureJson<'a> {
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    exit_code: u8,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<cdb_client::Error> for Failure {
    fn from(error: cdb_client::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&cdb_client::Error> for Failure {
    fn from(error: &cdb_client::Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::Configuration => Exit::Usage,
            _ => Exit::Service,
        };
        Self {
            remedy: remedy::of(error),
            ..Self::new(exit, with_causes(error))
        }
    }
}

impl From<ProviderError> for Failure {
    fn from(error: ProviderError) -> Self {
        Self {
            remedy: remedy::of_provider(&error),
            ..Self::service(error.message)
        }
    }
}

impl From<ObserveError> for Failure {
    fn from(error: ObserveError) -> Self {
        match error {
            ObserveError::Request(error) => error.into(),
            ObserveError::Stored(error) => error.into(),
            other => Self::usage(other.to_string()),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::InstanceNotFound { .. } => Self::finding(error.to_string()),
            ClientError::InvalidInput { .. }
            | ClientError::InstanceStillRunning { .. }
            | ClientError::CannotDeleteSubOrchestration { .. } => Self::usage(error.to_string()),
            ClientError::Provider(error) => error.into(),
            other => Self::service(other.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            // A reader such as `head` closes the pipe early; this is not an error.
            return Self::new(Exit::Ok, "");
        }
        Self::usage(error.to_string())
    }
}
