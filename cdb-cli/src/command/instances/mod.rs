//! `cdb instances`: lists, shows and changes orchestration instances.

mod change;
mod chosen;
mod end;
mod pause;
mod replay;
mod report;
mod restart;
mod rewind;
mod run;
mod select;
mod span;

use clap::{Args, Subcommand};

use crate::command::instances::change::ChangeArgs;
use crate::command::instances::end::{Cancel, Delete, Prune};
use crate::command::instances::pause::{Pause, Resume};
use crate::command::instances::replay::ReplayInstances;
use crate::command::instances::restart::RestartInstances;
use crate::command::instances::rewind::{ForkInstance, Rewind};
use crate::command::instances::run::{Raise, Start, Wait, Watch};
use crate::command::instances::select::List;
use crate::connection::Connection;
use crate::container::Orchestrations;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;
use crate::view::instances::{detail, history, tree};

#[derive(Debug, Args)]
pub(crate) struct InstancesArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: InstancesCommand,
}

#[derive(Debug, Subcommand)]
enum InstancesCommand {
    /// List instances, newest first
    List(List),
    /// Start an orchestration
    Start(Start),
    /// Wait until an instance has ended, and show it; exit code 1 if it failed or has not ended
    Wait(Wait),
    /// Print the events of an instance as they happen, until it has ended
    Watch(Watch),
    /// Show an instance: its state, what it waits for, its lock and its queued work
    Show {
        /// Instance id
        instance: String,
        /// Show input, output and error whole
        #[arg(long)]
        full: bool,
    },
    /// Show the events of an execution
    History {
        /// Instance id
        instance: String,
        /// Number of the execution; the newest by default
        #[arg(long, value_name = "NUMBER")]
        execution: Option<u64>,
        /// Number of events to skip
        #[arg(long, value_name = "COUNT", default_value_t = 0)]
        skip: usize,
        /// Maximum number of events
        #[arg(long, value_name = "COUNT", default_value_t = 1000)]
        limit: usize,
        /// Show inputs, results and errors whole
        #[arg(long)]
        full: bool,
    },
    /// Show an instance and its sub-orchestrations
    Tree {
        /// Instance id
        instance: String,
    },
    /// Cancel instances; each ends at its next turn
    Cancel(ChangeArgs<Cancel>),
    /// Pause running instances: none of their turns and activities starts until they are resumed
    Pause(ChangeArgs<Pause>),
    /// Resume paused instances: what was due meanwhile is due at once
    Resume(ChangeArgs<Resume>),
    /// Start the orchestrations of ended instances again, as new instances
    Restart(ChangeArgs<RestartInstances>),
    /// Continue failed instances from before their failure: failed activities run again, completed
    /// ones do not
    Rewind(ChangeArgs<Rewind>),
    /// Start an instance that continues from an event of another one
    Fork(ForkInstance),
    /// Send an event to an instance. Without --queue, it is dropped unless the orchestration waits for it
    Raise(Raise),
    /// Delete instances with their sub-orchestrations, histories and queued work
    Delete(ChangeArgs<Delete>),
    /// Replay running instances through the orchestrations of this build, before it is deployed;
    /// exit code 1 if the code differs. With --file no connection is needed
    Replay(ReplayInstances),
    /// Delete the histories of earlier executions
    Prune(ChangeArgs<Prune>),
}

pub(crate) async fn run(
    args: &InstancesArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    if let InstancesCommand::Replay(replay) = &args.command
        && let Some(file) = &replay.file
    {
        return replay
            .run_on_file(file, &args.connection, model, console)
            .await;
    }
    let orchestrations = Orchestrations::open(&args.connection, model).await?;
    match &args.command {
        InstancesCommand::List(list) => {
            list.run(&orchestrations, &args.connection, model, console)
                .await
        }
        InstancesCommand::Start(start) => start.run(&orchestrations, console).await,
        InstancesCommand::Wait(wait) => Box::pin(wait.run(&orchestrations, console)).await,
        InstancesCommand::Watch(watch) => watch.run(&orchestrations, console).await,
        InstancesCommand::Show { instance, full } => {
            let mut detail = detail::read(&orchestrations, instance).await?;
            detail.full = *full;
            if detail.of.instance.held.is_some() {
                detail.replayed = replay::replayed(&orchestrations, model, instance).await?;
            }
            console.answer(&detail)?;
            Ok(Exit::Ok)
        }
        InstancesCommand::History {
            instance,
            execution,
            skip,
            limit,
            full,
        } => {
            let window = *skip..skip.saturating_add(*limit);
            let mut history =
                history::read(&orchestrations, instance, *execution, window, false).await?;
            history.full = *full;
            console.answer(&history)?;
            Ok(Exit::Ok)
        }
        InstancesCommand::Tree { instance } => {
            console.answer(&tree::read(&orchestrations, instance).await?)?;
            Ok(Exit::Ok)
        }
        InstancesCommand::Cancel(cancel) => cancel.run(&orchestrations, console).await,
        InstancesCommand::Pause(pause) => pause.run(&orchestrations, console).await,
        InstancesCommand::Resume(resume) => resume.run(&orchestrations, console).await,
        InstancesCommand::Restart(restart) => restart.run(&orchestrations, console).await,
        InstancesCommand::Rewind(rewind) => rewind.run(&orchestrations, console).await,
        InstancesCommand::Fork(fork) => fork.run(&orchestrations, console).await,
        InstancesCommand::Raise(raise) => raise.run(&orchestrations, console).await,
        InstancesCommand::Delete(delete) => delete.run(&orchestrations, console).await,
        InstancesCommand::Replay(replay) => replay.run(&orchestrations, model, console).await,
        InstancesCommand::Prune(prune) => prune.run(&orchestrations, console).await,
    }
}
