//! The `cdb` command for the provider's container.

use std::process::ExitCode;

use cdb_provider::documents::Durable;

fn main() -> ExitCode {
    cdb_cli::run::<Durable>("duroxide")
}
