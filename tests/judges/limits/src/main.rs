//! Prints the figures of the model.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() != Some("table") {
        eprintln!("usage: limits-model table");
        return ExitCode::FAILURE;
    }
    cdb_limits_model::print_table();
    ExitCode::SUCCESS
}
