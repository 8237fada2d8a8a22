//! The rules of a restart, for the command and the dashboard.

use cdb_provider::Restart;
use cdb_provider::documents::Status;

use super::Orchestrations;
use crate::exit::Failure;

/// Returns the id of the new instance.
pub(crate) fn new_id(old: &str, given: Option<String>) -> String {
    given.unwrap_or_else(|| format!("{old}-restart"))
}

/// # Errors
/// When the instance is running.
pub(crate) fn refuse_running(id: &str, status: &Status) -> Result<(), Failure> {
    if !status.has_more() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "instance `{id}` is running; cancel it first"
    )))
}

/// Starts the orchestration of an ended instance again, as a new instance. Returns `false`, and
/// changes nothing, if the new instance exists or its start is queued.
///
/// # Errors
/// When the instance is running, or the provider refuses the restart.
pub(crate) async fn restart(
    orchestrations: &Orchestrations,
    id: &str,
    status: &Status,
    restart: Restart,
    operator: &str,
) -> Result<bool, Failure> {
    refuse_running(id, status)?;
    if orchestrations.is_known(&restart.new_instance).await? {
        return Ok(false);
    }
    let provider = &orchestrations.provider;
    provider.restart(id, restart, operator).await?;
    Ok(true)
}
