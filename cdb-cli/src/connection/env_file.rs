//! The file `.env`: values of options that neither the command line nor the environment gives.
//!
//! Any folder above the working directory can hold the file, so another user may have written it. It
//! gives values of some options and no command to run, and a credential from another source is not
//! sent to its endpoint.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

/// The variables that the file can give. `COSMOS_TOKEN_COMMAND` is not among them.
const VARIABLES: [&str; 7] = [
    "COSMOS_ENDPOINT",
    "COSMOS_KEY",
    "COSMOS_CONNECTION_STRING",
    "COSMOS_TOKEN",
    "COSMOS_PAYLOAD_KEYS",
    "COSMOS_DATABASE",
    "COSMOS_CONTAINER",
];

/// The values of the file.
#[derive(Default)]
pub(crate) struct EnvFile {
    values: BTreeMap<&'static str, String>,
}

impl EnvFile {
    /// Reads the file of the working directory or of the nearest parent that has one.
    ///
    /// # Errors
    /// The reason why the file cannot be read. It shows no line, because a line can hold a key.
    pub(crate) fn find() -> Result<Self, String> {
        let folder = std::env::current_dir().map_err(|error| error.to_string())?;
        let mut files = folder.ancestors().map(|folder| folder.join(".env"));
        match files.find(|file| file.is_file()) {
            Some(file) => {
                Self::parse(&fs::read_to_string(file).map_err(|error| error.to_string())?)
            }
            None => Ok(Self::default()),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.trim_start();
            let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
            let name = line
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next();
            let Some(name) = VARIABLES.into_iter().find(|known| Some(*known) == name) else {
                continue;
            };
            // The parser would insert secrets of the environment.
            if line.contains('$') {
                return Err(format!(
                    "the line of {name} contains `$`; variables are not inserted"
                ));
            }
            let Some(Ok((_, value))) = dotenvy::from_read_iter(line.as_bytes()).next() else {
                return Err("a line is not NAME=VALUE".to_owned());
            };
            values.entry(name).or_insert(value);
        }
        Ok(Self { values })
    }

    /// Returns the command with the values as defaults of its options.
    pub(crate) fn with_defaults(&self, command: Command) -> Command {
        let command = command.mut_args(|arg| {
            let variable = arg.get_env().and_then(OsStr::to_str).unwrap_or_default();
            match self.values.get(variable) {
                Some(value) => arg.default_value(value.clone()).hide_default_value(true),
                None => arg,
            }
        });
        command.mut_subcommands(|inner| self.with_defaults(inner))
    }
}

/// Whether a credential from another source would go to an endpoint that the file names.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) is_mixed: bool,
}

impl FromArgMatches for Origin {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let source = |option| matches.value_source(option);
        // These options have no default but the file's value.
        let file = ValueSource::DefaultValue;
        let endpoint = source("endpoint").or_else(|| source("connection_string"));
        let mut credentials = ["key", "connection_string", "token", "token_command"]
            .into_iter()
            .filter_map(source);
        Ok(Self {
            is_mixed: endpoint == Some(file) && credentials.any(|source| source != file),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// It reads the sources of other options and has none of its own.
impl Args for Origin {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_programs_are_ignored() {
        let text = "\u{feff}COSMOS_KEY='a=' # a key\r\n  export COSMOS_DATABASE=shop\nCOSMOS_KEY=b\n\
                    PATH=$HOME\nany text\n#COSMOS_TOKEN=c\nCOSMOS_TOKEN_COMMAND=x\nCOSMOS_KEYS=$d\n";
        let file = EnvFile::parse(text).unwrap();
        let expected = [("COSMOS_DATABASE", "shop"), ("COSMOS_KEY", "a=")];
        let values = file
            .values
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        assert_eq!(values.collect::<Vec<_>>(), expected);
    }
}
