//! `cdb inbox`: lists the messages between partitions whose handlers fail, with their errors.

use cdb_client::query::Continuation;
use clap::Args;

use crate::connection::Connection;
use crate::container::Holdings;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;
use crate::view::messages::retrying;

#[derive(Debug, Args)]
pub(crate) struct InboxArgs {
    /// Maximum number of rows
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Start of the page: `next` of the previous page's JSON
    #[arg(long, value_name = "TEXT")]
    from: Option<Continuation>,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(
    args: &InboxArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let holdings = Holdings::open(&args.connection, model).await?;
    let rows = usize::from(args.limit);
    console.answer(&retrying::inbox(&holdings, rows, args.from.as_ref()).await?)?;
    Ok(Exit::Ok)
}
