//! A process whose workers are all busy says so, once, with the activities and the remedy.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cdb_tests::Backend;
use duroxide::providers::{Provider, TagFilter};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::work_items::activity_of;

const LOCK: Duration = Duration::from_secs(3600);

/// The warnings that were logged.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{field}={value:?} ").expect("a string takes everything");
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(fields.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Warnings {
    fn of_busy_workers(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = |text: &&String| text.contains("workers of this process are busy");
        all.iter().filter(busy).cloned().collect()
    }
}

#[tokio::test(start_paused = true)]
async fn busy_workers_are_named_once_with_their_activities_and_the_remedy() {
    let warnings = Warnings::default();
    let _logged = tracing::subscriber::set_default(warnings.clone());
    let backend = Backend::start_simulated().await;
    let provider = backend.provider().await;
    for instance in ["a", "b", "c"] {
        let activity = activity_of(instance, 2, None);
        provider
            .enqueue_for_worker(activity)
            .await
            .expect("it is enqueued");
    }
    let fetch = || provider.fetch_work_item(LOCK, LOCK, None, &TagFilter::Any);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let (_, token, _) = fetch().await.expect("fetch").expect("an activity");
        tokens.push(token);
    }
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(warnings.of_busy_workers(), Vec::<String>::new());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let busy = warnings.of_busy_workers();
    assert!(busy[0].contains("workers=2 seconds=30"), "{busy:?}");
    assert!(busy[0].contains("#2 of "), "{busy:?}");
    assert!(
        busy[0].contains("RuntimeOptions::worker_concurrency"),
        "{busy:?}"
    );
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(warnings.of_busy_workers().len(), 1);
    // A worker ends its activity and takes the next one, which is no new condition.
    provider
        .abandon_work_item(&tokens[0], Some(LOCK), true)
        .await
        .expect("it is given back");
    fetch().await.expect("fetch").expect("an activity");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(warnings.of_busy_workers().len(), 1);
    backend.stop().await;
}
