//! The operator whom a change of an instance records.

use clap::Args;

#[derive(Debug, Args)]
pub(super) struct Operator {
    /// Name for the record; by default that of the user of this machine
    #[arg(
        long,
        value_name = "NAME",
        env = "USER",
        hide_env = true,
        default_value = "unknown"
    )]
    pub(super) by: String,
}
