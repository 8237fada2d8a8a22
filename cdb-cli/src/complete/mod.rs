//! Completions of a shell: commands, options, and names that the container holds.
//!
//! The script of a shell calls the program at every completion, with the shell's name in the
//! variable `COMPLETE` and the words of the command line after `--`. This is the dynamic engine of
//! clap_complete: <https://docs.rs/clap_complete/latest/clap_complete/env/>. A completion prints
//! candidates or nothing; it never prints an error into the command line of the user.

mod names;
mod words;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Command, CommandFactory as _};
use clap_complete::ArgValueCompleter;
use clap_complete::env::Shells;

use crate::args::Args;
use crate::complete::names::Names;
use crate::connection::Connection;
use crate::env_file::EnvFile;
use crate::exit::Exit;
use crate::model::Model;

/// The variable in which a shell's script passes the name of the shell.
const VARIABLE: &str = "COMPLETE";

/// Returns the shell that asks for completions. `None` in an ordinary run.
pub(crate) fn asking_shell() -> Option<OsString> {
    std::env::var_os(VARIABLE).filter(|shell| !shell.is_empty() && shell != "0")
}

/// Prints the completions of the words after `--`. Without words it prints the script of the shell.
pub(crate) fn run(
    shell: &OsStr,
    source: (Model, &EnvFile),
    arguments: impl Iterator<Item = OsString>,
    program: &str,
) -> Exit {
    let mut arguments = arguments.peekable();
    let path = arguments.peek().cloned().unwrap_or_default();
    let words: Vec<OsString> = arguments.skip_while(|word| word != "--").skip(1).collect();
    // The variable may hold a path, such as that of `$SHELL`.
    let shell = Path::new(shell).file_stem().unwrap_or(shell);
    let shell = shell.to_string_lossy();
    let answer = if words.is_empty() {
        script(&shell, &path, program)
    } else {
        answer(&shell, source, words)
    };
    let Ok(answer) = answer else {
        return Exit::Usage;
    };
    // The shell has closed the pipe: it needs no answer any more.
    let _ = io::stdout().write_all(&answer);
    Exit::Ok
}

/// Returns the script that makes a shell ask the program at `path` for the completions of
/// `program`.
///
/// # Errors
/// When the engine does not know the shell.
pub(crate) fn script(shell: &str, path: &OsStr, program: &str) -> io::Result<Vec<u8>> {
    let path = Path::new(path);
    // A name without a folder is looked up in PATH at each call, so that an update is found.
    let path = match path.components().count() {
        0 => PathBuf::from(program),
        1 => path.to_owned(),
        _ => std::path::absolute(path)?,
    };
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(shell).ok_or(io::ErrorKind::Unsupported)?;
    completer.write_registration(
        VARIABLE,
        program,
        program,
        &path.to_string_lossy(),
        &mut script,
    )?;
    Ok(script)
}

fn answer(
    shell: &str,
    (model, file): (Model, &EnvFile),
    words: Vec<OsString>,
) -> io::Result<Vec<u8>> {
    let connection = words::connection(&words, file);
    let mut command = command(model, connection);
    let mut answer = Vec::new();
    let shells = Shells::builtins();
    let completer = shells.completer(shell).ok_or(io::ErrorKind::Unsupported)?;
    let folder = std::env::current_dir().ok();
    completer.write_complete(&mut command, words, folder.as_deref(), &mut answer)?;
    Ok(answer)
}

/// Returns the command whose arguments complete names of the container of `connection`.
pub(crate) fn command(model: Model, connection: Option<Connection>) -> Command {
    let command = Args::command();
    let Some(connection) = connection else {
        return command;
    };
    add_names(command, &Arc::new((model, connection)))
}

fn add_names(command: Command, source: &Arc<(Model, Connection)>) -> Command {
    let name = command.get_name().to_owned();
    let command = command.mut_args(|arg| match Names::of(&name, arg.get_id().as_str()) {
        None => arg,
        Some(names) => {
            let source = Arc::clone(source);
            arg.add(ArgValueCompleter::new(move |prefix: &OsStr| {
                let (model, connection) = &*source;
                let prefix = prefix.to_str().unwrap_or_default();
                names.starting_with(prefix, model, connection)
            }))
        }
    });
    command.mut_subcommands(|inner| add_names(inner, source))
}

#[cfg(test)]
mod tests;
