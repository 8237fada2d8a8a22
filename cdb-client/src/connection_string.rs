//! An account as the portal hands it out, `AccountEndpoint=…;AccountKey=…;`, and as programs are told of it by
//! environment variables. Both are read once and checked at once; the key is never shown, and wiped from memory.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

use crate::client::CosmosClient;
use crate::config::CosmosClientBuilder;
use crate::connection_string_parts::{AccountAddress, ConnectionStringParts, missing};
use crate::credentials::MasterKey;
use crate::error::{Error, Result};

/// Endpoint and key of an account, from one text. Where one of them comes from elsewhere, read
/// [`ConnectionStringParts`].
///
/// ```
/// use cdb_client::{ConnectionString, CosmosClient};
/// # let key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
///
/// let text = format!("AccountEndpoint=http://localhost:8081/;AccountKey={key};");
/// let account: ConnectionString = text.parse()?;
/// assert_eq!(account.endpoint(), "http://localhost:8081/");
/// assert!(!format!("{account:?}").contains(key));
/// let client = account.client()?.application("shop").build()?;
/// # Ok::<(), cdb_client::Error>(())
/// ```
#[derive(Clone)]
pub struct ConnectionString {
    address: AccountAddress,
    key: Zeroizing<String>,
}

impl ConnectionString {
    /// Reads the portal's form. Names count whatever their case, unknown settings are none of ours. What .NET calls
    /// `DisableServerCertificateValidation` is
    /// [`accept_invalid_certificates_on_loopback`](CosmosClientBuilder::accept_invalid_certificates_on_loopback) here, with
    /// its limits.
    ///
    /// # Errors
    /// When it has another form, or one of its parts is missing or cannot be right. The message shows no key.
    pub fn parse(text: &str) -> Result<Self> {
        ConnectionStringParts::parse(text)?.complete()
    }

    /// From `COSMOS_ENDPOINT` and `COSMOS_KEY`; where one of them is not set or empty, from `COSMOS_CONNECTION_STRING`.
    ///
    /// # Errors
    /// Names the variable that is missing, or says what is wrong with its value.
    ///
    /// ```no_run
    /// let account = cdb_client::ConnectionString::from_env()?;
    /// println!("using {}", account.endpoint());
    /// # Ok::<(), cdb_client::Error>(())
    /// ```
    pub fn from_env() -> Result<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    pub(crate) fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
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
                "set the environment variable {name}, or COSMOS_CONNECTION_STRING"
            ))
        };
        match (parts.endpoint(), parts.key()) {
            (None, _) => Err(missing("COSMOS_ENDPOINT")),
            (_, None) => Err(missing("COSMOS_KEY")),
            _ => parts.complete(),
        }
    }

    /// Both parts are there; checks that they can be right.
    fn checked(address: AccountAddress, key: Zeroizing<String>) -> Result<Self> {
        address.builder().check_endpoint()?;
        MasterKey::new(&key)?;
        Ok(Self { address, key })
    }

    /// The account's address.
    pub fn endpoint(&self) -> &str {
        &self.address.endpoint
    }

    /// Its key, base64: a secret.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether it asks for certificates of an emulator on this machine to be accepted unchecked.
    pub fn accepts_invalid_certificates_on_loopback(&self) -> bool {
        self.address.any_certificate
    }

    /// Starts setting up a client of the account that signs with its key.
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
    /// The account, with both of its parts.
    ///
    /// # Errors
    /// When one is missing, or cannot be right. The message shows no key.
    pub fn complete(self) -> Result<ConnectionString> {
        let address = self.address.ok_or_else(|| missing("AccountEndpoint"))?;
        let key = self.key.ok_or_else(|| missing("AccountKey"))?;
        ConnectionString::checked(address, key)
    }
}

impl CosmosClient {
    /// Starts setting up a client of the account that the environment names: `COSMOS_ENDPOINT` and `COSMOS_KEY`, or
    /// `COSMOS_CONNECTION_STRING`. See [`ConnectionString`] for an account from elsewhere.
    ///
    /// # Errors
    /// As [`ConnectionString::from_env`].
    ///
    /// ```no_run
    /// let client = cdb_client::CosmosClient::from_env()?.application("shop").build()?;
    /// # Ok::<(), cdb_client::Error>(())
    /// ```
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

impl fmt::Debug for ConnectionString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionString")
            .field("address", &self.address)
            .field("key", &"<redacted>")
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

    #[track_caller]
    fn refuses(text: &str, because: &str) {
        let error = ConnectionString::parse(text).unwrap_err();
        assert!(error.to_string().contains(because), "{error}");
        for shown in [error.to_string(), format!("{error:?}")] {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }

    #[test]
    fn the_portals_form_is_read_with_the_keys_padding() {
        let text = format!("AccountEndpoint=https://a.documents.azure.com:443/;AccountKey={KEY};");
        let account = ConnectionString::parse(&text).unwrap();
        assert_eq!(account.endpoint(), "https://a.documents.azure.com:443/");
        assert_eq!(account.key(), KEY);
        assert!(!account.accepts_invalid_certificates_on_loopback());
        assert!(account.client().unwrap().build().is_ok());
    }

    #[test]
    fn names_in_any_case_spaces_and_unknown_settings_do_no_harm() {
        let text =
            format!(" accountkey = {KEY} ; Database=x;ACCOUNTENDPOINT=http://localhost:8081");
        let account = ConnectionString::parse(&text).unwrap();
        assert_eq!(
            (account.endpoint(), account.key()),
            ("http://localhost:8081", KEY)
        );
    }

    #[test]
    fn what_cannot_be_right_is_refused_and_not_shown() {
        refuses("hunter2", "no connection string");
        refuses("AccountKey=hunter2;", "has no AccountEndpoint");
        refuses("AccountEndpoint=https://x/", "has no AccountKey");
        refuses("AccountEndpoint=https://x/;AccountKey=hunter2", "base64");
        refuses(
            &format!("AccountEndpoint=https://me:hunter2@x/;AccountKey={KEY}"),
            "user or password",
        );
    }

    #[test]
    fn certificates_stay_checked_beyond_this_machine() {
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
    fn variables_of_their_own_come_before_the_connection_string() {
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
    fn unchecked_certificates_stay_with_the_address_that_asked_for_them() {
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
    fn debug_shows_no_key() {
        let text = format!("AccountEndpoint=http://localhost:1;AccountKey={KEY}");
        let shown = format!("{:?}", ConnectionString::parse(&text).unwrap());
        assert!(!shown.contains(KEY), "{shown}");
    }
}
