//! Signatures, verified from the protocol's description and not from our client.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use sha2::Sha256;

use crate::error::ServiceError;
use crate::route::{Resource, header};

/// How far the signed date may lie from ours.
const MAX_SKEW: Duration = Duration::from_secs(15 * 60);

/// Checks the signature of a request.
pub(crate) fn verify(
    key: &[u8],
    method: &Method,
    resource: &Resource,
    headers: &HeaderMap,
    now: SystemTime,
) -> Result<(), ServiceError> {
    let authorization = header(headers, "authorization")
        .ok_or_else(|| ServiceError::unauthorized("Required Header authorization is missing."))?;
    let decoded = percent_decode_str(authorization).decode_utf8_lossy();
    let signature = decoded
        .strip_prefix("type=master&ver=1.0&sig=")
        .and_then(|signature| STANDARD.decode(signature).ok())
        .ok_or_else(|| {
            ServiceError::unauthorized("The authorization header is not of the form type=master&ver=1.0&sig=…, percent-encoded.")
        })?;
    let date = header(headers, "x-ms-date")
        .ok_or_else(|| ServiceError::unauthorized("Required Header x-ms-date is missing."))?;
    let signed_at = httpdate::parse_http_date(date)
        .map_err(|_| ServiceError::unauthorized("x-ms-date is no RFC 1123 date."))?;
    let skew = now
        .duration_since(signed_at)
        .unwrap_or_else(|future| future.duration());
    if skew > MAX_SKEW {
        return Err(ServiceError::unauthorized(format!(
            "The authorization token is not valid at the current time: x-ms-date is {} s away.",
            skew.as_secs()
        )));
    }
    let (kind, link) = resource.signed();
    let text = format!(
        "{}\n{kind}\n{link}\n{}\n\n",
        method.as_str().to_ascii_lowercase(),
        date.to_ascii_lowercase()
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .map_err(|_| ServiceError::unauthorized("The account has no usable key."))?;
    mac.update(text.as_bytes());
    mac.verify_slice(&signature).map_err(|_| {
        ServiceError::unauthorized(format!(
            "The input authorization token can't serve the request. The server used the following \
             payload to sign: {text:?}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(date: &str, signature: &str, now: SystemTime) -> Result<(), ServiceError> {
        let key = STANDARD.decode(crate::WELL_KNOWN_KEY).unwrap();
        let mut headers = HeaderMap::new();
        let encoded = signature
            .replace('+', "%2B")
            .replace('/', "%2F")
            .replace('=', "%3D");
        let value = format!("type%3Dmaster%26ver%3D1.0%26sig%3D{encoded}");
        headers.insert("authorization", value.parse().unwrap());
        headers.insert("x-ms-date", date.parse().unwrap());
        let resource = Resource::Items("db1".to_owned(), "c1".to_owned());
        verify(&key, &Method::POST, &resource, &headers, now)
    }

    #[test]
    fn the_published_vector_is_accepted_and_nothing_else() {
        let date = "Wed, 21 Oct 2015 07:28:00 GMT";
        let now = httpdate::parse_http_date(date).unwrap();
        let signature = "NVeoo+A8ZH7IL+TEYWzfZfAzTpKv/2XkAGLErZK+WGY=";
        check(date, signature, now).unwrap();
        assert_eq!(check(date, "AAAA", now).unwrap_err().status, 401);
        let late = now + Duration::from_secs(16 * 60);
        assert_eq!(check(date, signature, late).unwrap_err().status, 401);
    }
}
