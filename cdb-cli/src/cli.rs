//! The command for one container type: reads arguments, runs a subcommand, returns an exit code.

use std::ffi::OsString;
use std::io::Write;
use std::marker::PhantomData;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use cdb_model::{Container, Explain};
use cdb_provider::coordination::MessagingConfig;
use cdb_provider::payload::PayloadCodec;
use cdb_provider::replay::Replay;
use clap::{CommandFactory, FromArgMatches};
use duroxide::OrchestrationRegistry;

use crate::args::{Args, Command};
use crate::color::Terminal;
use crate::command;
use crate::env_file::EnvFile;
use crate::examples;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;

/// The command for the container `C`, with the queries and settings of the program.
///
/// ```no_run
/// use cdb_cli::Cli;
/// use cdb_model::Query;
/// use cdb_provider::documents::{Durable, Instance, Status};
///
/// fn main() -> std::process::ExitCode {
///     let failed = Query::<Instance>::across_partitions().filter(Instance::STATUS.eq(Status::Failed));
///     // `policy diff` reports whether the live policy serves the query, `model` which index does.
///     Cli::<Durable>::new().query("failed instances", failed).run()
/// }
/// ```
pub struct Cli<C> {
    model: Model,
    env_file: EnvFile,
    marker: PhantomData<fn() -> C>,
}

impl<C: Container> Cli<C> {
    /// Creates the command for `C`.
    pub fn new() -> Self {
        Self {
            model: Model::of::<C>(),
            env_file: EnvFile::default(),
            marker: PhantomData,
        }
    }

    /// Adds a query of your program, with a name to show. `model` lists the indexes that serve the
    /// query, and `policy diff` reports whether the live policy serves it. The command knows the
    /// query forms that the model declares indexes for.
    #[must_use]
    pub fn query(mut self, name: impl Into<String>, query: impl Explain<C> + 'static) -> Self {
        self.model.add_query(name.into(), query);
        self
    }

    /// Sets the messaging settings of the container. A redriven dead letter gets the message
    /// lifetime of these settings.
    #[must_use]
    pub fn messaging(mut self, config: MessagingConfig) -> Self {
        self.model.messaging = config;
        self
    }

    /// Adds the orchestrations of the program. `instances replay` then checks, before a build is
    /// deployed, that its code makes the decisions that running instances have recorded.
    ///
    /// ```no_run
    /// use cdb_cli::Cli;
    /// use cdb_provider::documents::Durable;
    /// use duroxide::OrchestrationRegistry;
    ///
    /// fn orchestrations() -> OrchestrationRegistry {
    ///     OrchestrationRegistry::builder().build() // as for the runtime
    /// }
    ///
    /// fn main() -> std::process::ExitCode {
    ///     Cli::<Durable>::new().orchestrations(orchestrations()).run()
    /// }
    /// ```
    #[must_use]
    pub fn orchestrations(mut self, registry: OrchestrationRegistry) -> Self {
        self.model.replay = Some(Replay::new(registry));
        self
    }

    /// Sets the codec with which payloads are shown and written. By default it is `Encryption` with
    /// the keys of `COSMOS_PAYLOAD_KEYS`. Without a codec or a key, payloads are shown as they are
    /// stored.
    #[must_use]
    pub fn payload_codec(mut self, codec: Arc<dyn PayloadCodec>) -> Self {
        self.model.payload_codec = Some(codec);
        self
    }

    /// Runs with the arguments of this process and writes to its standard streams. Variables of
    /// options that the environment lacks are read from the file `.env` of the working directory or
    /// a parent, except a token command.
    pub fn run(mut self) -> ExitCode {
        match EnvFile::find() {
            Ok(file) => self.env_file = file,
            Err(reason) => {
                eprintln!("cdb: the file `.env` cannot be read: {reason}");
                return Exit::Usage.into();
            }
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => {
                let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
                let terminal = Terminal::of_process();
                let arguments = std::env::args_os();
                runtime
                    .block_on(self.run_on(arguments, &mut out, &mut err, terminal))
                    .into()
            }
            Err(error) => {
                eprintln!("cdb: cannot start the async runtime: {error}");
                Exit::Usage.into()
            }
        }
    }

    /// Runs with `arguments`, whose first item is the program's name, and writes to `out` and
    /// `err`. For tests and for programs that embed the command.
    pub async fn run_with(
        &self,
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
        out: &mut (dyn Write + Send),
        err: &mut (dyn Write + Send),
    ) -> Exit {
        self.run_on(arguments, out, err, Terminal::default()).await
    }

    async fn run_on(
        &self,
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
        out: &mut (dyn Write + Send),
        err: &mut (dyn Write + Send),
        terminal: Terminal,
    ) -> Exit {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        let program = program(arguments.first());
        let mut command = self
            .env_file
            .with_defaults(examples::add_to(Args::command(), &program));
        let parsed = command.try_get_matches_from_mut(arguments);
        let args = match parsed.and_then(|matches| Args::from_arg_matches(&matches)) {
            Ok(args) => args,
            Err(error) => return show_usage(&error.format(&mut command), out, err),
        };
        let mut console = Console::new(out, err, args.json, terminal, &program);
        match Box::pin(self.dispatch(args.command, &mut console)).await {
            Ok(exit) => exit,
            Err(failure) => {
                if !failure.message.is_empty() {
                    // Standard error itself failed: there is no other stream for this error.
                    let _ = console.failure(&failure);
                }
                failure.exit
            }
        }
    }

    async fn dispatch(&self, command: Command, console: &mut Console<'_>) -> Result<Exit, Failure> {
        match command {
            Command::Policy(args) => command::policy::run(&args, &self.model, console).await,
            Command::Model(args) => command::model::run(&args, &self.model, console),
            Command::Instances(args) => {
                Box::pin(command::instances::run(&args, &self.model, console)).await
            }
            Command::Queues(args) => command::queues::run(&args, &self.model, console).await,
            Command::Outbox(args) => command::outbox::run(&args, &self.model, console).await,
            Command::DeadLetters(args) => {
                command::deadletters::run(&args, &self.model, console).await
            }
            Command::Members(args) => command::members::run(&args, &self.model, console).await,
            Command::Export(args) => command::copy::export(&args, &self.model, console).await,
            Command::Import(args) => command::copy::import(&args, &self.model, console).await,
            Command::Migrate(args) => command::migrate::run(&args, &self.model, console).await,
            Command::Doctor(args) => command::doctor::run(&args, &self.model, console).await,
            #[cfg(feature = "dashboard")]
            Command::Dashboard(args) => command::dashboard::run(&args, &self.model, console).await,
            #[cfg(feature = "emulator")]
            Command::Emulator(emulator) => match emulator.run(console.out).await {
                Ok(()) => Ok(Exit::Ok),
                Err(error) => Err(Failure::usage(error.to_string())),
            },
            Command::Completions { shell } => command::completions::run(shell, console),
        }
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
fn program(first: Option<&OsString>) -> String {
    let stem = first.and_then(|path| Path::new(path).file_stem());
    stem.map_or_else(
        || "cdb".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

impl<C: Container> Default for Cli<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Container> std::fmt::Debug for Cli<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cli")
            .field("container", &C::NAME)
            .finish_non_exhaustive()
    }
}
