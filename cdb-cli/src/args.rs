//! The commands and their options.

use cdb_emulator::EmulatorCommand;
use clap::{Parser, Subcommand};

#[cfg(feature = "dashboard")]
use crate::command::dashboard::DashboardArgs;
use crate::command::deadletters::DeadLettersArgs;
use crate::command::doctor::DoctorArgs;
use crate::command::instances::InstancesArgs;
use crate::command::members::MembersArgs;
use crate::command::model::ModelArgs;
use crate::command::outbox::OutboxArgs;
use crate::command::policy::PolicyArgs;
use crate::command::queues::QueuesArgs;

/// Documents and orchestrations on Azure Cosmos DB: compare a container with its model, look after instances and queues,
/// find what is wrong, run an emulator.
///
/// Exit codes: 0 done; 1 a finding, such as drift; 2 asked wrongly; 3 the service refuses or cannot be reached.
#[derive(Debug, Parser)]
#[command(name = "cdb", version)]
pub(crate) struct Args {
    /// Answer with one JSON value
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The container's indexing policy: print, compare, replace
    Policy(PolicyArgs),
    /// The document types, and which index serves which query
    Model(ModelArgs),
    /// Orchestration instances: look at them, and intervene
    Instances(InstancesArgs),
    /// How much waits, and for how long
    Queues(QueuesArgs),
    /// Messages between instances that are on their way
    Outbox(OutboxArgs),
    /// Messages that were given up: look at them, have them tried again, or throw them away
    #[command(name = "deadletters")]
    DeadLetters(DeadLettersArgs),
    /// The runtimes that share the container's slots
    Members(MembersArgs),
    /// Find what is wrong, and say what to do about it
    Doctor(DoctorArgs),
    /// Serve a page on this machine that shows all of it, live
    #[cfg(feature = "dashboard")]
    Dashboard(DashboardArgs),
    /// Run the emulator
    Emulator(EmulatorCommand),
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}
