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
use crate::containers::{Containers, reorder};
use crate::env_file::EnvFile;
use crate::examples;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;

/// The command for the containers of a program, with its queries and settings. `C` is the container
/// that was named last: queries and settings are its own.
///
/// ```no_run
/// use cdb_cli::Cli;
/// use cdb_model::Query;
/// use cdb_provider::documents::{Durable, Instance, Status};
///
/// fn main() -> std::process::ExitCode {
///     let failed = Query::<Instance>::across_partitions().filter(Instance::STATUS.eq(Status::Failed));
///     // `policy diff` reports whether the live policy serves the query, `model` which index does.
///     Cli::<Durable>::new("duroxide").query("failed instances", failed).run()
/// }
/// ```
pub struct Cli<C> {
    containers: Containers,
    env_file: EnvFile,
    marker: PhantomData<fn() -> C>,
}

impl<C: Container> Cli<C> {
    /// Creates the command for a container type, with the name of the container unless an option or
    /// a variable gives another one.
    pub fn new(container: impl Into<String>) -> Self {
        Self {
            containers: Containers::new::<C>(container.into()),
            env_file: EnvFile::default(),
            marker: PhantomData,
        }
    }

    /// Adds another container of the program. `--container` then chooses one of them, and commands
    /// about orchestrations choose the only one that holds some.
    ///
    /// ```no_run
    /// # use cdb_model::{Container, Document};
    /// # use serde::{Deserialize, Serialize};
    /// # #[derive(Document, Serialize, Deserialize)]
    /// # #[document(type = "order", id = "order:{number}")]
    /// # struct Order { #[document(partition_key)] customer: String, number: u64 }
    /// # #[derive(Container)]
    /// # #[container(partition_key = "/customer")]
    /// # enum Shop { Order(Order) }
    /// # use cdb_provider::documents::Durable;
    /// fn main() -> std::process::ExitCode {
    ///     let cli = cdb_cli::Cli::<Shop>::new("shop").container::<Durable>("duroxide");
    ///     cli.database("shop").run()
    /// }
    /// ```
    #[must_use]
    pub fn container<D: Container>(mut self, name: impl Into<String>) -> Cli<D> {
        self.containers.add::<D>(name.into());
        Cli {
            containers: self.containers,
            env_file: self.env_file,
            marker: PhantomData,
        }
    }

    /// Sets the name of the database, unless an option or a variable gives another one. By default
    /// it is `duroxide`.
    #[must_use]
    pub fn database(mut self, name: impl Into<String>) -> Self {
        self.containers.database = name.into();
        self
    }

    /// Adds a query of the program, with a name to show. `model` lists the indexes that serve the
    /// query, and `policy diff` reports whether the live policy serves it. The command knows the
    /// query forms that the model declares indexes for.
    #[must_use]
    pub fn query(mut self, name: impl Into<String>, query: impl Explain<C> + 'static) -> Self {
        self.containers.last_mut().add_query(name.into(), query);
        self
    }

    /// Sets the messaging settings of the container. A redriven dead letter gets the message
    /// lifetime of these settings.
    #[must_use]
    pub fn messaging(mut self, config: MessagingConfig) -> Self {
        self.containers.last_mut().messaging = config;
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
    ///     Cli::<Durable>::new("duroxide").orchestrations(orchestrations()).run()
    /// }
    /// ```
    #[must_use]
    pub fn orchestrations(mut self, registry: OrchestrationRegistry) -> Self {
        self.containers.last_mut().replay = Some(Replay::new(registry));
        self
    }

    /// Sets the codec with which payloads are shown and written. By default it is `Encryption` with
    /// the keys of `COSMOS_PAYLOAD_KEYS`. Without a codec or a key, payloads are shown as they are
    /// stored.
    #[must_use]
    pub fn payload_codec(mut self, codec: Arc<dyn PayloadCodec>) -> Self {
        self.containers.last_mut().payload_codec = Some(codec);
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
        let arguments = reorder(
            arguments
                .into_iter()
                .map(Into::into)
                .collect::<Vec<OsString>>(),
        );
        let program = program(arguments.first());
        if let Some(name) = self.containers.duplicate() {
            let error = format!("the program declares two containers with the name `{name}`");
            let error = Args::command().error(clap::error::ErrorKind::ValueValidation, error);
            return show_usage(&error, out, err);
        }
        let command = self.containers.in_options_of(Args::command());
        let mut command = self
            .env_file
            .with_defaults(examples::add_to(command, &program));
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
        match Box::pin(dispatch(args.command, model, &mut console)).await {
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
        Command::Limits(args) => command::limits::run(&args, model, console).await,
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
fn program(first: Option<&OsString>) -> String {
    let stem = first.and_then(|path| Path::new(path).file_stem());
    stem.map_or_else(
        || "cdb".to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

impl<C> std::fmt::Debug for Cli<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let containers = self.containers.all().map(|model| &model.container);
        f.debug_struct("Cli")
            .field("containers", &containers.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
