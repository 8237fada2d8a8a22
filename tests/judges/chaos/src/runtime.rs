//! The role `runtime`: a provider, a runtime and the orchestrations, as a process that may be
//! killed at any time.

use std::fmt::Display;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cdb_provider::record::{Recorded, Recorder};
use clap::Args;
use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{Runtime, RuntimeOptions};
use tokio::io::AsyncReadExt;

use crate::ledger::Ledger;
use crate::subject::{Role, Subject};
use crate::workload::{activities, orchestrations};

/// The database of a run.
pub const DATABASE: &str = "chaos";
/// The container of the orchestrations.
pub const CONTAINER: &str = "chaos";

/// How long locks last, of orchestrations and of activities.
pub const LOCK: Duration = Duration::from_secs(3);

/// How long locks of members last: longer than a failed member stays on the roster.
const MEMBERS_LOCK: Duration = Duration::from_secs(30);

/// Dispatchers of each kind in a runtime.
pub const CONCURRENCY: usize = 4;

/// How long a failing call is retried. A restarted store is unreachable for a second, on a busy
/// machine for longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// Where a runtime finds its store.
#[derive(Clone, Debug, Args)]
pub struct RuntimeArgs {
    /// Endpoint of the account
    #[arg(long)]
    pub endpoint: String,
    /// Key of the account
    #[arg(long)]
    pub key: String,
    /// Joins the membership, with locks of half a minute
    #[arg(long)]
    pub members: bool,
    /// Folder for the record of its calls
    #[arg(long)]
    pub record: Option<PathBuf>,
}

impl RuntimeArgs {
    /// Creates the record of this process, if there shall be one.
    pub(crate) fn recorder(&self, process: &str) -> Result<Option<Recorder>, String> {
        let folder = self.record.as_ref();
        let recorder = folder.map(|folder| Recorder::in_folder(folder, process));
        recorder.transpose().map_err(|error| error.to_string())
    }
}

/// Returns a provider whose calls are recorded, if there is a recorder.
pub(crate) fn recorded(
    provider: Arc<dyn Provider>,
    recorder: Option<&Recorder>,
) -> Arc<dyn Provider> {
    match recorder {
        Some(recorder) => Arc::new(Recorded::new(provider, recorder)),
        None => provider,
    }
}

/// How long the locks of a runtime last.
pub(crate) fn lock_time(members: bool) -> Duration {
    if members { MEMBERS_LOCK } else { LOCK }
}

/// Retries a call that may fail while the store is unreachable. The limit makes a permanent failure
/// visible.
///
/// # Errors
/// The last error, after five minutes.
pub async fn keep_trying<T, E: Display, F>(mut attempt: impl FnMut() -> F) -> Result<T, String>
where
    F: Future<Output = Result<T, E>>,
{
    let deadline = Instant::now() + PATIENCE;
    let mut last = "no answer".to_owned();
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        match tokio::time::timeout(left, attempt()).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => break,
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(last)
}

/// Runs a runtime on `subject` until the driver ends or the process is killed.
///
/// # Errors
/// When the store cannot be opened.
pub(crate) async fn serve(subject: Subject, args: RuntimeArgs) -> Result<(), String> {
    let opened = keep_trying(|| (subject.open)(args.clone(), Role::Works)).await?;
    let recorder = args.recorder("runtime")?;
    let ledger = keep_trying(|| Ledger::open(&args.endpoint, &args.key)).await?;
    let lock = lock_time(args.members);
    let options = RuntimeOptions {
        orchestration_concurrency: CONCURRENCY,
        worker_concurrency: CONCURRENCY,
        orchestrator_lock_timeout: lock,
        worker_lock_timeout: lock,
        session_lock_timeout: lock,
        // A kill costs an attempt, and the message must not become poison.
        max_attempts: 10_000,
        ..RuntimeOptions::default()
    };
    let activities = ActivityRegistry::builder_from(&activities(&ledger)).merge(opened.activities);
    let _runtime = Runtime::start_with_options(
        recorded(opened.provider, recorder.as_ref()),
        activities.build(),
        orchestrations(),
        options,
    )
    .await;
    println!("ready");
    until_input_ends().await;
    Ok(())
}

/// The driver holds the other end of the input, so its children end when it dies.
pub(crate) async fn until_input_ends() {
    let mut rest = Vec::new();
    // A broken input counts as ended.
    let _ended = tokio::io::stdin().read_to_end(&mut rest).await;
}
