//! Starting the orchestration of an ended instance again, as a new instance.

use cdb_client::ContainerClient;
use duroxide::providers::WorkItem;
use duroxide::{Event, EventKind};

use super::{action, check_absent};
use crate::delivery::enqueue;
use crate::error::{Error, Result};
use crate::operate::admin::instances;
use crate::queue::Services;
use crate::stored::documents::Durable;
use crate::stored::history;

/// A new instance that repeats the orchestration of an ended one.
#[derive(Clone, Debug, Default)]
pub struct Restart {
    /// The id of the new instance.
    pub new_instance: String,
    /// The version of the orchestration; that of the ended instance by default.
    pub version: Option<String>,
    /// The input; that of the ended instance by default.
    pub input: Option<String>,
}

/// Starts the orchestration of an ended instance again.
pub(crate) async fn restart(
    services: &Services,
    instance: &str,
    restart: Restart,
    by: &str,
) -> Result<()> {
    let container = services.container().latest_committed();
    let ended = instances::existing(&container, instance).await?;
    if ended.has_more() {
        return Err(Error::Refused(format!(
            "instance `{instance}` is running; cancel it first"
        )));
    }
    let known = history::read_instance(&container, &restart.new_instance).await?;
    check_absent(known.as_ref().map(|known| &known.document))?;
    let input = match restart.input {
        Some(input) => input,
        None => first_input(services, &container, instance).await?,
    };
    let what = format!("restarted from {instance}");
    let origin = action(by, services.store.now(), what);
    let start = WorkItem::StartOrchestration {
        instance: restart.new_instance,
        orchestration: ended.orchestration_name,
        input,
        version: restart.version.or(ended.orchestration_version),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    };
    enqueue::message(services, start, None, Some(origin)).await
}

async fn first_input(
    services: &Services,
    container: &ContainerClient<Durable>,
    instance: &str,
) -> Result<String> {
    let events = history::read_execution(container, instance, 1).await;
    let input = services
        .store
        .payloads
        .decode_history(events?)?
        .into_iter()
        .find_map(started_with);
    input.ok_or_else(|| {
        Error::Refused(format!(
            "the first execution of `{instance}` was deleted, and its input with it; pass one (`--input` of the command)"
        ))
    })
}

fn started_with(event: Event) -> Option<String> {
    match event.kind {
        EventKind::OrchestrationStarted { input, .. } => Some(input),
        _ => None,
    }
}
