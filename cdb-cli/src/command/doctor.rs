//! `cdb doctor`: checks the account, the container and its runtimes.

use clap::Args;

use crate::connection::Connection;
use crate::doctor::examine;
use crate::exit::{Exit, Failure};
use crate::model::Model;
use crate::output::Console;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    connection: Connection,
}

pub(crate) async fn run(
    args: &DoctorArgs,
    model: &Model,
    console: &mut Console<'_>,
) -> Result<Exit, Failure> {
    let diagnosis = examine(&args.connection, model)
        .await?
        .for_program(console.program);
    console.answer(&diagnosis)?;
    Ok(diagnosis.exit())
}
