//! How the command reaches an account: options, environment variables, a connection string. Secrets are never shown.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use cdb_client::{ConnectionStringParts, CosmosClient, DatabaseClient, MasterKey, RetryConfig};
use cdb_emulator::WELL_KNOWN_KEY;

use crate::exit::Failure;
use crate::token::{StaticToken, TokenCommand};
use crate::wait_for_port;

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
        let account = self.account()?;
        if account.endpoint().is_none() {
            return Err(Failure::usage(
                "no account given; pass --endpoint or set COSMOS_ENDPOINT (for an emulator: http://localhost:8081, started by `cdb emulator`)",
            ));
        }
        let mut builder = account.client()?;
        if self.accept_invalid_certificate {
            builder = builder.accept_invalid_certificates_on_loopback(true);
        }
        builder = match (&self.token_command, &self.token, account.key()) {
            (Some(command), ..) => builder.credential(TokenCommand::new(command.clone())),
            (None, Some(Secret(token)), _) => builder.credential(StaticToken::new(token)?),
            (None, None, Some(key)) => builder.credential(MasterKey::new(key)?),
            (None, None, None) if builder.is_loopback() => {
                builder.credential(MasterKey::new(WELL_KNOWN_KEY)?)
            }
            (None, None, None) => {
                return Err(Failure::usage(
                    "no key given; set COSMOS_KEY, COSMOS_TOKEN or COSMOS_TOKEN_COMMAND, or pass --key, --token-command or --connection-string",
                ));
            }
        };
        let deadline = Duration::from_secs(self.timeout.max(1));
        let retry = RetryConfig::default().with_deadline(deadline);
        let client = builder
            .application("cdb-cli")
            .retry(retry.with_attempt_timeout(deadline.min(Duration::from_secs(10))))
            .build()?;
        Ok(client)
    }

    /// What is known of the account: the connection string, and options of their own before it.
    fn account(&self) -> Result<ConnectionStringParts, Failure> {
        let mut account = match &self.connection_string {
            Some(Secret(text)) => ConnectionStringParts::parse(text)?,
            None => ConnectionStringParts::default(),
        };
        if let Some(endpoint) = &self.endpoint {
            account = account.with_endpoint(endpoint);
        }
        if let Some(Secret(key)) = &self.key {
            account = account.with_key(key);
        }
        Ok(account)
    }

    /// The database that is named. Sends nothing, but looks whether anything listens where an emulator should be.
    pub(crate) fn database(&self) -> Result<DatabaseClient, Failure> {
        let client = self.client()?;
        if self.is_loopback() {
            wait_for_port::wait(&self.shown_endpoint())?;
        }
        Ok(client.database(&self.database))
    }

    /// The account's address, of a connection that was opened: it holds no secret.
    pub(crate) fn shown_endpoint(&self) -> String {
        let account = self.account().unwrap_or_default();
        account.endpoint().unwrap_or_default().to_owned()
    }

    /// Whether that is on this machine, as emulators are.
    pub(crate) fn is_loopback(&self) -> bool {
        CosmosClient::builder(self.shown_endpoint()).is_loopback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Built here, because options take variables that may be set where this test runs.
    fn opened(
        connection_string: &str,
        endpoint: Option<&str>,
        key: Option<&str>,
    ) -> Result<Connection, String> {
        let secret = |text: &str| Secret(text.to_owned());
        let connection = Connection {
            endpoint: endpoint.map(str::to_owned),
            key: key.map(secret),
            connection_string: Some(secret(connection_string)),
            token: None,
            token_command: None,
            database: "duroxide".to_owned(),
            container: "duroxide".to_owned(),
            timeout: 30,
            accept_invalid_certificate: false,
            opened: OnceLock::new(),
        };
        match connection.client() {
            Ok(_) => Ok(connection),
            Err(failure) => Err(failure.to_string()),
        }
    }

    #[test]
    fn one_part_of_a_connection_string_goes_with_what_is_given_beside_it() {
        let here = "http://localhost:8081/";
        let key_alone = format!("accountkey={WELL_KNOWN_KEY};");
        let opened_here = [
            opened(&format!("AccountEndpoint={here}"), None, None),
            opened(
                &format!("AccountEndpoint={here}"),
                None,
                Some(WELL_KNOWN_KEY),
            ),
            opened(&key_alone, Some(here), None),
            opened("AccountEndpoint=https://nowhere.invalid/", Some(here), None),
        ];
        for connection in opened_here {
            let connection = connection.unwrap();
            assert_eq!(connection.shown_endpoint(), here);
            assert!(connection.is_loopback());
        }
        let error = opened(&key_alone, None, None).unwrap_err();
        assert!(error.contains("pass --endpoint"), "{error}");
    }

    #[test]
    fn only_this_machine_gets_the_well_known_key() {
        let elsewhere = "AccountEndpoint=https://shop.documents.azure.com:443/";
        let error = opened(elsewhere, None, None).unwrap_err();
        assert!(error.contains("no key given"), "{error}");
        let connection = opened(elsewhere, None, Some(WELL_KNOWN_KEY)).unwrap();
        assert!(!connection.is_loopback());
    }

    #[test]
    fn unchecked_certificates_are_for_this_machine_only() {
        let unchecked = "DisableServerCertificateValidation=true";
        let at = |endpoint: &str| {
            let text = format!("AccountEndpoint={endpoint};{unchecked}");
            opened(&text, None, Some(WELL_KNOWN_KEY))
        };
        assert!(at("https://localhost:8081").is_ok());
        let error = at("https://shop.documents.azure.com").unwrap_err();
        assert!(error.contains("loopback hosts only"), "{error}");
    }

    #[test]
    fn a_secret_is_not_shown() {
        for text in [
            "hunter2",
            "AccountEndpoint=hunter2+/=;AccountKey=x",
            "AccountKey=hunter2",
        ] {
            let error = opened(text, None, None).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(!format!("{:?}", Secret("hunter2".to_owned())).contains("hunter2"));
    }
}
