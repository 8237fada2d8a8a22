//! Server-sent events: the page learns that an instance has changed, and reads it again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use cdb_model::Timestamp;
use futures::{Stream, StreamExt as _, stream};
use serde::Deserialize;

use super::state::Dashboard;

/// The time between two reads of a watched instance. A read costs one request unit.
const INTERVAL: Duration = Duration::from_secs(1);

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
    let reader = Arc::new((dashboard, id));
    let pause = || tokio::time::sleep(INTERVAL);
    let changes = changes(Known::Running(since), pause, move || {
        let reader = reader.clone();
        async move { read(&reader.0, &reader.1).await }
    });
    Sse::new(changes.map(|known| Ok(known.event()))).keep_alive(KeepAlive::default())
}

/// Returns what each read finds that the page does not know, until the instance cannot change.
fn changes<P: Future<Output = ()>, F: Future<Output = Known>>(
    known: Known,
    pause: impl Fn() -> P,
    read: impl Fn() -> F,
) -> impl Stream<Item = Known> {
    stream::unfold(
        (known, pause, read),
        |(mut known, pause, read)| async move {
            while known != Known::Final {
                // Before every read: news is not a reason to read again at once.
                pause().await;
                let found = read().await;
                if found.is_news_to(&known) {
                    return Some((found.clone(), (found, pause, read)));
                }
                known = found;
            }
            None
        },
    )
}

async fn read(dashboard: &Dashboard, id: &str) -> Known {
    let provider = match dashboard.orchestrations() {
        Ok(orchestrations) => &orchestrations.provider,
        Err(failure) => return Known::Failed(failure.message),
    };
    match provider.observe().instance(id).await {
        Ok(Some(instance)) if instance.status.has_more() => {
            Known::Running(Some(instance.updated_at))
        }
        Ok(_) => Known::Final,
        Err(error) => Known::Failed(error.to_string()),
    }
}

impl Known {
    /// A second failure is no news: its text differs in times and activity ids.
    fn is_news_to(&self, known: &Self) -> bool {
        match (self, known) {
            (Self::Failed(_), Self::Failed(_)) => false,
            (found, known) => found != known,
        }
    }

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

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use futures::FutureExt as _;

    use super::*;

    /// Watches for ten pauses an instance of which the reads find these, and then the last one again.
    /// Returns a letter for each pause and each read, and the events.
    fn watch(found: &[fn(usize) -> Known]) -> (String, Vec<Known>) {
        let (log, events) = (RefCell::new(String::new()), RefCell::new(Vec::new()));
        let reads = Cell::new(0);
        let pause = || async {
            let pauses = log.borrow().matches('p').count();
            if pauses == 10 {
                std::future::pending::<()>().await;
            }
            log.borrow_mut().push('p');
        };
        let read = || async {
            log.borrow_mut().push('r');
            let read = reads.replace(reads.get() + 1);
            found[read.min(found.len() - 1)](read)
        };
        let changes = changes(Known::Running(None), pause, read);
        let told = changes.for_each(|known| {
            events.borrow_mut().push(known);
            std::future::ready(())
        });
        // It ends with the instance, or never.
        let _ended = told.now_or_never();
        (log.take(), events.take())
    }

    fn failed(read: usize) -> Known {
        Known::Failed(format!("activity {read}"))
    }

    fn at(millis: usize) -> Known {
        Known::Running(Some(Timestamp::from_millis(millis as u64)))
    }

    #[test]
    fn a_failing_read_is_repeated_after_a_pause_and_told_once() {
        let (log, events) = watch(&[failed]);
        assert_eq!(log, "pr".repeat(10));
        assert_eq!(events, [failed(0)]);
    }

    #[test]
    fn each_change_is_told_and_read_after_a_pause() {
        let (log, events) = watch(&[at]);
        assert_eq!(log, "pr".repeat(10));
        assert_eq!(events.len(), 10);
        let (log, events) = watch(&[|_| at(1), failed, |_| at(1), |_| Known::Final]);
        assert_eq!(log, "prprprpr", "nothing is read after the end");
        assert_eq!(events, [at(1), failed(1), at(1), Known::Final]);
    }
}
