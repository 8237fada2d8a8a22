//! The event store: versions, streams, order.

use std::collections::BTreeMap;

use cdb_client::FeedStart;
use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_work::{NewEvent, WorkError};

use crate::test_env::{TestEnv, config, message, next};

fn events(kinds: &[&str]) -> Vec<NewEvent> {
    kinds
        .iter()
        .map(|kind| NewEvent::new(*kind, "{}"))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn events_are_appended_on_the_expected_version_only() {
    let env = TestEnv::start().await;
    let Some(emulator) = env.emulator() else {
        return;
    };
    let store = env.open(config()).await.events();
    assert_eq!(
        store.append("a", 0, events(&["one", "two"])).await.unwrap(),
        2
    );
    for wrong in [0, 1, 3] {
        let refused = store.append("a", wrong, events(&["x"])).await.unwrap_err();
        assert!(
            matches!(refused, WorkError::VersionConflict { .. }),
            "{refused}"
        );
    }
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Batch));
    assert_eq!(store.append("a", 2, events(&["three"])).await.unwrap(), 3);
    assert_eq!(store.version("a").await.unwrap(), 3);
    let read = store.read("a", 1, 10).await.unwrap();
    let kinds: Vec<&str> = read.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["two", "three"]);
    assert_eq!(store.version("b").await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn events_exist_if_and_only_if_their_message_is_completed() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let store = work.events();
    work.immediate().store(message("a", 1)).await.unwrap();
    let claimed = next(&work).await;
    let wrong = store.to_batch("a", 5, events(&["placed"])).unwrap();
    let refused = work
        .immediate()
        .report(claimed.done().with_effects(&wrong).unwrap())
        .await;
    assert!(
        matches!(refused, Err(WorkError::EffectRefused { .. })),
        "{refused:?}"
    );
    assert_eq!(store.version("a").await.unwrap(), 0);
    let claimed = next(&work).await;
    let right = store.to_batch("a", 0, events(&["placed"])).unwrap();
    work.immediate()
        .report(claimed.done().with_effects(&right).unwrap())
        .await
        .unwrap();
    assert_eq!(store.version("a").await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_feed_shows_the_events_of_each_stream_in_order() {
    let env = TestEnv::start().await;
    let work = env.open(config()).await;
    let store = work.events();
    for round in 0..2 {
        for stream in ["a", "b", "c"] {
            let eight = events(&["x"; 8]);
            store.append(stream, round * 8, eight).await.unwrap();
        }
        let between = message("a", usize::try_from(round).unwrap());
        work.immediate().store(between).await.unwrap();
    }
    let mut feed = store.follow(FeedStart::Beginning);
    let mut seen: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    loop {
        let page = feed.next_events().await.unwrap();
        if page.is_empty() {
            break;
        }
        for event in page {
            let event = event.document;
            seen.entry(event.stream).or_default().push(event.version);
        }
    }
    assert_eq!(seen.len(), 3);
    let all: Vec<u64> = (1..=16).collect();
    assert!(seen.values().all(|versions| *versions == all), "{seen:?}");
    store.append("a", 16, events(&["later"])).await.unwrap();
    let mut resumed = store.follow_on(feed.cursor().clone());
    let later = resumed.next_events().await.unwrap();
    assert_eq!(later.len(), 1);
    assert_eq!(later[0].document.kind, "later");
}
