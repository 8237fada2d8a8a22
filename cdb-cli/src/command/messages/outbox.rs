//! `cdb outbox`: lists the undelivered messages between instances, and the messages between
//! partitions whose delivery is retried.

use clap::Args;

use crate::connection::Connection;
use crate::container::Holdings;
use crate::container::paging::PageStart;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;
use crate::view::messages::outbox;

#[derive(Debug, Args)]
pub(crate) struct OutboxArgs {
    /// Maximum number of rows
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Start of the page: `next` of the previous page's JSON
    #[arg(long, value_name = "TEXT")]
    from: Option<PageStart>,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(
    args: &OutboxArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let holdings = Holdings::open(&args.connection, model).await?;
    let rows = usize::from(args.limit);
    console.answer(&outbox::read(&holdings, rows, args.from.clone()).await?)?;
    Ok(Exit::Ok)
}
