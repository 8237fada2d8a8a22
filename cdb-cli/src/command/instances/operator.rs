//! The name of the operator, for the record of a change.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Operator {
    /// Name for the record; by default that of the user of this machine
    #[arg(
        long,
        value_name = "NAME",
        env = if cfg!(windows) { "USERNAME" } else { "USER" },
        hide_env = true,
        default_value = "unknown"
    )]
    pub(crate) by: String,
}
