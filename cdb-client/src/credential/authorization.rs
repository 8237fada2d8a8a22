//! The trait that authorizes requests.
//!
//! It is asynchronous because a token may have to be fetched. It is called once per attempt because
//! a signature is valid for 15 minutes around its date, and a retry may come later than that.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderValue, Method};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{Error, Result};

/// The parts of a request that a signature covers.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SigningContext<'a> {
    /// The HTTP method.
    pub verb: &'a Method,
    /// `dbs`, `colls`, `docs` or `pkranges`; empty for the account document.
    pub resource_type: &'a str,
    /// The link of the resource, in its original case and not percent-encoded.
    pub resource_link: &'a str,
    /// The value of `x-ms-date`.
    pub date: &'a str,
}

/// Authorizes requests. Implementations never show a secret in `Debug` or in an error.
///
/// ```
/// use cdb_client::MasterKey;
/// use cdb_client::credential::{Authorization, Credential, SigningContext};
/// use cdb_client::transport::async_trait;
///
/// /// Signs with a key, and prints each request.
/// #[derive(Debug)]
/// struct Audited(MasterKey);
///
/// #[async_trait]
/// impl Credential for Audited {
///     async fn authorize(&self, context: &SigningContext<'_>) -> cdb_client::Result<Authorization> {
///         println!("{} {}", context.verb, context.resource_link);
///         self.0.authorize(context).await
///     }
///
///     fn refused(&self, authorization: &Authorization) {
///         self.0.refused(authorization);
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a credential",
    note = "an account key is `MasterKey::new(key)?`"
)]
#[async_trait]
pub trait Credential: fmt::Debug + Send + Sync + 'static {
    /// Authorizes one attempt.
    ///
    /// # Errors
    /// When there is no authorization; the call then fails with this error and is not sent.
    async fn authorize(&self, context: &SigningContext<'_>) -> Result<Authorization>;

    /// Called when the service refused this authorization (401). The client retries at most twice;
    /// a credential with another secret or a cached token switches here.
    fn refused(&self, _authorization: &Authorization) {}
}

#[async_trait]
impl Credential for Arc<dyn Credential> {
    async fn authorize(&self, context: &SigningContext<'_>) -> Result<Authorization> {
        self.as_ref().authorize(context).await
    }

    fn refused(&self, authorization: &Authorization) {
        self.as_ref().refused(authorization);
    }
}

/// The value of one `Authorization` header. `Debug` does not show it.
#[derive(Clone)]
pub struct Authorization {
    header: HeaderValue,
    secret: u64,
}

impl Authorization {
    /// Creates an authorization from a percent-encoded header value. `secret` is the number of the
    /// key or token behind it, so that a late refusal of an old secret is not attributed to the new
    /// one.
    ///
    /// # Errors
    /// When `value` is not a valid header value.
    pub fn new(value: &str, secret: u64) -> Result<Self> {
        let mut header = HeaderValue::from_str(value).map_err(|_| {
            Error::configuration("authorization contains characters that a header cannot")
        })?;
        header.set_sensitive(true);
        Ok(Self { header, secret })
    }

    /// Creates an authorization from a token of Microsoft Entra ID. `secret` as in
    /// [`new`](Self::new).
    ///
    /// # Errors
    /// Never, for a token that Entra ID issued.
    pub fn from_entra_token(token: &str, secret: u64) -> Result<Self> {
        Self::new(&header_value("aad", "1.0", token), secret)
    }

    /// Returns the number of the key or token behind it.
    pub fn secret(&self) -> u64 {
        self.secret
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.header.clone()
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorization(<redacted>)")
    }
}

/// Formats the value of the `Authorization` header. Everything except letters and digits is
/// percent-encoded, once.
pub(crate) fn header_value(kind: &str, version: &str, signature: &str) -> String {
    let plain = format!("type={kind}&ver={version}&sig={signature}");
    utf8_percent_encode(&plain, NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signature of Microsoft's published example.
    #[test]
    fn a_header_value_escapes_all_but_letters_and_digits() {
        assert_eq!(
            header_value(
                "master",
                "1.0",
                "c09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu+c+c="
            ),
            "type%3Dmaster%26ver%3D1%2E0%26sig%3Dc09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu%2Bc%2Bc%3D"
        );
    }
}
