//! The options and the execution of the commands `cdb-emulator` and `cdb emulator`.

use std::error::Error;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Instant;

use crate::clock::stopwatch;
use crate::{Emulator, EmulatorBuilder, FaultPlan, WELL_KNOWN_KEY};

/// A server that speaks Azure Cosmos DB's REST protocol (NoSQL), for development and tests. The
/// data is in memory and lost at the end, unless --data is given.
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
#[derive(Debug, clap::Args)]
// The help shows the first paragraph only; the example is for the documentation.
#[command(long_about = None)]
pub struct EmulatorCommand {
    /// Address to listen on, such as 0.0.0.0 in a container: whoever reaches it and knows the key
    /// reads and writes all data
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: IpAddr,
    /// Port to listen on; 0 for any free port
    #[arg(long, value_name = "PORT", default_value_t = 8081)]
    port: u16,
    /// Directory that stores the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Physical partitions of a new container
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    partitions: u32,
    /// Request units per second of a container that was created without an offer; unlimited by
    /// default
    #[arg(long, value_name = "RU/S")]
    throughput: Option<u32>,
    /// Account key in base64 instead of the well-known key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Latency and faults as JSON, in the form of POST /_admin/faults
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Regions of the account, separated by commas; the first one accepts writes. They listen on the
    /// following ports
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    regions: Vec<String>,
    /// Use HTTPS, with a certificate that is generated at the start
    #[arg(long)]
    tls: bool,
    /// File for the authority of that certificate, as PEM, for clients to trust
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
        let mut end = Signals::listen()?;
        let emulator = self.builder()?.start().await?;
        if let (Some(file), Some(pem)) = (&self.certificate, emulator.certificate_pem()) {
            let name = file.display();
            std::fs::write(file, pem).map_err(|error| format!("cannot write {name}: {error}"))?;
        }
        print(out, &self.ready(&emulator, started))?;
        print(out, &self.how_to_connect(&emulator))?;
        end.wait().await;
        // A task, because the emulator blocks this one while its writer works.
        let at_once = tokio::spawn(async move {
            end.wait().await;
            std::process::exit(1);
        });
        let requests = emulator.requests();
        emulator.stop().await;
        at_once.abort();
        let (count, charge) = (requests.total(), requests.charge);
        let end = format!("stopped after {count} requests and {charge:.0} RU");
        Ok(print(out, &end)?)
    }

    /// Returns the line that reports the endpoint and the settings.
    fn ready(&self, emulator: &Emulator, started: Instant) -> String {
        let endpoint = emulator.endpoint();
        let key = if emulator.key() == WELL_KNOWN_KEY {
            "the well-known key"
        } else {
            "the given key"
        };
        let data = emulator.data_dir().map_or_else(
            || "data in memory".to_owned(),
            |directory| format!("data in {}", directory.display()),
        );
        let limit = self.throughput.map_or_else(
            || "no limit".to_owned(),
            |throughput| format!("{throughput} RU/s"),
        );
        let partitions = match self.partitions {
            1 => "1 physical partition".to_owned(),
            count => format!("{count} physical partitions"),
        };
        format!(
            "ready after {} ms at {endpoint} with {key}; {data}; {partitions} and {limit} per container; \
             Explorer at {endpoint}_explorer/; press ctrl-c to stop",
            started.elapsed().as_millis(),
        )
    }

    /// Returns the shell command that sets the variables for clients. It does not contain a custom
    /// key.
    fn how_to_connect(&self, emulator: &Emulator) -> String {
        let key = match &self.key {
            Some(_) => "…",
            None => WELL_KNOWN_KEY,
        };
        format!(
            "export COSMOS_ENDPOINT={} COSMOS_KEY={key}",
            emulator.endpoint()
        )
    }

    /// Returns the builder with these options.
    fn builder(&self) -> Result<EmulatorBuilder, String> {
        let mut builder = Emulator::builder()
            .host(self.host)
            .port(self.port)
            .physical_partitions(self.partitions)
            .regions(&self.regions)
            .faults(self.plan()?);
        if let Some(directory) = &self.data {
            builder = builder.data_dir(directory);
        }
        if let Some(throughput) = self.throughput {
            builder = builder.throughput(throughput);
        }
        if let Some(key) = &self.key {
            builder = builder.key(key);
        }
        if self.tls {
            builder = builder.tls();
        }
        Ok(builder)
    }

    fn plan(&self) -> Result<FaultPlan, String> {
        let Some(file) = &self.faults else {
            return Ok(FaultPlan::default());
        };
        let name = file.display();
        let text = std::fs::read(file).map_err(|error| format!("cannot read {name}: {error}"))?;
        serde_json::from_slice(&text)
            .map_err(|error| format!("{name} is not a valid fault plan: {error}"))
    }
}

/// Writes a line. A closed pipe is ignored, because a script may read only the first line.
fn print(out: &mut (dyn Write + Send), line: &str) -> io::Result<()> {
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
        // If no handler can be installed, ctrl-c ends the process.
        let _ = tokio::signal::ctrl_c().await;
    }
}
