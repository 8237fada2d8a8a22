//! The trait between the client and whoever authorizes its requests.
//!
//! Asynchronous, because a token may have to be fetched; asked once per attempt, because a signature is valid for
//! 15 minutes around its date and a retry may come later than that.

use std::fmt;

use async_trait::async_trait;
use http::{HeaderValue, Method};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{Error, Result};

/// What a signature covers.
///
/// ```
/// use cdb_client::{Authorization, Credential, Error, MasterKey, SigningContext, async_trait};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{OrderKey, with_credential};
///
/// /// Signs what cannot change anything.
/// #[derive(Debug)]
/// struct ReadOnly(MasterKey);
///
/// #[async_trait]
/// impl Credential for ReadOnly {
///     async fn authorize(&self, context: &SigningContext<'_>) -> cdb_client::Result<Authorization> {
///         if *context.verb == cdb_client::http::Method::GET {
///             return self.0.authorize(context).await;
///         }
///         Err(Error::unauthorized(format!("{} of `{}` is not signed", context.verb, context.resource_link)))
///     }
/// }
///
/// # with_credential(ReadOnly, async |orders| {
/// let key = OrderKey::new("ann", 1_u64);
/// assert!(orders.read(&key).await?.is_none());
/// let refused = orders.delete(&key).await.unwrap_err();
/// assert_eq!(refused.to_string(), "DELETE of `dbs/shop/colls/orders/docs/ann:order:1` is not signed");
/// # Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SigningContext<'a> {
    /// The HTTP method.
    pub verb: &'a Method,
    /// `dbs`, `colls`, `docs`, `pkranges`.
    pub resource_type: &'a str,
    /// The resource's link as it is, case kept, nothing percent-encoded.
    pub resource_link: &'a str,
    /// The value of `x-ms-date`.
    pub date: &'a str,
}

/// Makes authorizations. Implementations never show a secret in `Debug` or in an error.
///
/// ```
/// use cdb_client::{Authorization, Credential, MasterKey, SigningContext, async_trait};
///
/// /// Signs with a key, and says what for.
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
#[async_trait]
pub trait Credential: fmt::Debug + Send + Sync + 'static {
    /// Authorizes one attempt.
    ///
    /// # Errors
    /// When no authorization can be made; the call fails with it, unsent.
    async fn authorize(&self, context: &SigningContext<'_>) -> Result<Authorization>;

    /// The service refused this authorization (401). The client tries again at most twice; a credential that has
    /// another secret, or a cached token, switches here.
    fn refused(&self, _authorization: &Authorization) {}
}

/// The value of one `Authorization` header. Its `Debug` does not show it.
///
/// ```
/// use cdb_client::Authorization;
///
/// // For a `Credential` whose tokens come from elsewhere. This is the second one that it fetched.
/// let authorization = Authorization::from_entra_token("eyJ0eXAiOiJKV1Qi", 2)?;
/// assert_eq!(authorization.secret(), 2);
/// assert_eq!(format!("{authorization:?}"), "Authorization(<redacted>)");
/// # Ok::<(), cdb_client::Error>(())
/// ```
#[derive(Clone)]
pub struct Authorization {
    header: HeaderValue,
    secret: u64,
}

impl Authorization {
    /// From the header's value, which must already be percent-encoded. `secret` numbers what made it, so that a late
    /// refusal of an old secret is not taken for one of the new.
    ///
    /// # Errors
    /// When `value` cannot stand in a header.
    pub fn new(value: &str, secret: u64) -> Result<Self> {
        let mut header = HeaderValue::from_str(value).map_err(|_| {
            Error::configuration("authorization holds characters that no header can")
        })?;
        header.set_sensitive(true);
        Ok(Self { header, secret })
    }

    /// From a token of Microsoft Entra ID, wherever it was fetched. `secret` as with [`new`](Self::new).
    ///
    /// # Errors
    /// Never, for a token as Entra ID makes them.
    pub fn from_entra_token(token: &str, secret: u64) -> Result<Self> {
        Self::new(&header_value("aad", "1.0", token), secret)
    }

    /// What made it.
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

/// The value of the `Authorization` header: everything but letters and digits is escaped, once.
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
