//! Account keys: primary and secondary, which can be rotated while the client runs.
//!
//! The portal regenerates one key while programs use the other. A client that knows both keys
//! switches to the other when the service refuses one. New keys take effect at once.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::sign;
use crate::credential::authorization::{Authorization, Credential, SigningContext, header_value};
use crate::error::{Error, Result};
use crate::transport::endpoint::is_connection_string;

/// Bytes of a decoded account key.
const KEY_BYTES: usize = 64;

/// Signs with an account key. Clones share the keys: keep one clone to [`replace`](Self::replace)
/// them.
///
/// ```
/// use cdb_client::{CosmosClient, MasterKey};
///
/// fn client(primary: &str, secondary: &str) -> cdb_client::Result<(CosmosClient, MasterKey)> {
///     let keys = MasterKey::new(primary)?.with_secondary(secondary)?;
///     let builder = CosmosClient::builder("https://account.documents.azure.com");
///     Ok((builder.credential(keys.clone()).build()?, keys))
/// }
///
/// /// After a rotation: the client uses the new key from its next request on.
/// fn rotated(keys: &MasterKey, new_primary: &str) -> cdb_client::Result<()> {
///     keys.replace(new_primary, None)
/// }
/// ```
#[derive(Clone)]
pub struct MasterKey {
    ring: Arc<RwLock<KeyRing>>,
}

struct KeyRing {
    primary: Zeroizing<Vec<u8>>,
    secondary: Option<Zeroizing<Vec<u8>>>,
    use_secondary: bool,
    /// Counts every change of the key in use.
    generation: u64,
}

impl MasterKey {
    /// The key of all Cosmos DB emulators. It is public and protects nothing.
    pub const EMULATOR: &str =
        "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

    /// Signs with `key`, in base64 as the portal shows it.
    ///
    /// # Errors
    /// When `key` is not an account key. The message does not quote it.
    pub fn new(key: &str) -> Result<Self> {
        Ok(Self {
            ring: Arc::new(RwLock::new(KeyRing {
                primary: parse_key(key)?,
                secondary: None,
                use_secondary: false,
                generation: 0,
            })),
        })
    }

    /// Adds the secondary key, which is used when the service refuses the primary.
    ///
    /// # Errors
    /// When `key` is not an account key.
    pub fn with_secondary(self, key: &str) -> Result<Self> {
        let secondary = parse_key(key)?;
        self.change(|ring| ring.secondary = Some(secondary));
        Ok(self)
    }

    /// Replaces the keys in every clone, from the next request on.
    ///
    /// # Errors
    /// When a key is not an account key; nothing changes then.
    pub fn replace(&self, primary: &str, secondary: Option<&str>) -> Result<()> {
        let primary = parse_key(primary)?;
        let secondary = secondary.map(parse_key).transpose()?;
        self.change(|ring| {
            ring.primary = primary;
            ring.secondary = secondary;
            ring.use_secondary = false;
        });
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut KeyRing)) {
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut ring);
        ring.generation += 1;
    }
}

fn parse_key(key: &str) -> Result<Zeroizing<Vec<u8>>> {
    let key = key.trim();
    if key.is_empty() {
        return Err(Error::configuration("account key is empty"));
    }
    if is_connection_string(key) {
        return Err(Error::configuration(
            "account key is a connection string; parse it as a `ConnectionString`, or use only the part after `AccountKey=`",
        ));
    }
    // The decoder's own message would quote a character of the key.
    let bytes = STANDARD.decode(key).map(Zeroizing::new).map_err(|_| {
        Error::configuration("account key is not base64; copy it unchanged from the portal")
    })?;
    if bytes.len() != KEY_BYTES {
        return Err(Error::configuration(format!(
            "account key has {} bytes instead of {KEY_BYTES}; it is probably truncated",
            bytes.len()
        )));
    }
    Ok(bytes)
}

#[async_trait]
impl Credential for MasterKey {
    async fn authorize(&self, context: &SigningContext<'_>) -> Result<Authorization> {
        let text = sign::text_to_sign(context);
        let (signature, generation) = {
            let ring = self.ring.read().unwrap_or_else(PoisonError::into_inner);
            let key = match &ring.secondary {
                Some(secondary) if ring.use_secondary => secondary,
                _ => &ring.primary,
            };
            (sign::signature(key, &text), ring.generation)
        };
        let signature = signature
            .ok_or_else(|| Error::configuration("account key cannot be used for signing"))?;
        Authorization::new(&header_value("master", "1.0", &signature), generation)
    }

    fn refused(&self, authorization: &Authorization) {
        let mut ring = self.ring.write().unwrap_or_else(PoisonError::into_inner);
        if ring.secondary.is_some() && ring.generation == authorization.secret() {
            ring.use_secondary = !ring.use_secondary;
            ring.generation += 1;
        }
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(<redacted>)")
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    const CONTEXT: SigningContext<'static> = SigningContext {
        verb: &Method::GET,
        resource_type: "dbs",
        resource_link: "dbs/a",
        date: "Wed, 21 Oct 2015 07:28:00 GMT",
    };

    fn key(byte: u8) -> String {
        STANDARD.encode([byte; KEY_BYTES])
    }

    async fn header(key: &MasterKey) -> (Authorization, String) {
        let authorization = key.authorize(&CONTEXT).await.unwrap();
        let text = authorization.header().to_str().unwrap().to_owned();
        (authorization, text)
    }

    #[track_caller]
    fn refuses(key: &str, because: &str) {
        let error = MasterKey::new(key).unwrap_err();
        assert!(error.to_string().contains(because), "{error}");
        assert!(key.len() < 10 || !error.to_string().contains(key));
    }

    #[test]
    fn an_invalid_account_key_is_refused_and_not_shown() {
        refuses("  ", "empty");
        refuses("not*base64!", "not base64");
        refuses("c2hvcnQgYnV0IGJhc2U2NA==", "16 bytes instead of 64");
        refuses(
            "AccountEndpoint=https://x/;AccountKey=abc=;",
            "connection string",
        );
    }

    #[tokio::test]
    async fn a_refused_primary_key_switches_to_the_secondary_once() {
        let both = MasterKey::new(&key(1))
            .unwrap()
            .with_secondary(&key(2))
            .unwrap();
        let (first, with_primary) = header(&both).await;
        both.refused(&first);
        let (_, with_secondary) = header(&both).await;
        assert_ne!(with_primary, with_secondary);
        // A late refusal of the old signature does not switch back.
        both.refused(&first);
        assert_eq!(header(&both).await.1, with_secondary);
    }

    #[tokio::test]
    async fn every_clone_uses_replaced_keys() {
        let keys = MasterKey::new(&key(1)).unwrap();
        let clone = keys.clone();
        let (_, before) = header(&clone).await;
        keys.replace(&key(3), None).unwrap();
        assert_ne!(header(&clone).await.1, before);
    }

    #[test]
    fn debug_shows_no_key() {
        let shown = format!("{:?}", MasterKey::new(&key(7)).unwrap());
        assert_eq!(shown, "MasterKey(<redacted>)");
    }
}
