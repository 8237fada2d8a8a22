//! The connection that an incomplete command line names.
//!
//! The line may lack required arguments, and its words are quoted as the user typed them, so the
//! command's own parser cannot read it. Only the options of the connection matter here.

use std::ffi::OsString;

use clap::{Args as _, Command, FromArgMatches as _};

use crate::connection::Connection;
use crate::env_file::EnvFile;

/// Returns the connection of the environment and the file, changed by the options among `words`.
/// `None` when an option has no value or a wrong one.
pub(super) fn connection(words: &[OsString], file: &EnvFile) -> Option<Connection> {
    let command = Connection::augment_args(Command::new("connection").no_binary_name(true));
    let command = file.with_defaults(command);
    let mut options = Vec::new();
    let mut words = words.iter().filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            continue;
        };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let mut known = command.get_arguments();
        let Some(known) = known.find(|arg| arg.get_long() == Some(name)) else {
            continue;
        };
        if !known.get_action().takes_values() {
            options.push(word.to_owned());
        } else if let Some(value) = value.or_else(|| words.next()) {
            // A line that is not complete runs no command.
            if name != "token-command" {
                options.push(format!("--{name}={}", value.trim_matches(['\'', '"'])));
            }
        }
    }
    let matches = command.try_get_matches_from(options).ok()?;
    Connection::from_arg_matches(&matches).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Option<Connection> {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        connection(&words, &EnvFile::default())
    }

    #[test]
    fn options_of_an_incomplete_line_select_the_connection() {
        let line = "cdb instances show --full --container=orders --database 'shop' ord";
        let found = read(line).expect("a connection");
        assert_eq!(
            (&*found.container, &*found.database),
            ("orders", "shop"),
            "{found:?}"
        );
    }

    #[test]
    fn an_option_without_a_value_is_left_out() {
        assert!(read("cdb instances show --endpoint").is_some());
        assert!(read("cdb instances show --timeout x").is_none());
    }
}
