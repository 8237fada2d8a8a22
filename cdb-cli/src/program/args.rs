//! The commands and their options.

#[cfg(feature = "emulator")]
use cdb_emulator::EmulatorCommand;
use clap::{Parser, Subcommand};

use crate::command::change_feed::ChangeFeedArgs;
#[cfg(feature = "dashboard")]
use crate::command::dashboard::DashboardArgs;
use crate::command::doctor::DoctorArgs;
use crate::command::documents::{ExportArgs, ImportArgs, MigrateArgs};
use crate::command::instances::InstancesArgs;
use crate::command::limits::LimitsArgs;
#[cfg(feature = "mcp")]
use crate::command::mcp::McpArgs;
use crate::command::members::MembersArgs;
use crate::command::messages::MessagesArgs;
use crate::command::model::ModelArgs;
use crate::command::policy::PolicyArgs;
use crate::command::queues::QueuesArgs;

/// Inspects and manages documents and orchestrations on Azure Cosmos DB, and runs an emulator.
///
/// Exit codes: 0 success; 1 a finding, such as a difference or an instance that does not exist; 2 wrong
/// usage, such as a change without --yes; 3 the service refused a request or cannot be reached, or the
/// container does not exist.
///
/// The answer is on standard output; remarks, errors and, on a terminal, progress are on standard error.
#[derive(Debug, Parser)]
#[command(name = "cdb", version)]
pub(crate) struct Args {
    /// Print the answer as one JSON value
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print, compare or replace the container's indexing policy
    Policy(PolicyArgs),
    /// Show the document types and the index that serves each query
    Model(ModelArgs),
    /// List, show, cancel, pause and delete orchestration instances
    Instances(Box<InstancesArgs>),
    /// Show the length of each queue and the age of its oldest item
    Queues(QueuesArgs),
    /// List, show, redrive and discard messages that were not delivered or whose handlers failed
    Messages(MessagesArgs),
    /// List the parts of change feeds, with reader, lag and last failure
    ChangeFeed(ChangeFeedArgs),
    /// List, set and remove limits of activities: how many run and start, in which order
    Limits(LimitsArgs),
    /// List the runtimes that share the dispatch slots
    Members(MembersArgs),
    /// Write the documents of the container, or of instances, as JSON lines
    Export(ExportArgs),
    /// Write documents from JSON lines into the container
    Import(ImportArgs),
    /// Rewrite documents of older versions in the version of their type
    Migrate(MigrateArgs),
    /// Check the account, the container and its runtimes, with a remedy for each finding
    Doctor(DoctorArgs),
    /// Serve a local web page with live instances, queues and failed messages
    #[cfg(feature = "dashboard")]
    Dashboard(DashboardArgs),
    /// Serve the commands as tools of the Model Context Protocol, on standard input and output
    #[cfg(feature = "mcp")]
    Mcp(McpArgs),
    /// Run an emulator of Azure Cosmos DB
    #[cfg(feature = "emulator")]
    Emulator(EmulatorCommand),
    /// Print the script of a shell that completes commands and options
    ///
    /// Load the script when the shell starts, so that it fits the installed version: `source <(cdb
    /// completions bash)` in ~/.bashrc, `source <(cdb completions zsh)` in ~/.zshrc behind compinit,
    /// `cdb completions fish | source` in ~/.config/fish/config.fish, `eval (cdb completions elvish
    /// | slurp)` in rc.elv, `cdb completions powershell | Out-String | Invoke-Expression` in $PROFILE.
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}
