//! A runtime in a process of its own, which can be killed: this program, started again.

use std::process::Stdio;
use std::sync::Arc;

use cdb_provider::record::{Recorded, Recorder};
use cdb_provider::{CosmosDBProvider, CosmosDBProviderConfig};
use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::task::JoinHandle;

use crate::report::Report;
use crate::{Failure, workflow};

/// The variable that makes this program a runtime: the connection string of the first process's
/// emulator.
const EMULATOR: &str = "ORDER_FULFILMENT_EMULATOR";

/// Returns the emulator of the process that has started this one.
pub(crate) fn emulator_of_parent() -> Option<String> {
    std::env::var(EMULATOR).ok()
}

/// Runs orchestrations and activities until the process is killed, or until its input ends: a parent
/// that is killed cannot kill this process.
pub(crate) async fn run(emulator: &str) -> Result<(), Failure> {
    let config = CosmosDBProviderConfig::from_env_or(emulator)?;
    let store = recorded(CosmosDBProvider::new_with_config(config).await?, "runtime")?;
    let (activities, orchestrations) = (workflow::activities(), workflow::orchestrations());
    let _runtime = Runtime::start_with_store(store, activities, orchestrations).await;
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await?;
    Ok(())
}

/// Returns a provider whose calls are recorded in the folder of the variable `CDB_RECORD`, if it is set.
pub(crate) fn recorded(
    provider: CosmosDBProvider,
    process: &str,
) -> Result<Arc<dyn Provider>, Failure> {
    let provider = Arc::new(provider);
    let Some(folder) = std::env::var_os("CDB_RECORD") else {
        return Ok(provider);
    };
    let recorder = Recorder::in_folder(folder, process)?;
    Ok(Arc::new(Recorded::new(provider, &recorder)))
}

/// A started runtime. Dropping it kills the process.
pub(crate) struct RuntimeProcess {
    number: usize,
    child: Child,
    /// Open as long as this process runs. Taken from `child`, which would close it to wait.
    _input: Option<ChildStdin>,
    output: JoinHandle<()>,
}

impl RuntimeProcess {
    /// Starts a runtime, whose lines go to the report.
    pub(crate) fn spawn(
        number: usize,
        emulator: &str,
        report: &Arc<Report>,
    ) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(EMULATOR, emulator).env("NO_COLOR", "1");
        if std::env::var_os("RUST_LOG").is_none() {
            // duroxide warns of failed orders, which are expected here.
            command.env("RUST_LOG", "error");
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let lines = child.stdout.take().ok_or("the runtime has no output")?;
        let process = child.id().unwrap_or_default();
        report.line(&format!("runtime {number} started, process {process}"));
        let report = report.clone();
        let output = tokio::spawn(async move {
            let mut lines = BufReader::new(lines).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                report.activity(number, line);
            }
        });
        Ok(Self {
            number,
            _input: child.stdin.take(),
            child,
            output,
        })
    }

    /// Waits for `work`. Fails if the process ends before.
    pub(crate) async fn or_end<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            done = work => done,
            status = self.child.wait() => {
                Err(format!("runtime {} has ended: {}", self.number, status?).into())
            }
        }
    }

    /// Kills the process, without a chance to release or to store anything, and reads its last lines.
    pub(crate) async fn kill(mut self) -> Result<(), Failure> {
        self.child.kill().await?;
        Ok(self.output.await?)
    }
}
