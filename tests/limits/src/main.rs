//! Prints the figures of the model.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("table") => {
            cdb_limits_model::print_table();
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: limits-model table");
            ExitCode::FAILURE
        }
    }
}
