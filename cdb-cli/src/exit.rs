//! How a run ends: four codes that scripts can rely on, and the failures behind three of them.

use std::fmt;
use std::process::ExitCode;

use cdb_client::ErrorKind;
use duroxide::ClientError;
use duroxide::providers::ProviderError;

use crate::causes::with_causes;
use crate::remedy;

/// The exit codes of the command.
///
/// ```
/// use cdb_cli::{Cli, Exit};
/// use cdb_provider::documents::Durable;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (mut out, mut err) = (Vec::new(), Vec::new());
/// let check = ["cdb", "policy", "check", "--file", "/no/such/file"];
/// let exit = Cli::<Durable>::new().run_with(check, &mut out, &mut err).await;
/// // 1 would be a file that differs from the model; one that is not there was never compared.
/// assert_eq!(exit, Exit::Usage);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Exit {
    /// 0: done, and nothing to complain about.
    Ok = 0,
    /// 1: the answer is a finding: the policy drifts, the doctor is worried, the instance is not there.
    Finding = 1,
    /// 2: asked in a way that cannot work: an unknown option, no endpoint, a destructive command without `--yes`.
    Usage = 2,
    /// 3: the service cannot be reached, or refuses.
    Service = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command gave no answer, in a sentence for people; nothing where nobody listens any more.
#[derive(Debug)]
pub(crate) struct Failure {
    pub exit: Exit,
    pub message: String,
    /// What to do about it, where the message does not say so.
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

    fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            remedy: None,
        }
    }

    /// The message with its remedy, for a reader who runs the command as `program`.
    pub(crate) fn text(&self, program: &str) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}; {}", self.message, remedy::for_program(remedy, program)),
            None => self.message.clone(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<cdb_client::Error> for Failure {
    fn from(error: cdb_client::Error) -> Self {
        let exit = match error.kind() {
            ErrorKind::Configuration => Exit::Usage,
            _ => Exit::Service,
        };
        Self {
            remedy: remedy::of(&error),
            ..Self::new(exit, with_causes(&error))
        }
    }
}

impl From<ProviderError> for Failure {
    fn from(error: ProviderError) -> Self {
        Self::service(error.to_string())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::InstanceNotFound { .. } => Self::finding(error.to_string()),
            ClientError::InvalidInput { .. } => Self::usage(error.to_string()),
            other => Self::service(other.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            // The reader has seen enough, as `head` does.
            return Self::new(Exit::Ok, "");
        }
        Self::usage(error.to_string())
    }
}
