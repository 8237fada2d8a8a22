//! The command `cdb-emulator`.

use std::error::Error;
use std::process::ExitCode;

use cdb_emulator::EmulatorCommand;
use clap::Parser;

#[derive(Debug, Parser)]
#[command(name = "cdb-emulator", version)]
struct Args {
    #[command(flatten)]
    command: EmulatorCommand,
}

#[tokio::main]
async fn main() -> ExitCode {
    match Args::parse().command.run(&mut std::io::stdout()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cdb-emulator: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Formats an error with its causes.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
