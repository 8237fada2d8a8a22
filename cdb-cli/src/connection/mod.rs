//! The options, environment variables and connection string that select an account. Secrets are
//! never shown.

pub(crate) mod env_file;
mod port;
mod token;

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cdb_client::account::ConnectionStringParts;
use cdb_client::retry::RetryConfig;
use cdb_client::{CosmosClient, DatabaseClient, MasterKey};
use cdb_provider::payload::{Encryption, PayloadCodec};

use self::env_file::Origin;
use self::token::{StaticToken, TokenCommand};
use crate::exit::{Failure, remedy};

/// The id of the option `--container`.
pub(crate) const CONTAINER: &str = "container";

/// The account, the container and the credential.
#[expect(clippy::struct_field_names, reason = "fields are options' names")]
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connection {
    /// First, because reading an option takes it from the matches.
    #[command(flatten)]
    origin: Origin,
    /// The account's address: https://NAME.documents.azure.com
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "COSMOS_ENDPOINT",
        hide_env_values = true
    )]
    pub(crate) endpoint: Option<String>,
    /// The account's key, in base64. Other programs can see options: prefer the variable. Default
    /// for loopback endpoints: the emulators' well-known key
    #[arg(
        long,
        global = true,
        value_name = "KEY",
        env = "COSMOS_KEY",
        hide_env_values = true
    )]
    key: Option<Secret>,
    /// AccountEndpoint=…;AccountKey=…; --endpoint and --key take precedence
    #[arg(
        long,
        global = true,
        value_name = "TEXT",
        env = "COSMOS_CONNECTION_STRING",
        hide_env_values = true
    )]
    connection_string: Option<Secret>,
    /// A Microsoft Entra ID token, instead of a key. It is not renewed. Prefer the variable
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "COSMOS_TOKEN",
        hide_env_values = true
    )]
    token: Option<Secret>,
    /// A command that prints a Microsoft Entra ID token, run again when the token expires: az
    /// account get-access-token --resource https://cosmos.azure.com --query accessToken --output
    /// tsv
    #[arg(
        long,
        global = true,
        value_name = "COMMAND",
        env = "COSMOS_TOKEN_COMMAND",
        hide_env_values = true
    )]
    token_command: Option<Secret>,
    /// The keys of payloads, ID=BASE64, separated by commas. Prefer the variable
    #[arg(
        long,
        global = true,
        value_name = "KEYS",
        env = "COSMOS_PAYLOAD_KEYS",
        hide_env_values = true
    )]
    payload_keys: Option<Secret>,
    /// The name of the database
    // The program's containers give the defaults of these two.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "COSMOS_DATABASE",
        hide_env_values = true,
        default_value = ""
    )]
    pub(crate) database: String,
    /// The name of the container
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "COSMOS_CONTAINER",
        hide_env_values = true,
        default_value = ""
    )]
    pub(crate) container: String,
    /// Deadline of a request in seconds, retries included
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
    /// Accept any certificate from an emulator on this machine
    #[arg(long, global = true)]
    accept_invalid_certificate: bool,
    /// The client, built once, so that a token command runs once per token.
    #[arg(skip)]
    client: OnceLock<CosmosClient>,
}

/// A text that `Debug` redacts.
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
    /// Returns the client of the account. Sends no request.
    pub(crate) fn client(&self) -> Result<CosmosClient, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let client = self.build_client()?;
        Ok(self.client.get_or_init(|| client).clone())
    }

    fn build_client(&self) -> Result<CosmosClient, Failure> {
        if self.origin.is_mixed {
            return Err(Failure::usage(
                "the file `.env` names the account and the credential comes from elsewhere, so it is not sent; pass --endpoint or set COSMOS_ENDPOINT, or take both from the file",
            ));
        }
        let account = self.account()?;
        if account.endpoint().is_none() {
            return Err(Failure {
                remedy: Some(remedy::NO_ACCOUNT),
                ..Failure::usage("no account given")
            });
        }
        let mut builder = account.client()?;
        if self.accept_invalid_certificate {
            builder = builder.accept_invalid_certificates_on_loopback(true);
        }
        builder = match (&self.token_command, &self.token, account.key()) {
            (Some(Secret(command)), ..) => builder.credential(TokenCommand::new(command.clone())),
            (None, Some(Secret(token)), _) => builder.credential(StaticToken::new(token)?),
            (None, None, Some(key)) => builder.credential(MasterKey::new(key)?),
            (None, None, None) if builder.is_loopback() => {
                builder.credential(MasterKey::new(MasterKey::EMULATOR)?)
            }
            (None, None, None) => {
                return Err(Failure::usage(
                    "no key given; set COSMOS_KEY, COSMOS_TOKEN or, not in the file `.env`, COSMOS_TOKEN_COMMAND, or pass --key, --token-command or --connection-string",
                ));
            }
        };
        let deadline = Duration::from_secs(self.timeout.max(1));
        let retry = RetryConfig::default()
            .with_deadline(deadline)
            .with_opening_deadline(deadline);
        let client = builder
            .application("cdb-cli")
            .retry(retry.with_attempt_timeout(deadline.min(Duration::from_secs(10))))
            .build()?;
        Ok(client)
    }

    /// Returns a client of another endpoint of the account, with the same credential.
    pub(crate) fn client_at(&self, endpoint: &str) -> Result<CosmosClient, Failure> {
        let other = Self {
            endpoint: Some(endpoint.to_owned()),
            client: OnceLock::new(),
            ..self.clone()
        };
        other.client()
    }

    /// Returns a client of the account with the identity of a Microsoft Entra ID token.
    pub(crate) fn client_with(&self, token: &Secret) -> Result<CosmosClient, Failure> {
        let other = Self {
            token: Some(token.clone()),
            token_command: None,
            client: OnceLock::new(),
            ..self.clone()
        };
        other.client()
    }

    /// Returns the codec of the keys for payloads; `None` when no keys are given.
    pub(crate) fn payload_codec(&self) -> Result<Option<Arc<dyn PayloadCodec>>, Failure> {
        let Some(Secret(keys)) = self.payload_keys.as_ref().filter(|keys| !keys.0.is_empty())
        else {
            return Ok(None);
        };
        match Encryption::parse(keys) {
            Ok(encryption) => Ok(Some(Arc::new(encryption))),
            Err(error) => Err(Failure::usage(format!("COSMOS_PAYLOAD_KEYS: {error}"))),
        }
    }

    /// Returns the parts of the connection string, overridden by `--endpoint` and `--key`.
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

    /// Returns the database. Sends no request, but on loopback waits until the port of the emulator
    /// is open.
    pub(crate) fn database(&self) -> Result<DatabaseClient, Failure> {
        let client = self.client()?;
        if self.is_loopback() {
            port::wait(&self.shown_endpoint())?;
        }
        Ok(client.database(&self.database))
    }

    /// The account's address, without secrets. Empty when it is not given or not valid.
    pub(crate) fn shown_endpoint(&self) -> String {
        let account = self.account().unwrap_or_default();
        account.endpoint().unwrap_or_default().to_owned()
    }

    /// Returns `true` for a loopback address without a token.
    pub(crate) fn has_emulator_key(&self) -> bool {
        self.is_loopback() && self.token.is_none() && self.token_command.is_none()
    }

    /// Returns `true` for a loopback address, as emulators have.
    pub(crate) fn is_loopback(&self) -> bool {
        CosmosClient::builder(self.shown_endpoint()).is_loopback()
    }
}

/// Whether the arguments of a command name an emulator by its key.
pub(crate) fn has_emulator_key(leaf: &clap::ArgMatches) -> bool {
    use clap::FromArgMatches as _;
    let has_connection = leaf.try_contains_id("endpoint").is_ok();
    has_connection && Connection::from_arg_matches(leaf).is_ok_and(|given| given.has_emulator_key())
}

/// Whether an argument with this id is an option of the connection.
#[cfg(feature = "mcp")]
pub(crate) fn is_option(id: &str) -> bool {
    use clap::Args as _;
    let options = Connection::augment_args(clap::Command::new(""));
    options.get_arguments().any(|option| option.get_id() == id)
}

/// Returns the options of the connection that the arguments of a command gave, by their id. The
/// environment and the file `.env` give the others again.
#[cfg(feature = "mcp")]
pub(crate) fn given_options(matches: &clap::ArgMatches) -> Vec<(String, String)> {
    use clap::Args as _;
    use clap::parser::ValueSource;
    let leaf = matches.subcommand().map_or(matches, |(_, leaf)| leaf);
    let options = Connection::augment_args(clap::Command::new(""));
    let ids = options.get_arguments().map(clap::Arg::get_id);
    let given = ids.filter(|id| leaf.value_source(id.as_str()) == Some(ValueSource::CommandLine));
    given
        .map(|id| {
            let mut values = leaf.get_raw(id.as_str()).into_iter().flatten();
            let value = values.next().unwrap_or_default().to_string_lossy();
            (id.as_str().to_owned(), value.into_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a connection without clap, which would read the environment of the test process.
    fn open(
        connection_string: &str,
        endpoint: Option<&str>,
        key: Option<&str>,
    ) -> Result<Connection, String> {
        let secret = |text: &str| Secret(text.to_owned());
        let connection = Connection {
            origin: Origin::default(),
            endpoint: endpoint.map(str::to_owned),
            key: key.map(secret),
            connection_string: Some(secret(connection_string)),
            token: None,
            token_command: None,
            payload_keys: None,
            database: "duroxide".to_owned(),
            container: "duroxide".to_owned(),
            timeout: 30,
            accept_invalid_certificate: false,
            client: OnceLock::new(),
        };
        match connection.client() {
            Ok(_) => Ok(connection),
            Err(failure) => Err(failure.text("cdb")),
        }
    }

    #[test]
    fn options_complete_and_override_a_connection_string() {
        let here = "http://localhost:8081/";
        let key_alone = format!("accountkey={};", MasterKey::EMULATOR);
        let connections = [
            open(&format!("AccountEndpoint={here}"), None, None),
            open(
                &format!("AccountEndpoint={here}"),
                None,
                Some(MasterKey::EMULATOR),
            ),
            open(&key_alone, Some(here), None),
            open("AccountEndpoint=https://nowhere.invalid/", Some(here), None),
        ];
        for connection in connections {
            let connection = connection.unwrap();
            assert_eq!(connection.shown_endpoint(), here);
            assert!(connection.is_loopback());
        }
        let error = open(&key_alone, None, None).unwrap_err();
        assert!(error.contains("pass --endpoint"), "{error}");
    }

    #[test]
    fn the_well_known_key_is_used_for_loopback_endpoints_only() {
        let elsewhere = "AccountEndpoint=https://shop.documents.azure.com:443/";
        let error = open(elsewhere, None, None).unwrap_err();
        assert!(error.contains("no key given"), "{error}");
        let connection = open(elsewhere, None, Some(MasterKey::EMULATOR)).unwrap();
        assert!(!connection.is_loopback());
    }

    #[test]
    fn certificate_checks_can_be_disabled_for_loopback_endpoints_only() {
        let unchecked = "DisableServerCertificateValidation=true";
        let at = |endpoint: &str| {
            let text = format!("AccountEndpoint={endpoint};{unchecked}");
            open(&text, None, Some(MasterKey::EMULATOR))
        };
        assert!(at("https://localhost:8081").is_ok());
        let error = at("https://shop.documents.azure.com").unwrap_err();
        assert!(error.contains("loopback hosts only"), "{error}");
    }

    #[test]
    fn errors_and_debug_output_show_no_secret() {
        for text in [
            "hunter2",
            "AccountEndpoint=hunter2+/=;AccountKey=x",
            "AccountKey=hunter2",
        ] {
            let error = open(text, None, None).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert!(!format!("{:?}", Secret("hunter2".to_owned())).contains("hunter2"));
    }
}
