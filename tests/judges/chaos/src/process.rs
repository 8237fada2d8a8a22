//! The processes of a run, as seen by the driver.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use cdb_emulator::Settings;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::clock::Clock;
use crate::runtime::RuntimeArgs;
use crate::wire::admin;

/// How long a process may take to start, before it counts as hanging.
const READY: Duration = Duration::from_secs(600);

/// A process that ends when its input ends, and is killed when it is dropped.
#[derive(Debug)]
struct Process {
    child: Child,
}

impl Process {
    /// Starts a process. Returns its first line of output, printed when it is ready.
    async fn start(program: &Path, arguments: &[String]) -> Result<(Self, String), String> {
        Self::start_by(None, program, arguments).await
    }

    /// Starts a process with a clock of its own.
    async fn start_by(
        clock: Option<&Clock>,
        program: &Path,
        arguments: &[String],
    ) -> Result<(Self, String), String> {
        let mut command = Command::new(program);
        if let Some(clock) = clock {
            clock.given_to(&mut command);
        }
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let output = child.stdout.take().ok_or("a process without output")?;
        let mut said = BufReader::new(output);
        let mut line = String::new();
        let ready = async {
            while !line.starts_with("ready") {
                line.clear();
                if said.read_line(&mut line).await.unwrap_or_default() == 0 {
                    return false;
                }
            }
            true
        };
        match tokio::time::timeout(READY, ready).await {
            Ok(true) => {
                // duroxide logs to this stream, and a process with a full pipe blocks.
                tokio::spawn(
                    async move { tokio::io::copy(&mut said, &mut tokio::io::sink()).await },
                );
                Ok((Self { child }, line))
            }
            Ok(false) => Err(format!("{arguments:?} ended at once")),
            Err(_) => Err(format!("{arguments:?} was not ready in time")),
        }
    }

    async fn kill(&mut self) -> Result<(), String> {
        self.child.kill().await.map_err(|error| error.to_string())
    }

    async fn signal(&self, signal: &str) -> Result<(), String> {
        let id = self.child.id().ok_or("the process has ended")?;
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{signal} {id}")])
            .status()
            .await;
        match sent {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("signal {signal}: {other:?}")),
        }
    }
}

/// The store.
#[derive(Debug)]
pub(crate) struct Store {
    program: PathBuf,
    process: Process,
    directory: TempDir,
    port: u16,
    /// The settings in JSON.
    settings: String,
    throughput: Option<u32>,
}

impl Store {
    pub(crate) async fn start(
        program: &Path,
        settings: &Settings,
        throughput: Option<u32>,
    ) -> Result<Self, String> {
        let directory = TempDir::new().map_err(|error| error.to_string())?;
        let settings = serde_json::to_string(settings).map_err(|error| error.to_string())?;
        let arguments = arguments(directory.path(), 0, &settings, throughput);
        let (process, line) = Process::start(program, &arguments).await?;
        let port = line.trim_end().trim_end_matches('/').rsplit(':').next();
        let port = port.and_then(|port| port.parse().ok());
        Ok(Self {
            program: program.to_owned(),
            process,
            directory,
            port: port.ok_or_else(|| format!("the store said `{line}`"))?,
            settings,
            throughput,
        })
    }

    /// Kills the store and starts it again on its data.
    pub(crate) async fn restart(&mut self) -> Result<(), String> {
        self.process.kill().await?;
        let (directory, settings) = (self.directory.path(), &self.settings);
        let arguments = arguments(directory, self.port, settings, self.throughput);
        let (process, _) = Process::start(&self.program, &arguments).await?;
        self.process = process;
        Ok(())
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: &str) -> Result<String, String> {
        admin(self.port, method, path, body).await
    }

    /// Removes all faults and limits, also for later restarts.
    pub(crate) async fn clear_faults(&mut self) -> Result<(), String> {
        "{}".clone_into(&mut self.settings);
        match self.throughput.take() {
            Some(_) => self.restart().await,
            None => self.ask("DELETE", "/_admin/faults", "").await.map(drop),
        }
    }
}

fn arguments(directory: &Path, port: u16, settings: &str, throughput: Option<u32>) -> Vec<String> {
    let directory = directory.to_string_lossy();
    let port = port.to_string();
    let mut arguments = vec![
        "store",
        "--data",
        &*directory,
        "--port",
        &port,
        "--settings",
        settings,
    ];
    let throughput = throughput.map(|throughput| throughput.to_string());
    if let Some(throughput) = &throughput {
        arguments.extend(["--throughput", throughput]);
    }
    arguments.into_iter().map(str::to_owned).collect()
}

/// A runtime.
#[derive(Debug)]
pub(crate) struct Worker {
    program: PathBuf,
    arguments: Vec<String>,
    process: Process,
    /// `None` uses the machine's clock.
    clock: Option<Clock>,
}

impl Worker {
    pub(crate) async fn start(program: &Path, args: &RuntimeArgs) -> Result<Self, String> {
        let arguments = ["runtime", "--endpoint", &args.endpoint, "--key", &args.key];
        let members = args.members.then_some("--members");
        let arguments = arguments.into_iter().chain(members);
        let mut arguments: Vec<String> = arguments.map(str::to_owned).collect();
        if let Some(folder) = &args.record {
            arguments.extend(["--record".to_owned(), folder.display().to_string()]);
        }
        let (process, _) = Process::start(program, &arguments).await?;
        Ok(Self {
            program: program.to_owned(),
            arguments,
            process,
            clock: None,
        })
    }

    /// Starts it again, with a clock that is `ahead` milliseconds ahead.
    pub(crate) async fn go_by_clock(&mut self, ahead: i64) -> Result<(), String> {
        self.clock = Some(Clock::ahead(ahead).await?);
        self.replace().await
    }

    /// Sets the clock of the process.
    pub(crate) fn set_clock(&self, ahead: i64) -> Result<(), String> {
        self.clock.as_ref().map_or(Ok(()), |clock| clock.set(ahead))
    }

    /// Kills the process with SIGKILL.
    pub(crate) async fn kill(&mut self) -> Result<(), String> {
        self.process.kill().await
    }

    /// Kills it and starts another one.
    pub(crate) async fn replace(&mut self) -> Result<(), String> {
        self.kill().await?;
        let clock = self.clock.as_ref();
        let (process, _) = Process::start_by(clock, &self.program, &self.arguments).await?;
        self.process = process;
        Ok(())
    }

    /// Pauses the process (SIGSTOP) for a time.
    pub(crate) async fn pause(&self, duration: Duration) -> Result<(), String> {
        self.process.signal("STOP").await?;
        tokio::time::sleep(duration).await;
        self.process.signal("CONT").await
    }
}
