//! What to do about something that is wrong. Remedies name commands, and only the one who prints them knows what the
//! reader calls the program: `cdb` on a container that another program has extended would take that program's indexes away.

use cdb_client::{Error, ErrorKind};

use crate::causes::with_causes;

/// How a remedy names the program.
const PROGRAM: &str = "{cdb}";

/// A remedy for a reader who runs the command as `program`.
pub(crate) fn for_program(remedy: &str, program: &str) -> String {
    remedy.replace(PROGRAM, program)
}

/// What to do about an error of the service, where anything can be said.
pub(crate) fn of(error: &Error) -> Option<&'static str> {
    let remedy = match error.kind() {
        ErrorKind::Unauthorized => {
            "take a key from the portal (Keys) and set COSMOS_KEY, or sign in anew for another token; a key that was regenerated no longer works"
        }
        ErrorKind::Forbidden => {
            "give this identity the right, and look at the account's firewall and its `disableLocalAuth`"
        }
        // Documents that are not there are no errors to the command, so this is their container.
        ErrorKind::NotFound => {
            "check --database and --container, or create it: {cdb} policy apply --create"
        }
        ErrorKind::Throttled => {
            "wait, or raise the container's request units; requests about databases and containers share a small budget of the account"
        }
        ErrorKind::Untrusted => {
            "trust the certificate's authority on this machine; for an emulator here, --accept-invalid-certificate"
        }
        // Nothing but rustls' words tells.
        ErrorKind::Unavailable if with_causes(error).contains("InvalidContentType") => {
            "no HTTPS is spoken there; an emulator speaks it with --tls, and wants http:// without"
        }
        ErrorKind::Unavailable if error.status().is_some() => {
            "the service is there and did not take it in time: try again, with a longer --timeout"
        }
        ErrorKind::Unavailable => {
            "check the account's name, its firewall and private endpoints, and this machine's DNS and proxy"
        }
        _ => return None,
    };
    Some(remedy)
}
