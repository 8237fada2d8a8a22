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

/// Returns the text of an error, followed by the texts of its causes that it does not contain.
fn with_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !message.contains(&text) {
            message = format!("{message}: {text}");
        }
        cause = inner.source();
    }
    message
}
