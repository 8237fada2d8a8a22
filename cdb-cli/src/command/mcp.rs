//! `cdb mcp`: the options of the server.

use clap::Args;

use crate::connection::Connection;

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Offer tools that change something too. Each shows its plan first and makes the change in a
    /// second call, which carries what the first one answered
    #[arg(long)]
    pub(crate) allow_actions: bool,
    /// Read by `given_options`, for the command of each call.
    #[command(flatten)]
    _connection: Connection,
}
