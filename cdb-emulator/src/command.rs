//! The command: its options, the emulator that they describe, and its life from the first line to the last.
//!
//! Both `cdb-emulator` and `cdb emulator` are this.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use crate::{Emulator, EmulatorBuilder, FaultPlan, WELL_KNOWN_KEY};

/// A server that speaks Azure Cosmos DB's REST protocol (NoSQL), for development and tests. It listens on the loopback
/// address only. The data is in memory, and gone at the end, unless --data is given.
///
/// ```
/// use cdb_emulator::EmulatorCommand;
/// use clap::Parser as _;
///
/// /// A program of one's own with the emulator among its commands.
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
// The help is the first paragraph: the example is for those who read the documentation.
#[command(long_about = None)]
pub struct EmulatorCommand {
    /// Port to listen on; 0 for any free one
    #[arg(long, value_name = "PORT", default_value_t = 8081)]
    port: u16,
    /// Directory that keeps the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Physical partitions of a new container
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    partitions: u32,
    /// Request units per second of a container whose creator names none; without it there is no limit
    #[arg(long, value_name = "RU/S")]
    throughput: Option<u32>,
    /// Account key in base64, instead of the well-known one of all emulators
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// Latency and faults as JSON, in the form of POST /_admin/faults
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Speak HTTPS, with a certificate made at the start
    #[arg(long)]
    tls: bool,
    /// Where to write the authority of that certificate, as PEM, for clients to trust
    #[arg(long, value_name = "FILE", requires = "tls")]
    certificate: Option<PathBuf>,
}

impl EmulatorCommand {
    /// Runs the emulator until ctrl-c is pressed or the process is told to end. Writes a line when it is ready, one for
    /// the shell of whoever connects, and one at the end.
    ///
    /// # Errors
    /// When the emulator cannot be started as the options say, or nothing can be written to `out`; that nobody reads it any more is
    /// no error.
    pub async fn run(
        &self,
        out: &mut (dyn Write + Send),
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let started = Instant::now();
        // Before the first line: whoever reads it may send the signal at once.
        let end = Signals::listen()?;
        let emulator = self.builder()?.start().await?;
        if let (Some(file), Some(pem)) = (&self.certificate, emulator.certificate_pem()) {
            let name = file.display();
            std::fs::write(file, pem).map_err(|error| format!("cannot write {name}: {error}"))?;
        }
        say(out, &self.ready(&emulator, started))?;
        say(out, &self.how_to_connect(&emulator))?;
        end.wait().await;
        let requests = emulator.requests();
        emulator.stop().await;
        let (count, charge) = (requests.total(), requests.charge);
        let end = format!("stopped after {count} requests and {charge:.0} RU");
        Ok(say(out, &end)?)
    }

    /// The line that says that it is ready, and for whom.
    fn ready(&self, emulator: &Emulator, started: Instant) -> String {
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
        let limit = self.throughput.map_or_else(
            || "no limit".to_owned(),
            |throughput| format!("{throughput} RU/s"),
        );
        format!(
            "ready after {} ms at {endpoint} with {key}; {data}; {} physical partition(s) and {limit} per container; \
             Explorer at {endpoint}_explorer/; ctrl-c ends it",
            started.elapsed().as_millis(),
            self.partitions,
        )
    }

    /// What a shell is told so that programs find it. A key of the user's own is not repeated.
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

    /// The emulator as it is to be started.
    fn builder(&self) -> Result<EmulatorBuilder, String> {
        let mut builder = Emulator::builder()
            .port(self.port)
            .physical_partitions(self.partitions)
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
        serde_json::from_slice(&text).map_err(|error| format!("no faults in {name}: {error}"))
    }
}

/// Says it to whoever still listens. A script that has read the first line and goes its way does not end the emulator.
fn say(out: &mut (dyn Write + Send), line: &str) -> io::Result<()> {
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        said => said,
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
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Until ctrl-c is pressed.
    async fn wait(self) {
        // Without a handler the process ends by itself.
        let _ = tokio::signal::ctrl_c().await;
    }
}
