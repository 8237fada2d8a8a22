//! The command `cargo simulate`.

use std::process::ExitCode;

fn main() -> ExitCode {
    cdb_simulation::command()
}
