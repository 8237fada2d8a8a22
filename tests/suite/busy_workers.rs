//! A process whose workers are all busy says so, once, with the activities and the remedy.

use std::time::Duration;

use cdb_tests::Backend;
use duroxide::providers::{Provider, TagFilter};

use crate::warnings::Warnings;
use crate::work_items::activity_of;

/// A part of the warning.
const BUSY: &str = "workers of this process are busy";

const LOCK: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn busy_workers_are_named_once_with_their_activities_and_the_remedy() {
    let warnings = Warnings::default();
    let _logged = tracing::subscriber::set_default(warnings.clone());
    let backend = or_skip!(Backend::start_in_simulated_time(|_| {}).await);
    let provider = backend.provider().await;
    for instance in ["a", "b", "c"] {
        let activity = activity_of(instance, 2, None);
        ok!(provider.enqueue_for_worker(activity));
    }
    let fetch = || provider.fetch_work_item(LOCK, LOCK, None, &TagFilter::Any);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let (_, token, _) = fetch().await.expect("fetch").expect("an activity");
        tokens.push(token);
    }
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(warnings.with(BUSY), Vec::<String>::new());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let busy = warnings.with(BUSY);
    assert!(busy[0].contains("workers=2 seconds=30"), "{busy:?}");
    assert!(busy[0].contains("#2 of "), "{busy:?}");
    assert!(
        busy[0].contains("RuntimeOptions::worker_concurrency"),
        "{busy:?}"
    );
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(warnings.with(BUSY).len(), 1);
    // A worker ends its activity and takes the next one, which is no new condition.
    ok!(provider.abandon_work_item(&tokens[0], Some(LOCK), true));
    fetch().await.expect("fetch").expect("an activity");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(warnings.with(BUSY).len(), 1);
    backend.stop().await;
}
