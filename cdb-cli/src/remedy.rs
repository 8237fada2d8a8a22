//! Remedies for errors.
//!
//! A remedy names the program with a placeholder, because `cdb policy apply` on the container of
//! another program would remove the indexes of that program.

use cdb_client::{Error, ErrorKind};
use duroxide::providers::ProviderError;

use crate::causes::with_causes;

/// The placeholder for the name of the program.
const PROGRAM: &str = "{cdb}";

/// Returns a remedy for a user who calls the command `program`.
pub(crate) fn for_program(remedy: &str, program: &str) -> String {
    remedy.replace(PROGRAM, program)
}

/// Returns the remedy for an error of the service, or `None` when none is known.
pub(crate) fn of(error: &Error) -> Option<&'static str> {
    let remedy = match error.kind() {
        ErrorKind::Unauthorized => {
            "copy a key from the portal (Keys) to COSMOS_KEY, or sign in again for a new token; a regenerated key no longer works"
        }
        ErrorKind::Forbidden => {
            "grant this identity the permission, and check the account's firewall and its `disableLocalAuth`"
        }
        // The command treats a missing document as `None`, so here the container is missing.
        ErrorKind::NotFound => {
            "check --database and --container, or create it: {cdb} policy apply --create"
        }
        ErrorKind::Throttled => {
            "wait, or raise the container's request units; requests about databases and containers share a small budget per account"
        }
        ErrorKind::Untrusted => {
            "install the certificate authority on this machine; for a local emulator, pass --accept-invalid-certificate"
        }
        // Only the text of rustls' error identifies a plain HTTP server.
        ErrorKind::Unavailable if with_causes(error).contains("InvalidContentType") => {
            "the server does not speak HTTPS; start the emulator with --tls, or use http://"
        }
        ErrorKind::Unavailable if error.status().is_some() => {
            "the service answered but did not accept the request in time: try again with a longer --timeout"
        }
        ErrorKind::Unavailable => {
            "check the account's name, its firewall and private endpoints, and this machine's DNS and proxy"
        }
        _ => return None,
    };
    Some(remedy)
}

/// Returns the remedy for an error of the provider, or `None` when none is known.
pub(crate) fn of_provider(error: &ProviderError) -> Option<&'static str> {
    // Only the text of the error identifies a missing key.
    error
        .message
        .contains("is encoded with key")
        .then_some("set COSMOS_PAYLOAD_KEYS to the keys of the container's payloads")
}
