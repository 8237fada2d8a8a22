//! Microsoft Entra ID: the token of an identity instead of an account key (feature `entra`).
//!
//! The Azure SDK authenticates the identity (managed identity, workload identity, a developer's
//! command line): any `TokenCredential` works. One token serves all requests until shortly before
//! it expires. Then one caller fetches the next token while the others keep using the old one.
//! Form of the header: azure_data_cosmos_driver `authorization_policy.rs`.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use azure_core::credentials::{AccessToken, TokenCredential};
use azure_core::error::ErrorKind as AzureErrorKind;
use azure_core::time::OffsetDateTime;
use tokio::time::{Instant, timeout};

use crate::credential::{Authorization, Credential, SigningContext};
use crate::error::{Error, ErrorKind, Result};

/// The scope that every account of Azure's public cloud accepts.
const SCOPE: &str = "https://cosmos.azure.com/.default";
/// How long before its expiry a token is renewed. Less than the five minutes of `azure_identity`'s
/// own cache, which would otherwise return the old token.
const RENEW_BEFORE: Duration = Duration::from_secs(240);
/// The delay before the next renewal after one that failed or returned a token that expires soon.
const RENEW_DELAY: Duration = Duration::from_secs(30);
/// How long a request waits for a renewal while the old token is still valid.
const RENEW_TIMEOUT: Duration = Duration::from_secs(5);

/// Authorizes with tokens of Microsoft Entra ID. Clones share the token.
///
/// ```no_run
/// use std::sync::Arc;
/// use azure_core::credentials::TokenCredential;
/// use cdb_client::CosmosClient;
/// use cdb_client::credential::EntraId;
///
/// # fn example(identity: Arc<dyn TokenCredential>) -> Result<(), cdb_client::Error> {
/// // `identity` comes from the crate azure_identity, such as `ManagedIdentityCredential::new(None)?`.
/// let client = CosmosClient::builder("https://account.documents.azure.com")
///     .credential(EntraId::new(identity))
///     .build()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct EntraId {
    inner: Arc<Inner>,
}

struct Inner {
    source: Arc<dyn TokenCredential>,
    scope: String,
    cache: Mutex<Cache>,
    /// Held by the caller that fetches a token.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Cache {
    token: Option<Token>,
    /// Counts the tokens, so that a late refusal of an old token is not attributed to the new one.
    fetched: u64,
    failure: Option<Failure>,
}

struct Token {
    authorization: Authorization,
    renew_at: Instant,
    expires_at: Instant,
}

/// Why the last fetch failed, for all callers that waited for it.
struct Failure {
    at: Instant,
    kind: ErrorKind,
    message: String,
}

enum Cached {
    Fresh(Authorization),
    /// Still valid, but due for renewal.
    Expiring(Authorization),
    Missing,
}

impl EntraId {
    /// Takes tokens from `source`, for accounts of Azure's public cloud.
    pub fn new(source: Arc<dyn TokenCredential>) -> Self {
        Self::of(source, SCOPE.to_owned())
    }

    /// Requests tokens of this scope instead of `https://cosmos.azure.com/.default`: the scope of
    /// an account (`https://<account>.documents.azure.com/.default`) or of another cloud.
    pub fn with_scope(self, scope: impl Into<String>) -> Self {
        Self::of(self.inner.source.clone(), scope.into())
    }

    fn of(source: Arc<dyn TokenCredential>, scope: String) -> Self {
        Self {
            inner: Arc::new(Inner {
                source,
                scope,
                cache: Mutex::default(),
                fetching: tokio::sync::Mutex::default(),
            }),
        }
    }
}

impl Inner {
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cached(&self) -> Cached {
        let now = Instant::now();
        match &self.cache().token {
            Some(token) if now < token.renew_at => Cached::Fresh(token.authorization.clone()),
            Some(token) if now < token.expires_at => Cached::Expiring(token.authorization.clone()),
            _ => Cached::Missing,
        }
    }

    /// Fetches a token. The caller holds `fetching`.
    async fn fetch(&self) -> Result<Authorization> {
        let answer = self.source.get_token(&[&self.scope], None).await;
        let mut cache = self.cache();
        let stored = answer
            .map_err(|error| no_token(&error))
            .and_then(|token| cache.store(&token));
        if let Err(error) = &stored {
            cache.failure = Some(Failure {
                at: Instant::now(),
                kind: error.kind(),
                message: error.to_string(),
            });
        }
        stored
    }

    /// Renews a token that is still valid. Returns the old one when that fails.
    async fn renew(&self, old: Authorization) -> Authorization {
        let why = match timeout(RENEW_TIMEOUT, self.fetch()).await {
            Ok(Ok(new)) => return new,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", RENEW_TIMEOUT.as_secs()),
        };
        tracing::warn!(why, "token is not renewed; the old one is still used");
        if let Some(token) = &mut self.cache().token {
            token.renew_at = Instant::now() + RENEW_DELAY;
        }
        old
    }
}

impl Cache {
    /// The machine's clock may be wrong, but the Azure SDK computed `expires_on` with the same
    /// clock.
    fn store(&mut self, token: &AccessToken) -> Result<Authorization> {
        let authorization =
            Authorization::from_entra_token(token.token.secret(), self.fetched + 1)?;
        let left = token.expires_on - OffsetDateTime::now_utc();
        let left = Duration::try_from(left).unwrap_or_default();
        let now = Instant::now();
        let renew_at = now + left.saturating_sub(RENEW_BEFORE);
        self.fetched += 1;
        self.failure = None;
        self.token = Some(Token {
            authorization: authorization.clone(),
            renew_at: if left > RENEW_BEFORE {
                renew_at
            } else {
                now + RENEW_DELAY
            },
            expires_at: now + left,
        });
        Ok(authorization)
    }
}

/// Keeps only the text: an error of the SDK contains the identity provider's whole answer.
fn no_token(error: &azure_core::Error) -> Error {
    let kind = match error.kind() {
        AzureErrorKind::Io | AzureErrorKind::Connection => ErrorKind::Unavailable,
        AzureErrorKind::HttpResponse { status, .. }
            if status.is_server_error() || matches!(u16::from(*status), 408 | 429) =>
        {
            ErrorKind::Unavailable
        }
        _ => ErrorKind::Unauthorized,
    };
    Error::new(kind, format!("no token from Entra ID: {error}"))
}

#[async_trait]
impl Credential for EntraId {
    async fn authorize(&self, _context: &SigningContext<'_>) -> Result<Authorization> {
        let started = Instant::now();
        match self.inner.cached() {
            Cached::Fresh(token) => return Ok(token),
            Cached::Expiring(old) => {
                let Ok(_fetching) = self.inner.fetching.try_lock() else {
                    return Ok(old);
                };
                return Ok(self.inner.renew(old).await);
            }
            Cached::Missing => {}
        }
        let _fetching = self.inner.fetching.lock().await;
        // Another caller may have fetched a token, or failed to, during the wait.
        if let Cached::Fresh(token) | Cached::Expiring(token) = self.inner.cached() {
            return Ok(token);
        }
        if let Some(failure) = &self.inner.cache().failure
            && failure.at > started
        {
            return Err(Error::new(failure.kind, failure.message.clone()));
        }
        self.inner.fetch().await
    }

    fn refused(&self, authorization: &Authorization) {
        let mut cache = self.inner.cache();
        if cache.fetched == authorization.secret() {
            cache.token = None;
        }
    }
}

impl fmt::Debug for EntraId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntraId")
            .field("scope", &self.inner.scope)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use azure_core::credentials::TokenRequestOptions;
    use http::Method;
    use tokio::time::{advance, sleep};

    use super::*;

    /// Returns tokens that contain their number, after 100 ms, or an error.
    #[derive(Debug, Default)]
    struct Identity {
        fetches: AtomicU32,
        refuses: std::sync::atomic::AtomicBool,
    }

    #[async_trait]
    impl TokenCredential for Identity {
        async fn get_token(
            &self,
            scopes: &[&str],
            _: Option<TokenRequestOptions<'_>>,
        ) -> azure_core::Result<AccessToken> {
            assert_eq!(scopes, [SCOPE]);
            let number = self.fetches.fetch_add(1, Ordering::SeqCst) + 1;
            sleep(Duration::from_millis(100)).await;
            if self.refuses.load(Ordering::SeqCst) {
                let error = azure_core::Error::with_message(AzureErrorKind::Credential, "not you");
                return Err(error);
            }
            let expires = OffsetDateTime::now_utc() + Duration::from_secs(3600);
            Ok(AccessToken::new(format!("token{number}"), expires))
        }
    }

    impl Identity {
        fn fetches(&self) -> u32 {
            self.fetches.load(Ordering::SeqCst)
        }
    }

    fn entra() -> (Arc<Identity>, EntraId) {
        let identity = Arc::new(Identity::default());
        (identity.clone(), EntraId::new(identity))
    }

    async fn authorize(entra: &EntraId) -> Result<Authorization> {
        let context = SigningContext {
            verb: &Method::GET,
            resource_type: "dbs",
            resource_link: "dbs/a",
            date: "Wed, 21 Oct 2015 07:28:00 GMT",
        };
        entra.authorize(&context).await
    }

    async fn header(entra: &EntraId) -> String {
        let authorization = authorize(entra).await.unwrap();
        authorization.header().to_str().unwrap().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_token_in_the_form_of_the_protocol() {
        let (identity, entra) = entra();
        let callers = (0..50).map(|_| header(&entra));
        for header in futures::future::join_all(callers).await {
            assert_eq!(header, "type%3Daad%26ver%3D1%2E0%26sig%3Dtoken1");
        }
        assert_eq!(identity.fetches(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_renews_an_expiring_token_and_the_others_do_not_wait() {
        let (identity, entra) = entra();
        header(&entra).await;
        advance(Duration::from_secs(3600 - 239)).await;
        let started = Instant::now();
        let renewing = tokio::spawn({
            let entra = entra.clone();
            async move { header(&entra).await }
        });
        tokio::task::yield_now().await;
        assert!(header(&entra).await.ends_with("token1"));
        assert_eq!(started.elapsed(), Duration::ZERO);
        assert!(renewing.await.unwrap().ends_with("token2"));
        assert!(header(&entra).await.ends_with("token2"));
        assert_eq!(identity.fetches(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_old_token_is_used_until_it_expires_when_renewal_fails() {
        let (identity, entra) = entra();
        header(&entra).await;
        identity.refuses.store(true, Ordering::SeqCst);
        advance(Duration::from_secs(3600 - 200)).await;
        assert!(header(&entra).await.ends_with("token1"));
        assert!(header(&entra).await.ends_with("token1"));
        assert_eq!(identity.fetches(), 2, "the next renewal is delayed");
        advance(Duration::from_secs(200)).await;
        let error = authorize(&entra).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized);
        assert!(error.to_string().contains("not you"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn callers_that_waited_for_a_failed_fetch_do_not_fetch_again() {
        let (identity, entra) = entra();
        identity.refuses.store(true, Ordering::SeqCst);
        let callers = (0..10).map(|_| authorize(&entra));
        let refused = futures::future::join_all(callers).await;
        assert!(refused.iter().all(Result::is_err));
        assert_eq!(identity.fetches(), 1);
        identity.refuses.store(false, Ordering::SeqCst);
        assert!(authorize(&entra).await.is_ok(), "later callers fetch again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_token_is_fetched_again_once() {
        let (identity, entra) = entra();
        let old = authorize(&entra).await.unwrap();
        entra.refused(&old);
        assert!(header(&entra).await.ends_with("token2"));
        entra.refused(&old);
        assert!(header(&entra).await.ends_with("token2"));
        assert_eq!(identity.fetches(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn debug_shows_no_token() {
        let (_, entra) = entra();
        header(&entra).await;
        assert!(!format!("{entra:?}").contains("token1"));
    }
}
