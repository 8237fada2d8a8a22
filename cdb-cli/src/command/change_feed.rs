//! `cdb change-feed`: lists the parts of change feeds, with reader, lag and last failure.

use clap::Args;

use crate::connection::Connection;
use crate::container::Holdings;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;
use crate::view::messages::change_feed;

#[derive(Debug, Args)]
pub(crate) struct ChangeFeedArgs {
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(
    args: &ChangeFeedArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let holdings = Holdings::open(&args.connection, model).await?;
    console.answer(&change_feed::read(&holdings).await?)?;
    Ok(Exit::Ok)
}
