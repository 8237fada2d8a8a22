//! `cdb queues`: the length of each queue and the age of its oldest item.

use clap::Args;

use crate::connection::Connection;
use crate::container::Holdings;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;
use crate::view::queues::backlog::{self, slot_table};

#[derive(Debug, Args)]
pub(crate) struct QueuesArgs {
    #[command(flatten)]
    connection: Connection,
    /// Also show the dispatch slots of the 1,000 oldest due messages
    #[arg(long)]
    slots: bool,
}

pub(crate) async fn run(
    args: &QueuesArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let holdings = Holdings::open(&args.connection, model).await?;
    let backlog = backlog::read(&holdings).await?;
    console.answer(&backlog)?;
    if let Some(queues) = &backlog.orchestrations
        && args.slots
        && !console.json
    {
        console.text(&format!("\n{}", slot_table(&queues.slots)))?;
    }
    Ok(Exit::Ok)
}
