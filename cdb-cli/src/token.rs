//! Microsoft Entra ID tokens as credentials: a given token, or the output of a command.
//!
//! The command (`az`, `azd`, a script for a managed identity) signs in, so this program does not
//! depend on the Azure SDK. The command runs once, and again when the service rejects the token as
//! expired.

use std::fmt;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cdb_client::{Authorization, Credential, Error, SharedCall, SigningContext};
use tokio::process::Command;

/// The time limit of a command. `az` starts slowly.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum length of a command's error output in an error message.
const MAX_ERROR_CHARACTERS: usize = 500;

/// A given token. It is not renewed.
pub(crate) struct StaticToken(Authorization);

impl StaticToken {
    pub(crate) fn new(token: &str) -> Result<Self, Error> {
        Authorization::from_entra_token(token.trim(), 0).map(Self)
    }
}

#[async_trait]
impl Credential for StaticToken {
    async fn authorize(&self, _context: &SigningContext<'_>) -> Result<Authorization, Error> {
        Ok(self.0.clone())
    }
}

impl fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StaticToken(<redacted>)")
    }
}

/// A credential that runs a command for its tokens.
pub(crate) struct TokenCommand {
    command: String,
    cache: Mutex<Cache>,
    /// Concurrent requests run the command once.
    running: SharedCall,
}

#[derive(Default)]
struct Cache {
    token: Option<Authorization>,
    /// The number of runs, which identifies a token: a late rejection of an old token keeps the new
    /// token.
    runs: u64,
}

impl TokenCommand {
    pub(crate) fn new(command: String) -> Self {
        Self {
            command,
            cache: Mutex::default(),
            running: SharedCall::default(),
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Credential for TokenCommand {
    async fn authorize(&self, _context: &SigningContext<'_>) -> Result<Authorization, Error> {
        let run = || async {
            let token = output(&self.command).await.map_err(|why| {
                Error::unauthorized(format!("`{}` returned no token: {why}", self.command))
            })?;
            let mut cache = self.cache();
            cache.runs += 1;
            let token = Authorization::from_entra_token(&token, cache.runs)?;
            cache.token = Some(token.clone());
            Ok(token)
        };
        self.running.run(|| self.cache().token.clone(), run).await
    }

    fn refused(&self, authorization: &Authorization) {
        let mut cache = self.cache();
        if cache.runs == authorization.secret() {
            cache.token = None;
        }
    }
}

impl fmt::Debug for TokenCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCommand")
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

/// Runs a command in the system's shell and returns the token that it prints, or the reason why
/// there is none.
async fn output(command: &str) -> Result<String, String> {
    let (shell, flag) = if cfg!(windows) {
        ("cmd", "/C")
    } else {
        ("sh", "-c")
    };
    let run = Command::new(shell)
        .args([flag, command])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let ended = tokio::time::timeout(TIMEOUT, run)
        .await
        .map_err(|_| format!("it did not finish within {} s", TIMEOUT.as_secs()))?
        .map_err(|error| error.to_string())?;
    if !ended.status.success() {
        let errors = String::from_utf8_lossy(&ended.stderr);
        let errors: String = errors.trim().chars().take(MAX_ERROR_CHARACTERS).collect();
        return Err(format!("{}: {errors}", ended.status));
    }
    let token = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err("its output is not a token; make it print the token alone (`--query accessToken --output tsv`)".to_owned());
    }
    Ok(token)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_prints_the_token_or_its_error_is_reported() {
        assert_eq!(output("echo abc.def").await.as_deref(), Ok("abc.def"));
        for (command, reason) in [
            (
                "echo please run az login >&2; exit 3",
                "please run az login",
            ),
            ("true", "the token alone"),
            ("echo '{ \"accessToken\": \"x\" }'", "the token alone"),
            ("cdb-no-such-program", "not found"),
        ] {
            let refused = output(command).await.unwrap_err();
            assert!(refused.contains(reason), "{command}: {refused}");
        }
    }

    #[tokio::test]
    async fn a_command_that_fails_runs_once_for_all_that_wait_for_it() {
        let runs = std::env::temp_dir().join(format!("cdb-token-{}", std::process::id()));
        let command = format!("echo run >> {}; sleep 0.3; exit 3", runs.display());
        let command = TokenCommand::new(command);
        let context = SigningContext {
            verb: &cdb_client::http::Method::GET,
            resource_type: "dbs",
            resource_link: "",
            date: "",
        };
        let callers = (0..10).map(|_| command.authorize(&context));
        let refused = futures::future::join_all(callers).await;
        assert!(refused.iter().all(Result::is_err));
        let log = std::fs::read_to_string(&runs).unwrap();
        assert_eq!(log.lines().count(), 1);
        std::fs::remove_file(runs).unwrap();
    }

    #[test]
    fn debug_output_shows_no_token() {
        let token = StaticToken::new("hunter2").unwrap();
        assert!(!format!("{token:?}").contains("hunter2"));
    }
}
