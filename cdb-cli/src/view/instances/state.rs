//! The state of an instance, as all commands, their JSON answers and the dashboard name it.

use cdb_provider::documents::{Instance, Status};

/// Returns the status of an instance, or what keeps a running one from continuing. Between two
/// executions, an instance is running.
pub(crate) fn state(instance: &Instance) -> String {
    if !instance.has_more() {
        return instance.status.to_string();
    }
    match (instance.paused.is_some(), instance.held.is_some()) {
        (true, true) => "Paused, held".to_owned(),
        (true, false) => "Paused".to_owned(),
        (false, true) => "Held".to_owned(),
        (false, false) if instance.status == Status::ContinuedAsNew => Status::Running.to_string(),
        (false, false) => instance.status.to_string(),
    }
}
