//! Tokens of Microsoft Entra ID, and the rights of their owners.
//!
//! The emulator checks form, times, issuer and audience of a token, but not its signature, which
//! only Entra's keys could verify. The rights are those of the data-plane roles. No role can
//! create, change or delete a database or container. Sub-statuses: azure_data_cosmos_driver
//! `cosmos_status.rs`; actions: learn.microsoft.com, "Data plane role-based access control".

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use serde::{Deserialize, Serialize};

use crate::protocol::{OperationKind, Request, Resource, ServiceError};

/// Tolerated difference between the times of a token and the server's clock.
const SKEW: Duration = Duration::from_secs(5 * 60);
/// The audience of Azure's public cloud. The endpoint of the account is accepted too.
const AUDIENCE: &str = "https://cosmos.azure.com";
/// The issuers of tokens, for both token versions.
const ISSUERS: [&str; 2] = [
    "https://sts.windows.net/",
    "https://login.microsoftonline.com/",
];

/// A built-in data-plane role.
///
/// ```
/// use std::time::Duration;
/// use cdb_emulator::{DataRole, Emulator};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), cdb_emulator::EmulatorError> {
/// let principal = "11111111-2222-3333-4444-555555555555";
/// let emulator = Emulator::builder().identity(principal, DataRole::DataReader).start().await?;
/// let token = emulator.entra_token(principal, Duration::from_secs(3600)); // can read, but not write
/// # drop(token); emulator.stop().await; Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum DataRole {
    /// Reads items and metadata, runs queries, reads change feeds.
    DataReader,
    /// Also writes items. Cannot create, change or delete databases and containers.
    DataContributor,
}

/// The identities of the account: their roles by object id.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Identities(BTreeMap<String, DataRole>);

/// The claims of a token that are checked.
#[derive(Debug, Deserialize, Serialize)]
struct Claims {
    aud: Audience,
    iss: String,
    oid: String,
    nbf: u64,
    exp: u64,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Identities {
    pub(crate) fn add(&mut self, object_id: String, role: DataRole) {
        self.0.insert(object_id, role);
    }

    /// Returns whether the account accepts no tokens.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks a token, and whether its owner can perform the request.
    pub(crate) fn verify(
        &self,
        token: &str,
        request: &Request,
        endpoint: &str,
        now: SystemTime,
    ) -> Result<(), ServiceError> {
        let claims = claims(token)?;
        claims.check(endpoint, now)?;
        let action = Action::of(request);
        let allowed = self
            .0
            .get(&claims.oid)
            .is_some_and(|role| action.is_allowed(*role));
        if allowed {
            return Ok(());
        }
        Err(action.refuse(&claims.oid, request))
    }
}

/// Issues a token for `object_id` that [`Identities::verify`] accepts.
pub(crate) fn issue(object_id: &str, lifetime: Duration, now: SystemTime) -> String {
    let now = seconds(now);
    let claims = Claims {
        aud: Audience::One(AUDIENCE.to_owned()),
        iss: "https://sts.windows.net/cdb-emulator/".to_owned(),
        oid: object_id.to_owned(),
        nbf: now,
        exp: now + lifetime.as_secs(),
    };
    let part = |json: String| URL_SAFE_NO_PAD.encode(json);
    // Serializing strings and numbers cannot fail.
    let claims = serde_json::to_string(&claims).unwrap_or_default();
    let header = r#"{"alg":"none","typ":"JWT"}"#.to_owned();
    format!(
        "{}.{}.{}",
        part(header),
        part(claims),
        part("unsigned".to_owned())
    )
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

fn claims(token: &str) -> Result<Claims, ServiceError> {
    let parts: Vec<&str> = token.split('.').collect();
    let claims = match *parts.as_slice() {
        [_, claims, _] => URL_SAFE_NO_PAD.decode(claims).ok(),
        _ => None,
    };
    claims
        .and_then(|claims| serde_json::from_slice(&claims).ok())
        .ok_or_else(|| {
            refuse(5003, "The AAD token is malformed: expected three parts in base64url whose second names aud, iss, oid, nbf and exp.")
        })
}

impl Claims {
    fn check(&self, endpoint: &str, now: SystemTime) -> Result<(), ServiceError> {
        let (now, skew) = (seconds(now), SKEW.as_secs());
        if self.nbf > now + skew {
            return Err(refuse(5005, "The AAD token is not valid yet."));
        }
        if self.exp + skew < now {
            return Err(refuse(5006, "The AAD token has expired."));
        }
        if !ISSUERS.iter().any(|issuer| self.iss.starts_with(issuer)) {
            return Err(refuse(5007, "The AAD token's issuer is not accepted."));
        }
        let bare = |text: &str| text.trim_end_matches('/').to_owned();
        let meant = |audience: &str| [bare(AUDIENCE), bare(endpoint)].contains(&bare(audience));
        let for_us = match &self.aud {
            Audience::One(audience) => meant(audience),
            Audience::Several(audiences) => audiences.iter().any(|audience| meant(audience)),
        };
        if for_us {
            Ok(())
        } else {
            Err(refuse(
                5008,
                "The AAD token's audience is another resource.",
            ))
        }
    }
}

fn refuse(substatus: u32, message: &str) -> ServiceError {
    ServiceError::new(401, substatus, "Unauthorized", message)
}

/// The right that a request requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A right that no data-plane role has.
    Administer,
    ReadMetadata,
    Read(&'static str),
    Write(&'static str),
}

impl Action {
    fn of(request: &Request) -> Self {
        match (&request.resource, request.kind) {
            (Resource::Item(..) | Resource::Items(..), kind) => match kind {
                OperationKind::Read => Self::Read("items/read"),
                // The plan of a query counts as metadata.
                OperationKind::Query | OperationKind::Metadata => Self::Read("executeQuery"),
                OperationKind::Feed => Self::Read("readChangeFeed"),
                OperationKind::Create => Self::Write("items/create"),
                OperationKind::Upsert => Self::Write("items/upsert"),
                OperationKind::Delete => Self::Write("items/delete"),
                OperationKind::Replace | OperationKind::Patch => Self::Write("items/replace"),
                OperationKind::Batch | OperationKind::Bulk => Self::Write("items/*"),
            },
            (Resource::Offers | Resource::Offer(_), _) => Self::Administer,
            _ if request.method == Method::GET => Self::ReadMetadata,
            _ => Self::Administer,
        }
    }

    fn is_allowed(self, role: DataRole) -> bool {
        match self {
            Self::Administer => false,
            Self::ReadMetadata | Self::Read(_) => true,
            Self::Write(_) => role == DataRole::DataContributor,
        }
    }

    fn refuse(self, principal: &str, request: &Request) -> ServiceError {
        let (method, (_, link)) = (&request.method, request.resource.signed());
        let lacks = |action: &str| {
            format!(
                "Request blocked by Auth : Request is blocked because principal [{principal}] does not have required \
                 RBAC permissions to perform action [Microsoft.DocumentDB/databaseAccounts/{action}] on resource \
                 [{link}]. Learn more: https://aka.ms/cosmos-native-rbac."
            )
        };
        let (substatus, message) = match self {
            Self::Administer => (
                5300,
                format!(
                    "Request blocked by Auth : The given request [{method} /{link}] cannot be authorized by AAD token \
                     in data plane. Learn more: https://aka.ms/cosmos-native-rbac."
                ),
            ),
            Self::ReadMetadata => (5301, lacks("readMetadata")),
            Self::Read(action) | Self::Write(action) => {
                (5302, lacks(&format!("sqlDatabases/containers/{action}")))
            }
        };
        ServiceError::new(403, substatus, "Forbidden", message)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    const ENDPOINT: &str = "http://127.0.0.1:8081/";

    fn identities() -> Identities {
        let mut identities = Identities::default();
        identities.add("writer".to_owned(), DataRole::DataContributor);
        identities.add("reader".to_owned(), DataRole::DataReader);
        identities
    }

    fn noon() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000_000)
    }

    fn check(token: &str, now: SystemTime) -> Result<(), (u16, u32)> {
        let request = Request::new(Method::GET, "/dbs/d/colls/c/docs/i", HeaderMap::new());
        identities()
            .verify(token, &request, ENDPOINT, now)
            .map_err(|error| (error.status, error.substatus))
    }

    fn token(change: impl FnOnce(&mut serde_json::Value)) -> String {
        let mut claims = serde_json::json!({
            "aud": AUDIENCE, "iss": "https://sts.windows.net/t/", "oid": "reader",
            "nbf": 1_000_000_000, "exp": 1_000_003_600,
        });
        change(&mut claims);
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
    }

    #[test]
    fn a_token_is_valid_for_its_time_and_audience() {
        let hour = Duration::from_secs(3600);
        assert_eq!(check(&issue("reader", hour, noon()), noon()), Ok(()));
        assert_eq!(check(&token(|_| {}), noon()), Ok(()));
        assert_eq!(check(&token(|_| {}), noon() - SKEW), Ok(()));
        assert_eq!(
            check(&token(|_| {}), noon() - SKEW - hour),
            Err((401, 5005))
        );
        assert_eq!(check(&token(|_| {}), noon() + SKEW + hour), Ok(()));
        assert_eq!(
            check(&token(|_| {}), noon() + SKEW + 2 * hour),
            Err((401, 5006))
        );
        for (aud, expected) in [
            (serde_json::json!("http://127.0.0.1:8081"), Ok(())),
            (
                serde_json::json!(["https://vault.azure.net", AUDIENCE]),
                Ok(()),
            ),
            (
                serde_json::json!("https://vault.azure.net"),
                Err((401, 5008)),
            ),
        ] {
            assert_eq!(
                check(&token(|claims| claims["aud"] = aud), noon()),
                expected
            );
        }
        let elsewhere = token(|claims| claims["iss"] = "https://example.com/".into());
        assert_eq!(check(&elsewhere, noon()), Err((401, 5007)));
    }

    #[test]
    fn a_malformed_token_is_rejected() {
        let without_end = token(|claims| claims["exp"] = serde_json::Value::Null);
        for malformed in ["", "a.b", "a.b.c", "a.e30.c", &without_end] {
            assert_eq!(check(malformed, noon()), Err((401, 5003)), "{malformed}");
        }
    }

    #[test]
    fn a_role_has_exactly_its_rights() {
        let (items, container) = ("/dbs/d/colls/c/docs", "/dbs/d/colls/c");
        for (method, path, header, reader, writer) in [
            (
                Method::POST,
                items,
                "x-ms-documentdb-isquery",
                Ok(()),
                Ok(()),
            ),
            (Method::POST, items, "x-none", Err(5302), Ok(())),
            (
                Method::POST,
                items,
                "x-ms-cosmos-is-batch-request",
                Err(5302),
                Ok(()),
            ),
            (Method::GET, container, "x-none", Ok(()), Ok(())),
            (Method::DELETE, container, "x-none", Err(5300), Err(5300)),
            (Method::POST, "/dbs", "x-none", Err(5300), Err(5300)),
        ] {
            let headers = HeaderMap::from_iter([(
                HeaderName::from_static(header),
                HeaderValue::from_static("true"),
            )]);
            let request = Request::new(method, path, headers);
            for (who, expected) in [("reader", reader), ("writer", writer)] {
                let token = issue(who, Duration::from_secs(60), noon());
                let verified = identities().verify(&token, &request, ENDPOINT, noon());
                let found = verified.map_err(|error| error.substatus);
                assert_eq!(found, expected, "{who} {request:?}");
            }
        }
    }

    #[test]
    fn an_identity_without_a_role_has_no_rights() {
        let token = issue("stranger", Duration::from_secs(60), noon());
        assert_eq!(check(&token, noon()), Err((403, 5302)));
        let account = Request::new(Method::GET, "/", HeaderMap::new());
        let refused = identities().verify(&token, &account, ENDPOINT, noon());
        let refused = refused.unwrap_err();
        assert_eq!(refused.substatus, 5301);
        assert!(
            refused.message.contains("principal [stranger]"),
            "{refused}"
        );
    }
}
