//! A token of Microsoft Entra ID instead of a key: one that is given, or the output of a command that knows how to get one.
//!
//! Which identity asks, and how it proves itself, is the command's business (`az`, `azd`, a script around a managed identity), so this
//! program brings none of the Azure SDK along. The command runs once, and again when the service refuses its token, which it
//! does when the token's time is over.

use std::fmt;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cdb_client::{Authorization, Credential, Error, SigningContext};
use tokio::process::Command;

/// How long a command may take: `az` starts slowly.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Most characters of a command's complaint that are repeated.
const MAX_ERROR_CHARACTERS: usize = 500;

/// A token that was given. Nothing renews it.
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

/// Tokens of a command.
pub(crate) struct TokenCommand {
    command: String,
    cache: Mutex<Cache>,
    /// Whoever holds it runs the command.
    running: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Cache {
    token: Option<Authorization>,
    /// How often the command ran, so that a late refusal of an old token is not taken for one of the new.
    runs: u64,
}

impl TokenCommand {
    pub(crate) fn new(command: String) -> Self {
        Self {
            command,
            cache: Mutex::default(),
            running: tokio::sync::Mutex::default(),
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Credential for TokenCommand {
    async fn authorize(&self, _context: &SigningContext<'_>) -> Result<Authorization, Error> {
        let _only = self.running.lock().await;
        if let Some(token) = &self.cache().token {
            return Ok(token.clone());
        }
        let token = output(&self.command).await.map_err(|why| {
            Error::unauthorized(format!("no token from `{}`: {why}", self.command))
        })?;
        let mut cache = self.cache();
        cache.runs += 1;
        let token = Authorization::from_entra_token(&token, cache.runs)?;
        cache.token = Some(token.clone());
        Ok(token)
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

/// What a command of the system's shell writes, or why it writes no token.
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
        .map_err(|_| format!("it has not ended after {} s", TIMEOUT.as_secs()))?
        .map_err(|error| error.to_string())?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        let said: String = said.trim().chars().take(MAX_ERROR_CHARACTERS).collect();
        let said = if said.is_empty() {
            "it says nothing"
        } else {
            &said
        };
        return Err(format!("{}: {said}", ended.status));
    }
    let token = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err("it writes something else; let it write the token alone (`--query accessToken --output tsv`)".to_owned());
    }
    Ok(token)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_command_writes_is_the_token_and_what_goes_wrong_is_told() {
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

    #[test]
    fn no_token_is_shown() {
        let token = StaticToken::new("hunter2").unwrap();
        assert!(!format!("{token:?}").contains("hunter2"));
    }
}
