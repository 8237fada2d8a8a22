//! Resource tokens: rights to single containers, items or partitions, issued by a program that has
//! the account key.
//!
//! A resource token is a complete authorization (protocol.md 1.3). It is valid for ten minutes to a
//! day, so the issuer passes a new one to [`ResourceTokens::insert`] in time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use zeroize::Zeroizing;

use crate::credential::{Authorization, Credential, SigningContext};
use crate::error::{Error, ErrorKind, Result};

/// Authorizes a request with the token of its resource, or else of the nearest parent with a token.
/// Clones share the tokens.
///
/// ```
/// use cdb_client::{CosmosClient, ResourceTokens};
///
/// let tokens = ResourceTokens::default();
/// tokens.insert("dbs/shop/colls/orders", "type=resource&ver=1&sig=NVeoo+A8ZH7IL+TEYWzfZQ==;4a0dNg==;")?;
/// let builder = CosmosClient::builder("https://account.documents.azure.com");
/// let client = builder.credential(tokens.clone()).build()?;
/// // Before the token expires: the client uses the new one from its next request on.
/// tokens.insert("dbs/shop/colls/orders", "type=resource&ver=1&sig=c09PEVJrgp2uQRkr934kFQ==;4a0dNh==;")?;
/// # Ok::<(), cdb_client::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct ResourceTokens {
    tokens: Arc<RwLock<BTreeMap<String, Zeroizing<String>>>>,
}

impl ResourceTokens {
    /// Uses `token` for the resource with this link, such as `dbs/shop/colls/orders`, and for its
    /// descendants, in every clone from the next request on.
    ///
    /// # Errors
    /// When `token` is not a resource token. The message does not quote it.
    pub fn insert(&self, link: &str, token: &str) -> Result<()> {
        let plain = Zeroizing::new(
            percent_decode_str(token.trim())
                .decode_utf8_lossy()
                .into_owned(),
        );
        if !plain.starts_with("type=resource&") || !plain.contains("&sig=") {
            return Err(Error::configuration(
                "resource token does not begin with `type=resource&`; use it as the permission shows it",
            ));
        }
        let header = Zeroizing::new(utf8_percent_encode(&plain, NON_ALPHANUMERIC).to_string());
        self.tokens
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(link.trim_matches('/').to_owned(), header);
        Ok(())
    }
}

#[async_trait]
impl Credential for ResourceTokens {
    async fn authorize(&self, context: &SigningContext<'_>) -> Result<Authorization> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let mut link = context.resource_link;
        loop {
            if let Some(token) = tokens.get(link) {
                return Authorization::new(token, 0);
            }
            let Some((parent, _)) = link.rsplit_once('/') else {
                break;
            };
            link = parent;
        }
        Err(Error::new(
            ErrorKind::Unauthorized,
            format!(
                "no resource token covers `{}`; insert one for it or for its container",
                context.resource_link
            ),
        ))
    }
}

impl fmt::Debug for ResourceTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("ResourceTokens")
            .field("links", &tokens.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    async fn header(tokens: &ResourceTokens, link: &str) -> Result<String> {
        let context = SigningContext {
            verb: &Method::GET,
            resource_type: "docs",
            resource_link: link,
            date: "Wed, 21 Oct 2015 07:28:00 GMT",
        };
        let authorization = tokens.authorize(&context).await?;
        Ok(authorization.header().to_str().unwrap().to_owned())
    }

    #[tokio::test]
    async fn a_request_uses_the_token_of_the_nearest_resource() {
        let tokens = ResourceTokens::default();
        tokens
            .insert("/dbs/a/colls/b/", "type=resource&ver=1&sig=wide")
            .unwrap();
        tokens
            .insert(
                "dbs/a/colls/b/docs/c",
                "type%3Dresource%26ver%3D1%26sig%3Dnarrow",
            )
            .unwrap();
        for (link, signature) in [
            ("dbs/a/colls/b", "wide"),
            ("dbs/a/colls/b/docs/other", "wide"),
            ("dbs/a/colls/b/docs/c", "narrow"),
        ] {
            let expected = format!("type%3Dresource%26ver%3D1%26sig%3D{signature}");
            assert_eq!(header(&tokens, link).await.unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn a_request_that_no_token_covers_is_refused() {
        let tokens = ResourceTokens::default();
        tokens
            .insert("dbs/a/colls/b", "type=resource&ver=1&sig=x")
            .unwrap();
        for link in ["dbs/a/colls/bc", "dbs/a", "dbs", ""] {
            let error = header(&tokens, link).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unauthorized);
        }
    }

    #[tokio::test]
    async fn a_new_token_replaces_the_old_one_in_every_clone() {
        let tokens = ResourceTokens::default();
        let clone = tokens.clone();
        tokens
            .insert("dbs/a/colls/b", "type=resource&ver=1&sig=old")
            .unwrap();
        tokens
            .insert("dbs/a/colls/b", "type=resource&ver=1&sig=new")
            .unwrap();
        assert!(
            header(&clone, "dbs/a/colls/b")
                .await
                .unwrap()
                .ends_with("new")
        );
    }

    #[test]
    fn errors_and_debug_show_no_token() {
        let tokens = ResourceTokens::default();
        let error = tokens
            .insert("dbs/a", "type=master&ver=1.0&sig=hunter2")
            .unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
        tokens
            .insert("dbs/a", "type=resource&ver=1&sig=hunter2")
            .unwrap();
        assert!(!format!("{tokens:?}").contains("hunter2"));
    }
}
