//! The `cdb` command for the container of the provider.

use std::process::ExitCode;

use cdb_provider::documents::Durable;

fn main() -> ExitCode {
    cdb_cli::run::<Durable>()
}
