//! The command for the containers of a program: what the program sets, and the two ways to run it.

use std::ffi::OsString;
use std::io::Write;
use std::marker::PhantomData;
use std::process::ExitCode;
use std::sync::Arc;

use cdb_model::Container;
use cdb_model::query::Explain;
use cdb_provider::coordination::messaging::MessagingConfig;
use cdb_provider::payload::PayloadCodec;
use cdb_provider::replay::Replay;
use duroxide::OrchestrationRegistry;

use super::containers::Containers;
use crate::connection::env_file::EnvFile;
use crate::exit::Exit;
use crate::output::Terminal;
use crate::program::Program;

/// The command for the containers of a program, with its queries and settings. `C` is the type of the
/// container that was named last: queries are of this type. Settings are the program's, whatever the
/// order of the calls.
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
    program: Program,
    marker: PhantomData<fn() -> C>,
}

impl<C: Container> Cli<C> {
    /// Creates the command for a container type, with the name of the container unless an option or
    /// a variable gives another one.
    pub fn new(container: impl Into<String>) -> Self {
        Self {
            program: Program {
                containers: Containers::new::<C>(container.into()),
                env_file: EnvFile::default(),
            },
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
        self.program.containers.add::<D>(name.into());
        Cli {
            program: self.program,
            marker: PhantomData,
        }
    }

    /// Sets the name of the database, unless an option or a variable gives another one. By default
    /// it is `duroxide`.
    #[must_use]
    pub fn database(mut self, name: impl Into<String>) -> Self {
        self.program.containers.database = name.into();
        self
    }

    /// Adds a query of the program, with a name to show. `model` lists the indexes that serve the
    /// query, and `policy diff` reports whether the live policy serves it. The command knows the
    /// query forms that the model declares indexes for.
    #[must_use]
    pub fn query(mut self, name: impl Into<String>, query: impl Explain<C> + 'static) -> Self {
        self.program.containers.add_query(name.into(), query);
        self
    }

    /// Sets the messaging settings of the program. A redriven dead letter gets the message lifetime
    /// of these settings.
    #[must_use]
    pub fn messaging(mut self, config: MessagingConfig) -> Self {
        self.program.containers.set(|of| of.messaging = config);
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
        let replay = Arc::new(Replay::new(registry));
        let containers = &mut self.program.containers;
        containers.set(|of| of.replay = Some(replay));
        self
    }

    /// Sets the codec with which payloads are shown and written. By default it is `Encryption` with
    /// the keys of `COSMOS_PAYLOAD_KEYS`. Without a codec or a key, payloads are shown as they are
    /// stored.
    #[must_use]
    pub fn payload_codec(mut self, codec: Arc<dyn PayloadCodec>) -> Self {
        let containers = &mut self.program.containers;
        containers.set(|of| of.payload_codec = Some(codec));
        self
    }

    /// Runs with the arguments of this process and writes to its standard streams. Variables of
    /// options that the environment lacks are read from the file `.env` of the working directory or
    /// a parent, except a token command.
    pub fn run(self) -> ExitCode {
        self.program.run_process()
    }

    /// Runs with `arguments`, whose first item is the program's name, and writes to `out` and
    /// `err`. For tests and for programs that embed the command.
    pub async fn run_with(
        &self,
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
        out: &mut (dyn Write + Send),
        err: &mut (dyn Write + Send),
    ) -> Exit {
        let arguments = arguments.into_iter().map(Into::into).collect();
        let terminal = Terminal::default();
        self.program.run(arguments, out, err, terminal).await
    }
}

impl<C> std::fmt::Debug for Cli<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let containers = self.program.containers.all().map(|model| &model.container);
        f.debug_struct("Cli")
            .field("containers", &containers.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
