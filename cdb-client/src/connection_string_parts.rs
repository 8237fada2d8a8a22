//! The one parser of connection strings. It asks for neither part: who needs both has them
//! [completed](ConnectionStringParts::complete), who has the other part from elsewhere adds it.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

use crate::config::CosmosClientBuilder;
use crate::endpoint::without_secrets;
use crate::error::{Error, Result};

const FORM: &str = "expected `AccountEndpoint=https://…;AccountKey=…;`, as in the portal";

/// What a connection string says, be it only the endpoint or only the key: for a program that has the other part from
/// elsewhere, such as a key from a vault, or an Entra ID token instead of one. Makes a client only of an endpoint, and a
/// [`ConnectionString`](crate::ConnectionString) only of both.
///
/// ```
/// use cdb_client::{ConnectionStringParts, MasterKey};
/// # let key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
/// # let key_from_a_vault = || MasterKey::new(key);
///
/// let account: ConnectionStringParts = "AccountEndpoint=https://shop.documents.azure.com:443/;".parse()?;
/// assert_eq!(account.key(), None);
/// let client = account.client()?.credential(key_from_a_vault()?).build()?;
///
/// let incomplete = account.complete().unwrap_err();
/// assert!(incomplete.to_string().contains("has no AccountKey"));
/// # drop(client);
/// # Ok::<(), cdb_client::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct ConnectionStringParts {
    pub(crate) address: Option<AccountAddress>,
    pub(crate) key: Option<Zeroizing<String>>,
}

/// Where an account is. Whether its certificate goes unchecked belongs to the address, so it never goes over to another.
#[derive(Clone)]
pub(crate) struct AccountAddress {
    pub(crate) endpoint: String,
    pub(crate) any_certificate: bool,
}

impl ConnectionStringParts {
    /// Reads what is there, with the rules of [`ConnectionString::parse`](crate::ConnectionString::parse). Whether a part can be right is checked when it is
    /// used.
    ///
    /// # Errors
    /// When it has another form, or names neither endpoint nor key. The message shows nothing of it.
    pub fn parse(text: &str) -> Result<Self> {
        let refused = |why: &str| Err(Error::configuration(format!("{why}; {FORM}")));
        let (mut endpoint, mut key, mut any_certificate) = (None, None, false);
        let settings = text.split(';').map(str::trim);
        for setting in settings.filter(|setting| !setting.is_empty()) {
            // The key is base64: its own `=` belong to it.
            let Some((name, value)) = setting.split_once('=') else {
                return refused("no connection string");
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

    /// Puts this address in the place of the one that was read. Its certificate is checked, whatever was read.
    #[must_use]
    pub fn with_endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.address = Some(AccountAddress {
            endpoint: endpoint.into(),
            any_certificate: false,
        });
        self
    }

    /// Puts this key in the place of the one that was read.
    #[must_use]
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(Zeroizing::new(key.into()));
        self
    }

    /// The account's address, if it is known.
    pub fn endpoint(&self) -> Option<&str> {
        self.address
            .as_ref()
            .map(|address| address.endpoint.as_str())
    }

    /// Its key, base64, if it is known: a secret.
    pub fn key(&self) -> Option<&str> {
        self.key.as_ref().map(|key| key.as_str())
    }

    /// Starts setting up a client of the account. Its credential is still to be given, also where the key is known.
    ///
    /// # Errors
    /// When the endpoint is not known, or cannot work.
    pub fn client(&self) -> Result<CosmosClientBuilder> {
        let address = self.address.as_ref();
        let builder = address.ok_or_else(|| missing("AccountEndpoint"))?.builder();
        builder.check_endpoint()?;
        Ok(builder)
    }
}

pub(crate) fn missing(part: &str) -> Error {
    Error::configuration(format!("connection string has no {part}; {FORM}"))
}

impl AccountAddress {
    pub(crate) fn builder(&self) -> CosmosClientBuilder {
        CosmosClientBuilder::new(&*self.endpoint)
            .accept_invalid_certificates_on_loopback(self.any_certificate)
    }
}

impl FromStr for ConnectionStringParts {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
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

    fn parse(text: &str) -> ConnectionStringParts {
        ConnectionStringParts::parse(text).unwrap()
    }

    #[test]
    fn one_part_alone_is_read_and_its_key_keeps_its_padding() {
        let key = parse("accountkey = c2VjcmV0== ;");
        assert_eq!((key.endpoint(), key.key()), (None, Some("c2VjcmV0==")));
        let endpoint = parse("AccountEndpoint=https://a.documents.azure.com:443/");
        assert_eq!(
            (endpoint.endpoint(), endpoint.key()),
            (Some("https://a.documents.azure.com:443/"), None)
        );
    }

    #[test]
    fn what_names_no_account_is_refused_and_not_repeated() {
        for text in ["hunter2", "password=hunter2", "", ";;"] {
            let error = ConnectionStringParts::parse(text).unwrap_err().to_string();
            assert!(
                error.contains("AccountEndpoint=https://…;AccountKey=…;"),
                "{error}"
            );
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn what_is_missing_can_come_from_elsewhere() {
        let key = cdb_emulator::WELL_KNOWN_KEY;
        let account = parse(&format!("AccountKey={key}"));
        let error = account.client().unwrap_err();
        assert!(
            error.to_string().contains("has no AccountEndpoint"),
            "{error}"
        );
        let account = account.with_endpoint("http://localhost:8081").complete();
        assert_eq!(account.unwrap().endpoint(), "http://localhost:8081");
        let account = parse("AccountEndpoint=http://localhost:8081").with_key("short");
        assert!(account.client().is_ok(), "whose key it is not is not asked");
        let error = account.complete().unwrap_err().to_string();
        assert!(error.contains("account key"), "{error}");
    }

    #[test]
    fn an_address_that_cannot_work_makes_no_client() {
        let error = parse("AccountEndpoint=my-account").client().unwrap_err();
        assert!(
            error.to_string().contains("`my-account` is no URL"),
            "{error}"
        );
    }

    #[test]
    fn debug_shows_no_secret() {
        let parts = parse("AccountEndpoint=https://me:hunter2@x/;AccountKey=hunter2");
        assert!(!format!("{parts:?}").contains("hunter2"));
    }
}
