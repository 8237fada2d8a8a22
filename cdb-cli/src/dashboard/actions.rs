//! The changes that the page can make. The guard has checked the token of each request.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use cdb_provider::documents::Status;
use cdb_provider::{Restart, TreeScope};
use serde::{Deserialize, Serialize};

use super::api::{gone, parsed};
use super::state::Dashboard;
use crate::container::restart;
use crate::exit::Failure;
use crate::model::messages::{Action, Outcome};
use crate::view::instances::{Row, waits};

/// The name for the record of a change.
const OPERATOR: &str = "the dashboard";

/// The message about a change that succeeded.
#[derive(Serialize)]
pub(super) struct Done {
    done: String,
}

#[derive(Deserialize)]
pub(super) struct Reason {
    reason: String,
}

#[derive(Deserialize)]
pub(super) struct Event {
    event: String,
    data: String,
}

/// The id of the new instance; by default the old id and `-restart`.
#[derive(Deserialize)]
pub(super) struct NewId {
    r#as: Option<String>,
}

/// The new instance of a restart.
#[derive(Serialize)]
pub(super) struct Restarted {
    done: &'static str,
    instance: String,
}

#[derive(Deserialize)]
pub(super) struct Deletion {
    force: bool,
}

type Answer = Result<Json<Done>, Failure>;

fn done(done: &str) -> Json<Done> {
    Json(Done {
        done: done.to_owned(),
    })
}

pub(super) async fn cancel(
    State(dashboard): State<Arc<Dashboard>>,
    Path(id): Path<String>,
    Json(Reason { reason }): Json<Reason>,
) -> Answer {
    let orchestrations = dashboard.orchestrations()?;
    orchestrations.instance(&id).await?;
    orchestrations.client.cancel_instance(&id, reason).await?;
    Ok(done("the instance ends at its next turn"))
}

pub(super) async fn pause(
    State(dashboard): State<Arc<Dashboard>>,
    Path(id): Path<String>,
) -> Answer {
    let provider = &dashboard.orchestrations()?.provider;
    provider.pause(&id, TreeScope::Alone, OPERATOR).await?;
    Ok(done("the instance is paused; running activities go on"))
}

pub(super) async fn resume(
    State(dashboard): State<Arc<Dashboard>>,
    Path(id): Path<String>,
) -> Answer {
    let provider = &dashboard.orchestrations()?.provider;
    provider.resume(&id, TreeScope::Alone).await?;
    Ok(done("the instance is resumed"))
}

pub(super) async fn raise(
    State(dashboard): State<Arc<Dashboard>>,
    Path(id): Path<String>,
    Json(Event { event, data }): Json<Event>,
) -> Answer {
    let orchestrations = dashboard.orchestrations()?;
    let instance = orchestrations.instance(&id).await?;
    let awaited = waits::read_if_intact(orchestrations, &instance).await?;
    let awaits = |is_queue| {
        let awaited = awaited.as_ref();
        awaited.map(|awaited| awaited.awaits(&event, is_queue))
    };
    // duroxide would drop an event that is raised.
    if awaits(false) == Some(false) && awaits(true) == Some(true) {
        orchestrations
            .client
            .enqueue_event(&id, event, data)
            .await?;
        return Ok(done("the event is queued"));
    }
    let dropped = awaited.as_ref().filter(|_| awaits(false) == Some(false));
    let dropped = dropped.map(|awaited| {
        format!(
            "the event is raised, and dropped unless the instance waits for it by then; {}",
            awaited.described()
        )
    });
    orchestrations.client.raise_event(&id, event, data).await?;
    Ok(done(dropped.as_deref().unwrap_or("the event is raised")))
}

pub(super) async fn restart(
    State(dashboard): State<Arc<Dashboard>>,
    Path(id): Path<String>,
    Json(NewId { r#as }): Json<NewId>,
) -> Result<Json<Restarted>, Failure> {
    let orchestrations = dashboard.orchestrations()?;
    let row = Row::of(orchestrations.instance(&id).await?);
    let instance = restart::new_id(&row.id, r#as);
    let restart = Restart {
        new_instance: instance.clone(),
        ..Restart::default()
    };
    if !restart::restart(orchestrations, &row.id, &row.status, restart, OPERATOR).await? {
        let message = format!("instance `{instance}` exists; choose another id");
        return Err(Failure::usage(message));
    }
    Ok(Json(Restarted {
        done: "the new instance is queued; a runtime that has the orchestration registered starts it",
        instance,
    }))
}

pub(super) async fn rewind(
    State(dashboard): State<Arc<Dashboard>>,
    Path(id): Path<String>,
) -> Answer {
    let orchestrations = dashboard.orchestrations()?;
    let row = Row::of(orchestrations.instance(&id).await?);
    if row.status != Status::Failed {
        let message = format!("instance `{id}` has not failed; only failed instances are rewound");
        return Err(Failure::usage(message));
    }
    let provider = &orchestrations.provider;
    provider.rewind(&id, OPERATOR).await?;
    Ok(done("the instance continues from before its failure"))
}

pub(super) async fn delete(
    State(dashboard): State<Arc<Dashboard>>,
    Path(id): Path<String>,
    Json(Deletion { force }): Json<Deletion>,
) -> Answer {
    dashboard
        .orchestrations()?
        .client
        .delete_instance(&id, force)
        .await?;
    Ok(done("the instance is deleted"))
}

pub(super) async fn redrive(
    State(dashboard): State<Arc<Dashboard>>,
    Path(name): Path<String>,
) -> Answer {
    apply(&dashboard, &name, Action::Redrive).await?;
    Ok(done("the message is sent again"))
}

pub(super) async fn discard(
    State(dashboard): State<Arc<Dashboard>>,
    Path(name): Path<String>,
) -> Answer {
    apply(&dashboard, &name, Action::Discard).await?;
    Ok(done("the message is deleted"))
}

async fn apply(dashboard: &Dashboard, name: &str, action: Action) -> Result<(), Failure> {
    let messages = &dashboard.holdings.messages;
    match messages.apply(&parsed(name)?, action).await? {
        Outcome::Done => Ok(()),
        Outcome::Gone => Err(gone(name)),
    }
}
