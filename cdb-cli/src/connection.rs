//! How the command reaches an account: options, environment variables, a connection string. Secrets are never shown.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use cdb_client::{CosmosClient, DatabaseClient, MasterKey, RetryConfig};
use cdb_emulator::WELL_KNOWN_KEY;

use crate::exit::Failure;
use crate::token::{GivenToken, TokenCommand};

/// Where the container is, and who asks.
#[expect(clippy::struct_field_names, reason = "fields are options' names")]
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// The account, https://NAME.documents.azure.com
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "COSMOS_ENDPOINT",
        hide_env_values = true
    )]
    pub(crate) endpoint: Option<String>,
    /// Its key, base64. Other programs can see options: prefer the variable. Loopback endpoints default to the emulators' key
    #[arg(
        long,
        global = true,
        value_name = "KEY",
        env = "COSMOS_KEY",
        hide_env_values = true
    )]
    key: Option<Secret>,
    /// AccountEndpoint=…;AccountKey=…; where --endpoint or --key are not given
    #[arg(
        long,
        global = true,
        value_name = "TEXT",
        env = "COSMOS_CONNECTION_STRING",
        hide_env_values = true
    )]
    connection_string: Option<Secret>,
    /// A token of Microsoft Entra ID, instead of a key. Nothing renews it; prefer the variable
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "COSMOS_TOKEN",
        hide_env_values = true
    )]
    token: Option<Secret>,
    /// A command that writes such a token; it is run again when the token's time is over: az account get-access-token
    /// --resource https://cosmos.azure.com --query accessToken --output tsv
    #[arg(
        long,
        global = true,
        value_name = "COMMAND",
        env = "COSMOS_TOKEN_COMMAND",
        hide_env_values = true
    )]
    token_command: Option<String>,
    /// The database
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "COSMOS_DATABASE",
        hide_env_values = true,
        default_value = "duroxide"
    )]
    pub(crate) database: String,
    /// The container
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "COSMOS_CONTAINER",
        hide_env_values = true,
        default_value = "duroxide"
    )]
    pub(crate) container: String,
    /// Seconds until a request is given up, its repetitions included
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
    /// Accept any certificate of an emulator on this machine
    #[arg(long, global = true)]
    accept_invalid_certificate: bool,
    /// Opened once: a token command then runs once, whatever a command looks at.
    #[arg(skip)]
    opened: OnceLock<CosmosClient>,
}

/// Text that is not shown.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

impl Connection {
    /// The client of the account. Sends nothing.
    pub(crate) fn client(&self) -> Result<CosmosClient, Failure> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened.clone());
        }
        let client = self.open()?;
        Ok(self.opened.get_or_init(|| client).clone())
    }

    fn open(&self) -> Result<CosmosClient, Failure> {
        let given = match &self.connection_string {
            Some(Secret(text)) => Parts::parse(text)?,
            None => Parts::default(),
        };
        let endpoint = self.endpoint.clone().or(given.endpoint).ok_or_else(|| {
            Failure::usage(
                "no account given; pass --endpoint or set COSMOS_ENDPOINT (for an emulator: http://localhost:8081, started by `cdb emulator`)",
            )
        })?;
        let deadline = Duration::from_secs(self.timeout.max(1));
        let retry = RetryConfig::default().with_deadline(deadline);
        if !endpoint.contains("://") {
            return Err(Failure::usage(format!(
                "`{endpoint}` is no account's address; write https://NAME.documents.azure.com"
            )));
        }
        let builder = CosmosClient::builder(&*endpoint);
        let builder = match (&self.token_command, &self.token) {
            (Some(command), _) => builder.credential(TokenCommand::new(command.clone())),
            (None, Some(Secret(token))) => builder.credential(GivenToken::new(token)?),
            (None, None) => {
                builder.credential(MasterKey::new(&self.key_of(&endpoint, given.key)?)?)
            }
        };
        let client = builder
            .application("cdb-cli")
            .retry(retry.with_attempt_timeout(deadline.min(Duration::from_secs(10))))
            .accept_invalid_certificates_on_loopback(self.accept_invalid_certificate)
            .build()?;
        Ok(client)
    }

    fn key_of(&self, endpoint: &str, given: Option<String>) -> Result<String, Failure> {
        match (&self.key, given) {
            (Some(Secret(key)), _) => Ok(key.clone()),
            (None, Some(key)) => Ok(key),
            (None, None) if is_loopback(endpoint) => Ok(WELL_KNOWN_KEY.to_owned()),
            (None, None) => Err(Failure::usage(
                "no key given; set COSMOS_KEY, COSMOS_TOKEN or COSMOS_TOKEN_COMMAND, or pass --key, --token-command or --connection-string",
            )),
        }
    }

    /// The database that is named. Sends nothing.
    pub(crate) fn database(&self) -> Result<DatabaseClient, Failure> {
        Ok(self.client()?.database(&self.database))
    }

    /// The account as it may be shown.
    pub(crate) fn shown_endpoint(&self) -> String {
        let from_string = || {
            let Secret(text) = self.connection_string.as_ref()?;
            Parts::parse(text).ok()?.endpoint
        };
        self.endpoint
            .clone()
            .or_else(from_string)
            .unwrap_or_default()
    }
}

/// Whether a URL names this machine, as the emulators do.
pub(crate) fn is_loopback(endpoint: &str) -> bool {
    let host = endpoint
        .split_once("://")
        .map_or(endpoint, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default();
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        host.strip_prefix(name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    })
}

/// What a connection string holds.
#[derive(Default)]
struct Parts {
    endpoint: Option<String>,
    key: Option<String>,
}

impl Parts {
    /// Reads `AccountEndpoint=…;AccountKey=…;`. Other settings are none of ours; the key's own `=` belong to it.
    fn parse(text: &str) -> Result<Self, Failure> {
        let mut parts = Self::default();
        for setting in text
            .split(';')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let Some((name, value)) = setting.split_once('=') else {
                return Err(Failure::usage(
                    "the connection string is not of the form AccountEndpoint=…;AccountKey=…;",
                ));
            };
            match name.trim().to_ascii_lowercase().as_str() {
                "accountendpoint" => parts.endpoint = Some(value.to_owned()),
                "accountkey" => parts.key = Some(value.to_owned()),
                _ => {}
            }
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_is_read_and_its_key_keeps_its_padding() {
        let parts = Parts::parse(
            "AccountEndpoint=https://a.documents.azure.com:443/;AccountKey=c2VjcmV0==;",
        )
        .unwrap();
        assert_eq!(
            parts.endpoint.as_deref(),
            Some("https://a.documents.azure.com:443/")
        );
        assert_eq!(parts.key.as_deref(), Some("c2VjcmV0=="));
    }

    #[test]
    fn a_malformed_connection_string_is_not_repeated() {
        let failure = Parts::parse("hunter2").err().unwrap();
        assert!(!failure.to_string().contains("hunter2"));
        assert!(!format!("{:?}", Secret("hunter2".to_owned())).contains("hunter2"));
    }

    #[test]
    fn only_this_machine_gets_the_well_known_key() {
        for here in [
            "http://localhost:8081",
            "http://127.0.0.1:1/",
            "https://[::1]",
            "http://localhost",
        ] {
            assert!(is_loopback(here), "{here}");
        }
        for elsewhere in [
            "https://localhost.example.com",
            "https://a.documents.azure.com",
            "http://127.0.0.10",
        ] {
            assert!(!is_loopback(elsewhere), "{elsewhere}");
        }
    }
}
