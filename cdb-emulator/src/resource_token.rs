//! Resource tokens: signed grants of a permission, and what they allow.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Sha256;

use crate::error::ServiceError;
use crate::observe::OperationKind;
use crate::request::Request;
use crate::route::{Resource, header, is_plan_request};

/// The start of a resource token.
const START: &str = "type=resource&ver=1&sig=";

/// What a resource token allows.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Grant {
    /// The link of a container or an item, by names.
    resource: String,
    /// Whether writes are allowed.
    writes: bool,
    /// The only partition key.
    key: Option<Value>,
    /// The end of the validity, in seconds since 1970.
    expires: u64,
}

impl Grant {
    /// Returns the grant of a permission until a time.
    pub(crate) fn new(permission: &Value, expires: SystemTime) -> Self {
        Self {
            resource: permission["resource"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            writes: permission["permissionMode"] == "All",
            key: permission.get("resourcePartitionKey").cloned(),
            expires: seconds(expires),
        }
    }

    /// Returns the resource token.
    pub(crate) fn token(&self, key: &[u8]) -> Result<String, ServiceError> {
        let grant = serde_json::to_vec(self)?;
        let signature = mac(key, &grant)?.finalize().into_bytes();
        Ok(format!(
            "{START}{};{};",
            STANDARD.encode(signature),
            STANDARD.encode(grant)
        ))
    }

    /// Reads the resource token of a request; `None` if it has none. Fails if the token was not
    /// issued with this key, or has expired.
    pub(crate) fn read(
        headers: &HeaderMap,
        key: &[u8],
        now: SystemTime,
    ) -> Result<Option<Self>, ServiceError> {
        let text = header(headers, "authorization").unwrap_or_default();
        // Most requests have another authorization, which is not decoded here.
        if !text.contains("resource") {
            return Ok(None);
        }
        let text = percent_decode_str(text).decode_utf8_lossy();
        let Some(token) = text.strip_prefix(START) else {
            return Ok(None);
        };
        let invalid =
            || ServiceError::unauthorized("The resource token was not issued by this account.");
        let mut parts = token.split(';').map(|part| STANDARD.decode(part));
        let (Some(Ok(signature)), Some(Ok(grant))) = (parts.next(), parts.next()) else {
            return Err(invalid());
        };
        mac(key, &grant)?
            .verify_slice(&signature)
            .map_err(|_| invalid())?;
        let grant: Self = serde_json::from_slice(&grant).map_err(|_| invalid())?;
        if grant.expires < seconds(now) {
            return Err(forbidden("The resource token has expired."));
        }
        Ok(Some(grant))
    }

    /// Fails if the token does not allow a request.
    pub(crate) fn check(&self, request: &Request) -> Result<(), ServiceError> {
        // Any token can read the account: clients find the regions there.
        if request.resource == Resource::Account {
            return Ok(());
        }
        if !self.covers(request) {
            return Err(forbidden(
                "The resource token does not cover this resource.",
            ));
        }
        if request.is_write() && !self.writes {
            return Err(forbidden("The resource token allows reads only."));
        }
        self.check_key(request)
    }

    fn covers(&self, request: &Request) -> bool {
        let Some(container) = request.resource.container() else {
            return false;
        };
        let granted = container.link();
        if self.resource == granted {
            return true;
        }
        let item = self.resource.strip_prefix(&format!("{granted}/docs/"));
        match (item, &request.resource) {
            (Some(item), Resource::Item(_, id)) => item == id,
            // Clients read the container and its physical partitions.
            (Some(_), Resource::Container(..) | Resource::Ranges(..)) => {
                request.method == Method::GET
            }
            _ => false,
        }
    }

    /// Fails if a request of items names another partition key, or none, and if a request changes
    /// what all partition keys share.
    fn check_key(&self, request: &Request) -> Result<(), ServiceError> {
        let Some(key) = &self.key else {
            return Ok(());
        };
        let is_shared = match request.resource {
            Resource::Container(..) | Resource::Scripts(..) | Resource::Script(..) => {
                request.method != Method::GET
            }
            // Each operation names a key of its own.
            Resource::Items(_) => request.kind == OperationKind::Bulk,
            _ => false,
        };
        if is_shared {
            return Err(forbidden("The resource token covers one partition key."));
        }
        let is_bound = match request.resource {
            Resource::Items(..) => !is_plan_request(&request.headers),
            Resource::Item(..) | Resource::PartitionKeyDelete(..) => true,
            _ => false,
        };
        if !is_bound {
            return Ok(());
        }
        let named = header(&request.headers, "x-ms-documentdb-partitionkey").unwrap_or("[]");
        if serde_json::from_str::<Value>(named).ok().as_ref() == Some(key) {
            return Ok(());
        }
        Err(forbidden(
            "The resource token covers another partition key.",
        ))
    }
}

fn forbidden(message: &str) -> ServiceError {
    ServiceError::new(403, 0, "Forbidden", message)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

fn mac(key: &[u8], text: &[u8]) -> Result<Hmac<Sha256>, ServiceError> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .map_err(|_| ServiceError::unauthorized("The account has no usable key."))?;
    mac.update(text);
    Ok(mac)
}
