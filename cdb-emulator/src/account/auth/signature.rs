//! Verification of signatures, implemented from the protocol's description and not from cdb-client.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use percent_encoding::percent_decode_str;
use sha2::Sha256;

use crate::protocol::{Request, ServiceError, header};

/// The account key of all Cosmos DB emulators. It is public and protects nothing.
pub const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// The validity of a signature after its date (concepts-limits, "maximum primary token expiry
/// time").
const LIFETIME: Duration = Duration::from_secs(15 * 60);

/// How far the date may be in the future. The documented skew is 15 minutes, but the service has
/// rejected 6 minutes and 46 seconds (vscode-cosmosdb#842), so the emulator rejects it too.
const AHEAD: Duration = Duration::from_secs(5 * 60);

/// Verifies the signature of a request. Codes and wording: azure-cli#10908 (no header),
/// azure-cosmos-python#202 (form), learn.microsoft.com/answers 505129 (date), vscode-cosmosdb#842
/// (clock, which is 403), azure-sdk-for-rust#831 (key).
pub(crate) fn verify(key: &[u8], request: &Request, now: SystemTime) -> Result<(), ServiceError> {
    let signature = signature(&request.headers)?;
    let date = current_date(&request.headers, now)?;
    let (kind, link) = request.resource.signed();
    let text = format!(
        "{}\n{kind}\n{link}\n{}\n\n",
        request.method.as_str().to_ascii_lowercase(),
        date.to_ascii_lowercase()
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .map_err(|_| ServiceError::unauthorized("The account has no usable key."))?;
    mac.update(text.as_bytes());
    mac.verify_slice(&signature).map_err(|_| {
        ServiceError::unauthorized(format!(
            "The input authorization token can't serve the request. The wrong key is being used or the expected \
             payload is not built as per the protocol. Server used the following payload to sign: '{text}'"
        ))
    })
}

/// Returns the Entra ID token of a request, percent-encoded or not.
pub(crate) fn token(headers: &HeaderMap) -> Option<String> {
    let authorization = header(headers, "authorization")?;
    let decoded = percent_decode_str(authorization).decode_utf8_lossy();
    decoded
        .strip_prefix("type=aad&ver=1.0&sig=")
        .map(str::to_owned)
}

/// Returns the signature of a request, percent-encoded or not.
fn signature(headers: &HeaderMap) -> Result<Vec<u8>, ServiceError> {
    let authorization = header(headers, "authorization")
        .filter(|authorization| !authorization.is_empty())
        .ok_or_else(|| {
            ServiceError::unauthorized(
                "Required Header authorization is missing. Ensure a valid Authorization token is passed.",
            )
        })?;
    let decoded = percent_decode_str(authorization).decode_utf8_lossy();
    let signature = decoded.strip_prefix("type=master&ver=1.0&sig=");
    signature
        .and_then(|signature| STANDARD.decode(signature).ok())
        .ok_or_else(|| {
            ServiceError::unauthorized(
                "Authorization header doesn't confirm to the required format. Please verify and try again. This \
                 emulator takes type=master&ver=1.0&sig=<base64>, percent-encoded.",
            )
        })
}

/// Returns the signed date. Fails if it is invalid or not current.
fn current_date(headers: &HeaderMap, now: SystemTime) -> Result<&str, ServiceError> {
    let date = header(headers, "x-ms-date").unwrap_or_default();
    let start = httpdate::parse_http_date(date).map_err(|_| {
        ServiceError::unauthorized(
            "The input date header is invalid format. Please pass in RFC 1123 style date format.",
        )
    })?;
    let is_old = now.duration_since(start).is_ok_and(|age| age > LIFETIME);
    let is_early = start.duration_since(now).is_ok_and(|wait| wait > AHEAD);
    if is_old || is_early {
        // A date near the maximum has no representable expiry.
        let expiry = start.checked_add(LIFETIME).unwrap_or(start);
        return Err(ServiceError::new(
            403,
            0,
            "Forbidden",
            format!(
                "The authorization token is not valid at the current time. Please create another token and retry \
                 (token start time: {date}, token expiry time: {}, current server time: {}).",
                http_date(expiry),
                http_date(now)
            ),
        ));
    }
    Ok(date)
}

/// Formats a time for HTTP, which supports years up to 9999.
fn http_date(time: SystemTime) -> String {
    let end = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    httpdate::fmt_http_date(time.clamp(UNIX_EPOCH, end))
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn check(date: &str, signature: &str, now: SystemTime) -> Result<(), ServiceError> {
        let key = STANDARD.decode(WELL_KNOWN_KEY).unwrap();
        let mut headers = HeaderMap::new();
        let encoded = signature
            .replace('+', "%2B")
            .replace('/', "%2F")
            .replace('=', "%3D");
        let value = format!("type%3Dmaster%26ver%3D1.0%26sig%3D{encoded}");
        headers.insert("authorization", value.parse().unwrap());
        headers.insert("x-ms-date", date.parse().unwrap());
        let request = Request::new(Method::POST, "/dbs/db1/colls/c1/docs", headers);
        verify(&key, &request, now)
    }

    #[test]
    fn only_the_published_signature_is_accepted() {
        let date = "Wed, 21 Oct 2015 07:28:00 GMT";
        let now = httpdate::parse_http_date(date).unwrap();
        let signature = "NVeoo+A8ZH7IL+TEYWzfZfAzTpKv/2XkAGLErZK+WGY=";
        check(date, signature, now).unwrap();
        let other = check(date, "AAAA", now).unwrap_err();
        assert_eq!(other.status, 401);
        let signed = format!(
            "'post\ndocs\ndbs/db1/colls/c1\n{}\n\n'",
            date.to_lowercase()
        );
        assert!(other.message.ends_with(&signed), "{other}");
    }

    #[test]
    fn a_signature_is_valid_for_15_minutes() {
        let date = "Wed, 21 Oct 2015 07:28:00 GMT";
        let start = httpdate::parse_http_date(date).unwrap();
        let signature = "NVeoo+A8ZH7IL+TEYWzfZfAzTpKv/2XkAGLErZK+WGY=";
        let second = Duration::from_secs(1);
        for now in [start + LIFETIME, start - AHEAD] {
            check(date, signature, now).unwrap();
        }
        for now in [start + LIFETIME + second, start - AHEAD - second] {
            let refused = check(date, signature, now).unwrap_err();
            assert_eq!((refused.status, refused.substatus), (403, 0));
            let window = "token start time: Wed, 21 Oct 2015 07:28:00 GMT, token expiry time: \
                          Wed, 21 Oct 2015 07:43:00 GMT";
            assert!(refused.message.contains(window), "{refused}");
        }
    }
}
