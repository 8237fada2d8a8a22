//! Remedies for errors.
//!
//! A remedy names the program with a placeholder, because `cdb policy apply` on the container of
//! another program would remove the indexes of that program.

use cdb_client::{Error, ErrorKind};
use duroxide::providers::ProviderError;

use super::causes::with_causes;

/// The placeholder for the name of the program.
const PROGRAM: &str = "{cdb}";

/// The remedy when nothing listens at a loopback address.
pub(crate) const NO_EMULATOR: &str = if cfg!(feature = "emulator") {
    "start an emulator with `{cdb} emulator`, or pass another --endpoint"
} else {
    "start the emulator, or pass another --endpoint"
};

/// The remedy when no account is given.
pub(crate) const NO_ACCOUNT: &str = if cfg!(feature = "emulator") {
    "pass --endpoint or set COSMOS_ENDPOINT; `{cdb} emulator` runs one at http://localhost:8081"
} else {
    "pass --endpoint or set COSMOS_ENDPOINT; an emulator is usually at http://localhost:8081"
};

/// The remedy for a key or token that the service does not accept.
const UNAUTHORIZED: &str = "copy a key from the portal (Keys) to COSMOS_KEY, or sign in again for a new token; a regenerated key no longer works";

/// The same for an emulator.
const EMULATOR_KEY: &str = "leave out --key and unset COSMOS_KEY: an emulator has a well-known key, which is the default; or give the key that it was started with";

/// Returns the remedy for the key of an emulator, or for another credential.
pub(crate) fn here(remedy: &'static str, is_emulator: bool) -> &'static str {
    match remedy {
        UNAUTHORIZED if is_emulator => EMULATOR_KEY,
        other => other,
    }
}

/// Returns a remedy for a user who calls the command `program`.
pub(crate) fn for_program(remedy: &str, program: &str) -> String {
    remedy.replace(PROGRAM, program)
}

/// Returns the remedy for an error of the service, or `None` when none is known.
pub(crate) fn of(error: &Error) -> Option<&'static str> {
    let remedy = match error.kind() {
        ErrorKind::Unauthorized => UNAUTHORIZED,
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

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use clap::CommandFactory as _;

    use super::*;
    use crate::program::args::Args;

    /// The files that hold remedies, without this one: its constants are checked as they are built.
    fn sources() -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder can be listed") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if !path.ends_with("remedy.rs") {
                    let text = std::fs::read_to_string(&path).expect("a source can be read");
                    found.push((path, text));
                }
            }
        }
        found
    }

    /// Returns the subcommands that a text advises and the command lacks.
    fn lacking(text: &str) -> Vec<String> {
        let command = Args::command();
        let advised = text.split(PROGRAM).skip(1);
        let advised = advised.filter_map(|rest| rest.trim_start_matches('}').strip_prefix(' '));
        let lacks = |rest: &&str| {
            let is_letter = |c: char| c.is_ascii_lowercase() || c == '-';
            let mut words = rest
                .split(' ')
                .map(|word| word.split(|c| !is_letter(c)).next());
            let mut next = || words.next().flatten().unwrap_or_default();
            match command.find_subcommand(next()) {
                Some(inner) if inner.is_subcommand_required_set() => {
                    inner.find_subcommand(next()).is_none()
                }
                found => found.is_none(),
            }
        };
        let lacking = advised.filter(lacks);
        lacking
            .map(|rest| rest.chars().take(30).collect())
            .collect()
    }

    #[test]
    fn remedies_name_only_subcommands_that_the_command_has() {
        assert_eq!(lacking("{cdb} instances nothing"), ["instances nothing"]);
        assert_eq!(lacking("{cdb} policy diff and {cdb} nothing"), ["nothing"]);
        let constants = format!("{NO_EMULATOR}; {NO_ACCOUNT}");
        assert_eq!(lacking(&constants), Vec::<String>::new());
        for (path, text) in sources() {
            assert_eq!(lacking(&text), Vec::<String>::new(), "{}", path.display());
        }
    }

    #[test]
    fn no_text_advises_a_command_of_another_name() {
        for (path, text) in sources() {
            let is_code = |line: &&str| !line.trim_start().starts_with("//");
            let fixed = text
                .lines()
                .filter(is_code)
                .find(|line| line.contains("`cdb "));
            assert_eq!(fixed, None, "write {PROGRAM}: {}", path.display());
        }
    }
}
