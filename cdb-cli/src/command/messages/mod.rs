//! `cdb messages`: lists, shows, redrives and discards messages that were not delivered or whose handlers
//! failed.

mod redrive;

use clap::{Args, Subcommand};

use self::redrive::Chosen;
use crate::connection::Connection;
use crate::container::Holdings;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::model::messages::{Action, Filter, MessageName, PageStart};
use crate::output::Console;

#[derive(Debug, Args)]
pub(crate) struct MessagesArgs {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    command: MessagesCommand,
}

#[derive(Debug, Subcommand)]
enum MessagesCommand {
    /// List messages with their errors: dead ones, oldest first, then those that are retried
    List {
        #[command(flatten)]
        filter: Filter,
        /// Maximum number of messages
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
        /// Start of the page: `next` of the previous page's JSON
        #[arg(long, value_name = "TEXT")]
        from: Option<PageStart>,
    },
    /// Show a message with its contents and attempts
    Show {
        /// Name, as `messages list` shows it
        name: MessageName,
    },
    /// Send dead messages again, after the cause of the failure is fixed: as new messages, those of ordered
    /// work in their place with all attempts
    Redrive(Chosen),
    /// Delete dead messages, which are then never delivered or handled; a stream that one holds goes on
    Discard(Chosen),
}

pub(crate) async fn run(
    args: &MessagesArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let messages = Holdings::open(&args.connection, model).await?.messages;
    match &args.command {
        MessagesCommand::List {
            filter,
            limit,
            from,
        } => {
            let rows = usize::from(*limit);
            console.answer(&messages.page(*filter, rows, from.clone()).await?)?;
        }
        MessagesCommand::Show { name } => {
            let found = messages.find(name).await?;
            let found = found.ok_or_else(|| {
                Failure::finding(format!("message `{name}` is neither dead nor retried"))
            })?;
            console.answer(&found)?;
        }
        MessagesCommand::Redrive(chosen) => {
            return chosen.run(&messages, Action::Redrive, console).await;
        }
        MessagesCommand::Discard(chosen) => {
            return chosen.run(&messages, Action::Discard, console).await;
        }
    }
    Ok(Exit::Ok)
}
