//! The endpoint of an account: which endpoints are valid, and what an error may show of them.

use std::net::{Ipv4Addr, Ipv6Addr};

use reqwest::Url;

use crate::error::{Error, Result};
use crate::transport::tls::ServerProof;

pub(crate) fn parse_endpoint(text: &str) -> Result<Url> {
    let refused = |why: &str| {
        Error::configuration(format!(
            "endpoint `{}` {why}; expected `https://account.documents.azure.com:443/`",
            without_secrets(text)
        ))
    };
    if is_connection_string(text) {
        return Err(refused(
            "is a connection string; parse it as a `ConnectionString`, or use only the part after `AccountEndpoint=`",
        ));
    }
    let url = Url::parse(text.trim()).map_err(|_| refused("is not a URL"))?;
    if !matches!(url.scheme(), "https" | "http") {
        return Err(refused("is neither https nor http"));
    }
    if url.host().is_none() {
        return Err(refused("has no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("contains a user or password"));
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err(refused("continues after the host"));
    }
    Ok(url)
}

/// Whether `text` contains an account key in the form of a connection string.
pub(crate) fn is_connection_string(text: &str) -> bool {
    const NAME: &[u8] = b"AccountKey=";
    let mut windows = text.as_bytes().windows(NAME.len());
    windows.any(|window| window.eq_ignore_ascii_case(NAME))
}

/// Returns the part of an endpoint that an error may show. The text may be something else by
/// mistake: a connection string, a URL with a password or a signature, or a key.
pub(crate) fn without_secrets(text: &str) -> String {
    const LONGEST_NAME: usize = 64;
    let text = text.trim();
    let Some((scheme, rest)) = text.split_once("://") else {
        // A name of an account or host. A key of 64 bytes in base64 is longer and has capital
        // letters.
        let is_name = text.len() <= LONGEST_NAME
            && text
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:/".contains(c));
        return if is_name { text } else { "…" }.to_owned();
    };
    if !scheme.chars().all(|c| c.is_ascii_alphanumeric()) {
        return "…".to_owned();
    }
    if rest.contains('@') || is_connection_string(rest) {
        return format!("{scheme}://…");
    }
    match rest.find(['?', '#']) {
        Some(end) => format!("{scheme}://{}…", &rest[..end]),
        None => text.to_owned(),
    }
}

pub(crate) fn server_proof(endpoint: &Url, any_on_loopback: bool) -> Result<ServerProof> {
    let loopback = is_loopback(endpoint);
    if any_on_loopback && !loopback {
        return Err(Error::configuration(format!(
            "invalid certificates are accepted on loopback hosts only, not for `{}`",
            endpoint.host_str().unwrap_or("")
        )));
    }
    match endpoint.scheme() {
        "https" if any_on_loopback => Ok(ServerProof::AnyCertificate),
        "https" => Ok(ServerProof::TrustedCertificate),
        _ => Ok(ServerProof::None),
    }
}

/// Whether the host is this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || bare.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
        || bare.parse::<Ipv6Addr>().is_ok_and(|ip| ip.is_loopback())
}
