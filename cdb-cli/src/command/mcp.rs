//! `cdb mcp`: the options of the MCP server, which offers the other commands to agents as tools (`crate::mcp`).

use clap::Args;

use crate::connection::Connection;

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// Offer tools that change something too. Each shows its plan first and makes the change in a
    /// second call, which carries what the first one answered
    #[arg(long)]
    pub(crate) allow_actions: bool,
    /// Here for the help and the parser only. A call of a tool runs a command of its own, which gets the
    /// options that `connection::given_options` finds among the arguments.
    #[command(flatten)]
    _connection: Connection,
}
