//! The emulator by itself: starts, says where it is, and ends when it is told to.

mod args;

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use cdb_emulator::{Emulator, WELL_KNOWN_KEY};
use clap::Parser as _;

use crate::args::Args;

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cdb-emulator: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    // Before the first line: whoever reads it may send the signal at once.
    let end = Signals::listen()?;
    let emulator = args.builder()?.start().await?;
    if let (Some(file), Some(pem)) = (&args.certificate, emulator.certificate_pem()) {
        let name = file.display();
        std::fs::write(file, pem).map_err(|error| format!("cannot write {name}: {error}"))?;
    }
    println!("{}", ready(args, &emulator, started));
    end.wait().await;
    let requests = emulator.requests();
    emulator.stop().await;
    println!(
        "stopped after {} requests and {:.0} RU",
        requests.total(),
        requests.charge
    );
    Ok(())
}

/// The line that says that it is ready, and for whom.
fn ready(args: &Args, emulator: &Emulator, started: Instant) -> String {
    let endpoint = emulator.endpoint();
    let key = if emulator.key() == WELL_KNOWN_KEY {
        "the well-known key"
    } else {
        "the key given"
    };
    let data = emulator.data_dir().map_or_else(
        || "data in memory".to_owned(),
        |directory| format!("data in {}", directory.display()),
    );
    let limit = args.throughput.map_or_else(
        || "no limit".to_owned(),
        |throughput| format!("{throughput} RU/s"),
    );
    format!(
        "ready after {} ms at {endpoint} with {key}; {data}; {} physical partition(s) and {limit} per container; \
         Explorer at {endpoint}_explorer/; ctrl-c ends it",
        started.elapsed().as_millis(),
        args.partitions,
    )
}

/// An error and what caused it.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Until ctrl-c is pressed, or a supervisor ends the process.
    async fn wait(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[expect(clippy::unnecessary_wraps, reason = "on Unix it can fail")]
    fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    /// Until ctrl-c is pressed.
    async fn wait(self) {
        // Without a handler the process ends by itself.
        let _ = tokio::signal::ctrl_c().await;
    }
}
