//! Server-sent events: the page learns that an instance has changed, and reads it again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use cdb_model::Timestamp;
use cdb_provider::documents::InstanceKey;
use futures::{Stream, stream};
use serde::Deserialize;

use super::state::Dashboard;

/// The time between two reads of a watched instance. A read costs one request unit.
const INTERVAL: Duration = Duration::from_secs(1);

/// The watch of an instance by one page.
struct Watch {
    dashboard: Arc<Dashboard>,
    id: String,
    known: Known,
}

/// The last event that the page has received.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// The running instance with this time of its last turn, if the page has read it.
    Running(Option<Timestamp>),
    /// The instance cannot change any more: it has ended, or does not exist.
    Final,
    /// The read failed with this message.
    Failed(String),
}

/// The version of the instance that the page shows.
#[derive(Deserialize)]
pub(super) struct Since {
    since: Option<Timestamp>,
}

/// Sends `changed` after each turn of an instance, `failed` when the service refuses a read, and
/// `final` when the instance has ended or does not exist.
pub(super) async fn instance(
    State(dashboard): State<Arc<Dashboard>>,
    Path(id): Path<String>,
    Query(Since { since }): Query<Since>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let watch = Watch {
        dashboard,
        id,
        known: Known::Running(since),
    };
    let events = stream::unfold(watch, |mut watch| async move {
        if watch.known == Known::Final {
            return None;
        }
        loop {
            let found = watch.read().await;
            if found != watch.known {
                let event = found.event();
                watch.known = found;
                return Some((Ok(event), watch));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

impl Watch {
    async fn read(&self) -> Known {
        let container = match self.dashboard.orchestrations() {
            Ok(orchestrations) => &orchestrations.container,
            Err(failure) => return Known::Failed(failure.message),
        };
        match container.read(&InstanceKey::new(&*self.id)).await {
            Ok(Some(stored)) if stored.document.has_more() => {
                Known::Running(Some(stored.document.updated_at))
            }
            Ok(_) => Known::Final,
            Err(error) => Known::Failed(error.to_string()),
        }
    }
}

impl Known {
    fn event(&self) -> Event {
        match self {
            Self::Running(_) => Event::default().event("changed").data("{}"),
            Self::Final => Event::default().event("final").data("{}"),
            // A line break would end the field of the event.
            Self::Failed(message) => Event::default()
                .event("failed")
                .data(message.replace(['\r', '\n'], " ")),
        }
    }
}
