//! Connection strings: `AccountEndpoint=…;AccountKey=…;`, as the portal shows them, and the
//! environment variables that name an account. The key is never shown, and is wiped from memory.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

use crate::account::{CosmosClient, CosmosClientBuilder};
use crate::credential::MasterKey;
use crate::error::{Error, Result};
use crate::transport::endpoint::without_secrets;

const FORM: &str = "expected `AccountEndpoint=https://…;AccountKey=…;`, as in the portal";

/// Endpoint and key of an account.
///
/// ```
/// use cdb_client::ConnectionString;
///
/// let text = format!("AccountEndpoint=http://localhost:8081/;AccountKey={};", cdb_emulator::WELL_KNOWN_KEY);
/// let account: ConnectionString = text.parse()?;
/// assert_eq!(account.endpoint(), "http://localhost:8081/");
/// let client = account.client()?.application("shop").build()?;
/// # Ok::<(), cdb_client::Error>(())
/// ```
#[derive(Clone)]
pub struct ConnectionString {
    address: AccountAddress,
    key: Zeroizing<String>,
}

/// A connection string that may lack the endpoint or the key.
///
/// For a program that has the other part from elsewhere, such as a key from a vault, or that uses
/// an Entra ID token instead of a key.
#[derive(Clone, Default)]
pub struct ConnectionStringParts {
    address: Option<AccountAddress>,
    key: Option<Zeroizing<String>>,
}

/// The address of an account. Whether its certificate goes unchecked is part of it, so that another
/// endpoint never inherits the permission.
#[derive(Clone)]
struct AccountAddress {
    endpoint: String,
    any_certificate: bool,
}

/// The variables of [`ConnectionString::from_env`].
const VARIABLES: [&str; 3] = ["COSMOS_CONNECTION_STRING", "COSMOS_ENDPOINT", "COSMOS_KEY"];

impl ConnectionString {
    /// Parses a connection string. The case of names does not matter; unknown settings are ignored.
    /// The .NET setting `DisableServerCertificateValidation` becomes
    /// [`accept_invalid_certificates_on_loopback`](CosmosClientBuilder::accept_invalid_certificates_on_loopback),
    /// with its limits.
    ///
    /// # Errors
    /// When `text` has another form, or a part is missing or invalid. The message does not show the
    /// key.
    pub fn parse(text: &str) -> Result<Self> {
        ConnectionStringParts::parse(text)?.complete()
    }

    /// Reads `COSMOS_ENDPOINT` and `COSMOS_KEY`. A variable that is not set or empty falls back to
    /// `COSMOS_CONNECTION_STRING`.
    ///
    /// # Errors
    /// Names the variable that is missing or invalid.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// Reads the variables of [`from_env`](Self::from_env), or `default` if none of them is set:
    /// usually the connection string of an emulator. A partial or invalid account in the
    /// environment fails, because a fallback to `default` would look like success.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env), and when `default` is not a connection string.
    pub fn from_env_or(default: &str) -> Result<Self> {
        Self::from_variables_or(|name| std::env::var(name).ok(), default)
    }

    fn from_variables_or(variable: impl Fn(&str) -> Option<String>, default: &str) -> Result<Self> {
        let is_set = |name| variable(name).is_some_and(|value| !value.trim().is_empty());
        if VARIABLES.into_iter().any(is_set) {
            Self::from_variables(variable)
        } else {
            Self::parse(default)
        }
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let variable =
            |name: &str| variable(name).filter(|value: &String| !value.trim().is_empty());
        let mut parts = match variable("COSMOS_CONNECTION_STRING") {
            Some(text) => ConnectionStringParts::parse(&text)?,
            None => ConnectionStringParts::default(),
        };
        if let Some(endpoint) = variable("COSMOS_ENDPOINT") {
            parts = parts.with_endpoint(endpoint);
        }
        if let Some(key) = variable("COSMOS_KEY") {
            parts = parts.with_key(key);
        }
        let missing = |name: &str| {
            Error::configuration(format!(
                "set the environment variable {name}, or COSMOS_CONNECTION_STRING; without an account, `cdb emulator` prints these variables"
            ))
        };
        match (parts.endpoint(), parts.key()) {
            (None, _) => Err(missing("COSMOS_ENDPOINT")),
            (_, None) => Err(missing("COSMOS_KEY")),
            _ => parts.complete(),
        }
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &str {
        &self.address.endpoint
    }

    /// Returns the account key in base64: a secret.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether the connection string asks to accept any certificate of an emulator on this machine.
    pub fn accepts_invalid_certificates_on_loopback(&self) -> bool {
        self.address.any_certificate
    }

    /// Starts a client of the account that signs with the account key.
    ///
    /// # Errors
    /// None that [`parse`](Self::parse) would not have reported.
    pub fn client(&self) -> Result<CosmosClientBuilder> {
        Ok(self
            .address
            .builder()
            .credential(MasterKey::new(&self.key)?))
    }
}

impl ConnectionStringParts {
    /// Parses a connection string by the rules of [`ConnectionString::parse`]. Each part is checked
    /// when it is used.
    ///
    /// # Errors
    /// When `text` has another form, or names neither endpoint nor key. The message does not quote
    /// `text`.
    pub fn parse(text: &str) -> Result<Self> {
        let refused = |why: &str| Err(Error::configuration(format!("{why}; {FORM}")));
        let (mut endpoint, mut key, mut any_certificate) = (None, None, false);
        let settings = text.split(';').map(str::trim);
        for setting in settings.filter(|setting| !setting.is_empty()) {
            // A base64 key may contain `=`, so only the first one separates.
            let Some((name, value)) = setting.split_once('=') else {
                return refused("text is not a connection string");
            };
            let (name, value) = (name.trim(), value.trim());
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            if is("AccountEndpoint") {
                endpoint = Some(value.to_owned());
            } else if is("AccountKey") {
                key = Some(Zeroizing::new(value.to_owned()));
            } else if is("DisableServerCertificateValidation") {
                any_certificate = value.eq_ignore_ascii_case("true");
            }
        }
        if endpoint.is_none() && key.is_none() {
            return refused("connection string has neither AccountEndpoint nor AccountKey");
        }
        let address = endpoint.map(|endpoint| AccountAddress {
            endpoint,
            any_certificate,
        });
        Ok(Self { address, key })
    }

    /// Replaces the endpoint. The certificate of the new endpoint is always checked.
    #[must_use]
    pub fn with_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.address = Some(AccountAddress {
            endpoint: endpoint.into(),
            any_certificate: false,
        });
        self
    }

    /// Replaces the key.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(Zeroizing::new(key.into()));
        self
    }

    /// Returns the endpoint, if it is known.
    pub fn endpoint(&self) -> Option<&str> {
        self.address
            .as_ref()
            .map(|address| address.endpoint.as_str())
    }

    /// Returns the account key in base64, if it is known: a secret.
    pub fn key(&self) -> Option<&str> {
        self.key.as_ref().map(|key| key.as_str())
    }

    /// Starts a client of the account. The caller sets the credential, even where the key is known.
    ///
    /// # Errors
    /// When the endpoint is missing or invalid.
    pub fn client(&self) -> Result<CosmosClientBuilder> {
        let address = self.address.as_ref();
        let builder = address.ok_or_else(|| missing("AccountEndpoint"))?.builder();
        builder.check_endpoint()?;
        Ok(builder)
    }

    /// Returns the connection string once both parts are known.
    ///
    /// # Errors
    /// When a part is missing or invalid. The message does not show the key.
    pub fn complete(self) -> Result<ConnectionString> {
        let address = self.address.ok_or_else(|| missing("AccountEndpoint"))?;
        let key = self.key.ok_or_else(|| missing("AccountKey"))?;
        address.builder().check_endpoint()?;
        MasterKey::new(&key)?;
        Ok(ConnectionString { address, key })
    }
}

fn missing(part: &str) -> Error {
    Error::configuration(format!("connection string has no {part}; {FORM}"))
}

impl AccountAddress {
    fn builder(&self) -> CosmosClientBuilder {
        CosmosClientBuilder::new(&*self.endpoint)
            .accept_invalid_certificates_on_loopback(self.any_certificate)
    }
}

impl CosmosClient {
    /// Starts a client of the account that the environment names: `COSMOS_ENDPOINT` and
    /// `COSMOS_KEY`, or `COSMOS_CONNECTION_STRING`.
    ///
    /// ```no_run
    /// let client = cdb_client::CosmosClient::from_env()?.application("shop").build()?;
    /// # Ok::<(), cdb_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ConnectionString::from_env`].
    pub fn from_env() -> Result<CosmosClientBuilder> {
        ConnectionString::from_env()?.client()
    }
}

impl FromStr for ConnectionString {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl FromStr for ConnectionStringParts {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Debug for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionString")
            .field("address", &self.address)
            .field("key", &"<redacted>")
            .finish()
    }
}

impl fmt::Debug for ConnectionStringParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionStringParts")
            .field("address", &self.address)
            .field("key", &self.key.as_ref().map(|_| "<redacted>"))
            .finish()
    }
}

impl fmt::Debug for AccountAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountAddress")
            .field("endpoint", &without_secrets(&self.endpoint))
            .field("any_certificate", &self.any_certificate)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = cdb_emulator::WELL_KNOWN_KEY;

    #[track_caller]
    fn refuses(text: &str, because: &str) {
        let error = ConnectionString::parse(text).unwrap_err();
        assert!(error.to_string().contains(because), "{error}");
        for shown in [error.to_string(), format!("{error:?}")] {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    fn parts(text: &str) -> ConnectionStringParts {
        ConnectionStringParts::parse(text).unwrap()
    }

    #[test]
    fn the_form_of_the_portal_is_read_with_the_padding_of_the_key() {
        let text = format!("AccountEndpoint=https://a.documents.azure.com:443/;AccountKey={KEY};");
        let account = ConnectionString::parse(&text).unwrap();
        assert_eq!(account.endpoint(), "https://a.documents.azure.com:443/");
        assert_eq!(account.key(), KEY);
        assert!(!account.accepts_invalid_certificates_on_loopback());
        assert!(account.client().unwrap().build().is_ok());
    }

    #[test]
    fn case_spaces_and_unknown_settings_are_ignored() {
        let text =
            format!(" accountkey = {KEY} ; Database=x;ACCOUNTENDPOINT=http://localhost:8081");
        let account = ConnectionString::parse(&text).unwrap();
        assert_eq!(
            (account.endpoint(), account.key()),
            ("http://localhost:8081", KEY)
        );
    }

    #[test]
    fn an_invalid_connection_string_is_refused_and_not_quoted() {
        refuses("hunter2", "not a connection string");
        refuses("AccountKey=hunter2;", "has no AccountEndpoint");
        refuses("AccountEndpoint=https://x/", "has no AccountKey");
        refuses("AccountEndpoint=https://x/;AccountKey=hunter2", "base64");
        refuses(
            &format!("AccountEndpoint=https://me:hunter2@x/;AccountKey={KEY}"),
            "user or password",
        );
        for text in ["hunter2", "password=hunter2", "", ";;"] {
            refuses(text, "AccountEndpoint=https://…;AccountKey=…;");
        }
    }

    #[test]
    fn certificates_of_other_machines_are_always_checked() {
        let at = |endpoint: &str| {
            let text = format!(
                "AccountEndpoint={endpoint};AccountKey={KEY};DisableServerCertificateValidation=True"
            );
            ConnectionString::parse(&text)?.client()?.build()
        };
        assert!(at("https://localhost:8081/").is_ok());
        let error = at("https://a.documents.azure.com/").unwrap_err();
        assert!(error.to_string().contains("loopback hosts only"), "{error}");
    }

    #[test]
    fn endpoint_and_key_variables_take_precedence_over_the_connection_string() {
        let text = format!("AccountEndpoint=http://localhost:1;AccountKey={KEY}");
        let account = ConnectionString::from_variables(|name| match name {
            "COSMOS_ENDPOINT" => Some("http://localhost:2".to_owned()),
            "COSMOS_KEY" => Some(" ".to_owned()),
            "COSMOS_CONNECTION_STRING" => Some(text.clone()),
            _ => None,
        });
        assert_eq!(account.unwrap().endpoint(), "http://localhost:2");
    }

    #[test]
    fn another_endpoint_does_not_inherit_unchecked_certificates() {
        let text = format!(
            "AccountEndpoint=https://localhost:1;AccountKey={KEY};DisableServerCertificateValidation=true"
        );
        let account = |own: Option<&str>| {
            ConnectionString::from_variables(|name| match name {
                "COSMOS_ENDPOINT" => own.map(str::to_owned),
                "COSMOS_CONNECTION_STRING" => Some(text.clone()),
                _ => None,
            })
        };
        let own = account(Some("https://a.documents.azure.com")).unwrap();
        assert!(!own.accepts_invalid_certificates_on_loopback());
        let strings = account(None).unwrap();
        assert!(strings.accepts_invalid_certificates_on_loopback());
    }

    #[test]
    fn a_missing_variable_is_named() {
        let endpoint_alone =
            |name: &str| (name == "COSMOS_ENDPOINT").then(|| "http://localhost:8081".to_owned());
        let error = ConnectionString::from_variables(endpoint_alone).unwrap_err();
        assert!(error.to_string().contains("COSMOS_KEY"), "{error}");
        let error = ConnectionString::from_variables(|_| None).unwrap_err();
        assert!(error.to_string().contains("COSMOS_ENDPOINT"), "{error}");
    }

    #[test]
    fn a_missing_part_can_come_from_elsewhere() {
        let account = parts(&format!("AccountKey={KEY}"));
        assert_eq!((account.endpoint(), account.key()), (None, Some(KEY)));
        let error = account.client().unwrap_err();
        assert!(
            error.to_string().contains("has no AccountEndpoint"),
            "{error}"
        );
        let account = account.with_endpoint("http://localhost:8081").complete();
        assert_eq!(account.unwrap().endpoint(), "http://localhost:8081");
        let account = parts("AccountEndpoint=http://localhost:8081").with_key("short");
        assert!(account.client().is_ok(), "the key is not used");
        let error = account.complete().unwrap_err().to_string();
        assert!(error.contains("account key"), "{error}");
    }

    #[test]
    fn an_invalid_endpoint_makes_no_client() {
        let error = parts("AccountEndpoint=my-account").client().unwrap_err();
        assert!(
            error.to_string().contains("`my-account` is not a URL"),
            "{error}"
        );
    }

    #[test]
    fn debug_shows_no_secret() {
        let text = format!("AccountEndpoint=http://localhost:1;AccountKey={KEY}");
        let shown = format!("{:?}", ConnectionString::parse(&text).unwrap());
        assert!(!shown.contains(KEY), "{shown}");
        let parts = parts("AccountEndpoint=https://me:hunter2@x/;AccountKey=hunter2");
        assert!(!format!("{parts:?}").contains("hunter2"));
    }

    #[test]
    fn the_default_account_is_used_only_without_variables() {
        let default = format!("AccountEndpoint=http://localhost:1;AccountKey={KEY};");
        let account = |variable: fn(&str) -> Option<String>| {
            let account = ConnectionString::from_variables_or(variable, &default);
            account.map(|account| account.endpoint().to_owned())
        };
        assert_eq!(account(|_| None).unwrap(), "http://localhost:1");
        assert_eq!(
            account(|_| Some(" ".to_owned())).unwrap(),
            "http://localhost:1"
        );
        let partial = account(|name| (name == "COSMOS_KEY").then(|| KEY.to_owned()));
        let error = partial.unwrap_err().to_string();
        assert!(error.contains("COSMOS_ENDPOINT"), "{error}");
    }
}
