//! The options and the execution of the commands `cdb-emulator` and `cdb emulator`.

use std::error::Error;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Map, Value};

use super::emulator::Emulator;
use crate::account::{Settings, WELL_KNOWN_KEY};
use crate::time::stopwatch;

/// A server that speaks Azure Cosmos DB's REST protocol (NoSQL), for development and tests. The
/// data is in memory and lost when it stops, unless --data is given.
///
/// ```
/// use cdb_emulator::EmulatorCommand;
/// use clap::Parser as _;
///
/// /// A program with the emulator as a command.
/// #[derive(clap::Parser)]
/// enum Program {
///     Emulator(EmulatorCommand),
/// }
///
/// async fn run(program: Program) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
///     match program {
///         Program::Emulator(command) => command.run(&mut std::io::stdout()).await,
///     }
/// }
///
/// let program = Program::try_parse_from(["program", "emulator", "--port", "0", "--data", "target/data"])?;
/// # drop(run(program));
/// assert!(Program::try_parse_from(["program", "emulator", "--certificate", "ca.pem"]).is_err()); // without --tls
/// # Ok::<(), clap::Error>(())
/// ```
#[derive(Clone, Debug, clap::Args)]
// The help shows the first paragraph only; the example is for the documentation.
#[command(long_about = None)]
pub struct EmulatorCommand {
    /// Settings as JSON, in the form of POST /_admin/settings; the options take precedence
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// Address to listen on, for example 0.0.0.0 in a container. Every client that reaches it and has
    /// the key can read and write all data. 127.0.0.1 by default
    #[arg(long, value_name = "ADDRESS")]
    host: Option<IpAddr>,
    /// Port to listen on; 0 for any free port; 8081 by default
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Directory that stores the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Physical partitions of a new container; one per 10,000 RU/s by default
    #[arg(long, value_name = "COUNT")]
    partitions: Option<u32>,
    /// Request units per second of a container that was created without an offer; unlimited by
    /// default
    #[arg(long, value_name = "RU/S")]
    throughput: Option<u32>,
    /// Account key in base64 instead of the well-known key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Regions of the account, separated by commas; the first one accepts writes. Each further
    /// region listens on the next port
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    regions: Option<Vec<String>>,
    /// Use HTTPS, with a certificate that is generated at startup
    #[arg(long)]
    tls: bool,
    /// Write the certificate authority to this file, as PEM, so that clients can trust it
    #[arg(long, value_name = "FILE", requires = "tls")]
    certificate: Option<PathBuf>,
}

impl EmulatorCommand {
    /// Runs the emulator until ctrl-c or a termination signal. Writes a line when it is ready, a
    /// line with the variables for clients, and a line at the end. A second signal ends the process
    /// at once, with exit code 1.
    ///
    /// # Errors
    /// Fails when the emulator cannot be started with these options, or `out` cannot be written. A
    /// closed pipe is not an error.
    pub async fn run(
        &self,
        out: &mut (dyn Write + Send),
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let started = stopwatch();
        // Before the first line, because its reader may send a signal immediately.
        let mut signals = Signals::listen()?;
        let emulator = self.settings()?.start().await?;
        if let (Some(file), Some(pem)) = (&self.certificate, emulator.certificate_pem()) {
            let name = file.display();
            std::fs::write(file, pem).map_err(|error| format!("cannot write {name}: {error}"))?;
        }
        write_line(out, &ready(&emulator, started))?;
        write_line(out, &how_to_connect(&emulator))?;
        signals.wait().await;
        // In a task of its own: dropping the emulator blocks this task until the store is closed.
        let force_exit = tokio::spawn(async move {
            signals.wait().await;
            std::process::exit(1);
        });
        let requests = emulator.requests();
        emulator.stop().await;
        force_exit.abort();
        let (count, charge) = (requests.total(), requests.charge);
        let stopped = format!("stopped after {count} requests and {charge:.0} RU");
        Ok(write_line(out, &stopped)?)
    }

    /// Returns the settings: options override the file, the file overrides the defaults.
    fn settings(&self) -> Result<Settings, String> {
        let given = self.clone();
        let file = self
            .settings
            .as_deref()
            .map_or(Ok(Map::new()), read_settings)?;
        let defaults = Settings::default().port(8081);
        let settings = defaults.with(file).map_err(|error| error.to_string())?;
        Ok(Settings {
            host: given.host.unwrap_or(settings.host),
            port: given.port.unwrap_or(settings.port),
            data_dir: given.data.or(settings.data_dir),
            physical_partitions: given.partitions.or(settings.physical_partitions),
            throughput: given.throughput.or(settings.throughput),
            key: given.key.unwrap_or(settings.key),
            regions: given.regions.unwrap_or(settings.regions),
            tls: given.tls || settings.tls,
            ..settings
        })
    }
}

/// Reads a file of settings.
fn read_settings(file: &Path) -> Result<Map<String, Value>, String> {
    let name = file.display();
    let text = std::fs::read(file).map_err(|error| format!("cannot read {name}: {error}"))?;
    serde_json::from_slice(&text).map_err(|error| format!("{name} is not a JSON object: {error}"))
}

/// Returns the line that reports the endpoint and the settings.
fn ready(emulator: &Emulator, started: Instant) -> String {
    let (endpoint, settings) = (emulator.endpoint(), &emulator.state.service.settings);
    let key = if settings.key == WELL_KNOWN_KEY {
        "the well-known key"
    } else {
        "the given key"
    };
    let data = settings.data_dir.as_ref().map_or_else(
        || "data in memory".to_owned(),
        |directory| format!("data in {}", directory.display()),
    );
    let limit = settings.throughput.map_or_else(
        || "no limit".to_owned(),
        |throughput| format!("{throughput} RU/s"),
    );
    let partitions = match settings.physical_partitions {
        None => "physical partitions by throughput".to_owned(),
        Some(1) => "1 physical partition".to_owned(),
        Some(count) => format!("{count} physical partitions"),
    };
    format!(
        "ready after {} ms at {endpoint} with {key}; {data}; {partitions} and {limit} per container; \
         Explorer at {endpoint}_explorer/; press ctrl-c to stop",
        started.elapsed().as_millis(),
    )
}

/// Returns the shell command that sets the variables for clients. It does not contain a custom key.
fn how_to_connect(emulator: &Emulator) -> String {
    let key = match emulator.key() {
        WELL_KNOWN_KEY => WELL_KNOWN_KEY,
        _ => "…",
    };
    let endpoint = emulator.endpoint();
    format!("export COSMOS_ENDPOINT={endpoint} COSMOS_KEY={key}")
}

/// Writes a line. A closed pipe is ignored, because a script may read only the first line.
fn write_line(out: &mut (dyn Write + Send), line: &str) -> io::Result<()> {
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for ctrl-c or a termination signal.
    async fn wait(&mut self) {
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
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for ctrl-c.
    async fn wait(&mut self) {
        // If no handler can be installed, ctrl-c ends the process without it.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
