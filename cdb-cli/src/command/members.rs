//! `cdb members`: lists the runtimes that share the dispatch slots.

use clap::Args;

use crate::connection::Connection;
use crate::container::Orchestrations;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;
use crate::view::queues::members::Members;

#[derive(Debug, Args)]
pub(crate) struct MembersArgs {
    #[command(flatten)]
    connection: Connection,
    /// Membership group of the runtimes, if it is not the default group
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
}

pub(crate) async fn run(
    args: &MembersArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let orchestrations = Orchestrations::open(&args.connection, model).await?;
    let observe = orchestrations.provider.observe();
    let group = observe.members(args.group.as_deref()).await?;
    console.answer(&Members(group))?;
    Ok(Exit::Ok)
}
