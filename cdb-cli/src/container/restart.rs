//! The rules of a restart, for the command and the dashboard.

use cdb_provider::Restart;

use super::Orchestrations;
use crate::exit::Failure;
use crate::view::instances::Row;

/// Returns the id of the new instance.
pub(crate) fn new_id(old: &Row, given: Option<String>) -> String {
    given.unwrap_or_else(|| format!("{}-restart", old.id))
}

/// # Errors
/// When the instance is running.
pub(crate) fn refuse_running(row: &Row) -> Result<(), Failure> {
    if !row.status.has_more() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "instance `{}` is running; cancel it first",
        row.id
    )))
}

/// Starts the orchestration of an ended instance again, as a new instance. Returns `false`, and
/// changes nothing, if the new instance exists or its start is queued.
///
/// # Errors
/// When the instance is running, or the provider refuses the restart.
pub(crate) async fn restart(
    orchestrations: &Orchestrations,
    row: &Row,
    restart: Restart,
    operator: &str,
) -> Result<bool, Failure> {
    refuse_running(row)?;
    if orchestrations.is_known(&restart.new_instance).await? {
        return Ok(false);
    }
    let provider = &orchestrations.provider;
    provider.restart(&row.id, restart, operator).await?;
    Ok(true)
}
