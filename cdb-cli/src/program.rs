//! A run of the command: parses the arguments, runs the subcommand, returns the exit code.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use crate::args::{Args, Command};
use crate::color::Terminal;
use crate::command;
use crate::containers::{Containers, reorder};
use crate::env_file::EnvFile;
use crate::examples;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;

/// The command of a program, without the types of its containers.
pub(crate) struct Program {
    pub(crate) containers: Containers,
    pub(crate) env_file: EnvFile,
}

impl Program {
    /// Runs with `arguments`, whose first item is the program's name.
    pub(crate) async fn run(
        &self,
        arguments: Vec<OsString>,
        out: &mut (dyn Write + Send),
        err: &mut (dyn Write + Send),
        terminal: Terminal,
    ) -> Exit {
        let program = name(arguments.first());
        if let Some(name) = self.containers.duplicate() {
            let error = format!("the program declares two containers with the name `{name}`");
            let error = Args::command().error(ErrorKind::ValueValidation, error);
            return show_usage(&error, out, err);
        }
        let mut command = self.command(&program);
        let arguments = reorder(arguments, &command);
        let parsed = command.try_get_matches_from_mut(arguments);
        let parsed = parsed.and_then(|matches| {
            let args = Args::from_arg_matches(&matches)?;
            Ok((args, self.containers.chosen(&matches)))
        });
        let (args, model) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return show_usage(&error.format(&mut command), out, err),
        };
        let mut console = Console::new(out, err, args.json, terminal, &program);
        let result = Box::pin(dispatch(args.command, model, &mut console)).await;
        result.unwrap_or_else(|failure| {
            if !failure.message.is_empty() {
                // Standard error itself failed: there is no other stream for this error.
                let _ = console.failure(&failure);
            }
            failure.exit
        })
    }

    /// Returns the definition of the command line.
    fn command(&self, program: &str) -> clap::Command {
        let command = self.containers.in_options_of(Args::command());
        self.env_file
            .with_defaults(examples::add_to(command, program))
    }
}

async fn dispatch(
    command: Command,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    match command {
        Command::Policy(args) => command::policy::run(&args, model, console).await,
        Command::Model(args) => command::model::run(&args, model, console),
        Command::Instances(args) => Box::pin(command::instances::run(&args, model, console)).await,
        Command::Queues(args) => command::queues::run(&args, model, console).await,
        Command::Outbox(args) => command::outbox::run(&args, model, console).await,
        Command::DeadLetters(args) => command::deadletters::run(&args, model, console).await,
        Command::Members(args) => command::members::run(&args, model, console).await,
        Command::Export(args) => command::copy::export(&args, model, console).await,
        Command::Import(args) => command::copy::import(&args, model, console).await,
        Command::Migrate(args) => command::migrate::run(&args, model, console).await,
        Command::Doctor(args) => command::doctor::run(&args, model, console).await,
        #[cfg(feature = "dashboard")]
        Command::Dashboard(args) => command::dashboard::run(&args, model, console).await,
        #[cfg(feature = "emulator")]
        Command::Emulator(emulator) => match emulator.run(console.out).await {
            Ok(()) => Ok(Exit::Ok),
            Err(error) => Err(Failure::usage(error.to_string())),
        },
        Command::Completions { shell } => command::completions::run(shell, console),
    }
}

/// Writes a help text to `out`, or a usage error to `err`.
fn show_usage<'a>(error: &clap::Error, out: &'a mut dyn Write, err: &'a mut dyn Write) -> Exit {
    let (stream, exit) = if error.use_stderr() {
        (err, Exit::Usage)
    } else {
        (out, Exit::Ok)
    };
    // The stream itself failed: there is no other stream for this error.
    let _ = stream.write_all(error.render().to_string().as_bytes());
    exit
}

/// The name by which the program was called, from its first argument.
fn name(first: Option<&OsString>) -> String {
    let stem = first.and_then(|path| Path::new(path).file_stem());
    stem.map_or_else(
        || "cdb".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}
