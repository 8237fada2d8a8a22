//! Microsoft Entra ID tokens as credentials: a given token, or the output of a command.
//!
//! The command (`az`, `azd`, a script for a managed identity) signs in, so this program does not
//! depend on the Azure SDK. The command runs once, and again when the service rejects the token as
//! expired.

use std::fmt;
use std::io::IsTerminal as _;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cdb_client::Error;
use cdb_client::credential::{Authorization, Credential, SigningContext};
use cdb_client::partitions::SharedCall;
use tokio::process::Command;

/// The time limit of a command. `az` starts slowly.
const TIMEOUT: Duration = Duration::from_secs(60);

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
                Error::unauthorized(format!(
                    "the token command (--token-command, COSMOS_TOKEN_COMMAND) returned no token: {why}"
                ))
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
        f.debug_struct("TokenCommand").finish_non_exhaustive()
    }
}

/// Runs a command in the system's shell and returns the token that it prints, or the reason why
/// there is none. The reason holds nothing that the command has printed and not the command itself:
/// they may contain secrets, and errors reach logs and clients of `mcp`. A terminal shows the error
/// output.
async fn output(command: &str) -> Result<String, String> {
    let (shell, flag) = if cfg!(windows) {
        ("cmd", "/C")
    } else {
        ("sh", "-c")
    };
    let errors = if std::io::stderr().is_terminal() {
        Stdio::inherit()
    } else {
        Stdio::null()
    };
    let run = Command::new(shell)
        .args([flag, command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| error.to_string())?
        .wait_with_output();
    let ended = tokio::time::timeout(TIMEOUT, run)
        .await
        .map_err(|_| format!("it did not finish within {} s", TIMEOUT.as_secs()))?
        .map_err(|error| error.to_string())?;
    if !ended.status.success() {
        return Err(format!(
            "{}; run it in a terminal to see its errors",
            ended.status
        ));
    }
    let token = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err("its output is not a token; make it print the token alone (`--query accessToken --output tsv`)".to_owned());
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[tokio::test]
    async fn a_command_prints_the_token_or_its_failure_is_reported_without_its_output() {
        assert_eq!(output("echo abc.def").await.as_deref(), Ok("abc.def"));
        for (command, reason) in [
            (
                "echo hunter2; echo hunter2 >&2; exit 3",
                "exit status: 3; run it in a terminal",
            ),
            ("true", "the token alone"),
            ("echo '{ \"accessToken\": \"hunter2\" }'", "the token alone"),
            ("cdb-no-such-program hunter2", "exit status: 127"),
        ] {
            let refused = output(command).await.unwrap_err();
            assert!(refused.contains(reason), "{command}: {refused}");
            assert!(!refused.contains("hunter2"), "{command}: {refused}");
        }
        let command = TokenCommand::new("exit 3 # hunter2".to_owned());
        assert!(!format!("{command:?}").contains("hunter2"));
    }

    #[test]
    fn debug_output_shows_no_token() {
        let token = StaticToken::new("hunter2").unwrap();
        assert!(!format!("{token:?}").contains("hunter2"));
    }
}
