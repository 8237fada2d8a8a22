//! The event store: versions, streams, order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cdb_client::feed::FeedStart;
use cdb_coordination::HandlerError;
use cdb_emulator::{Effect, Fault, OperationKind};
use cdb_work::{
    ContainerArchive, EventArchive, EventFeed, FlushStrategy as _, Lane, NewEvent, NewWork,
    Settlement, StreamEvent, WorkError, WorkStatus,
};

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
    let emulator = or_skip!(env.emulator(), "needs the emulator");
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
async fn an_append_whose_outcome_cannot_be_read_is_ambiguous() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let store = env.open(config()).await.events();
    store.append("a", 0, events(&["one"])).await.unwrap();
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Batch));
    // The first read looks for the version.
    let refused = Fault::always(Effect::error(403, 1014)).on(OperationKind::Read);
    emulator.inject(refused.after(1));
    let error = store.append_next("a", events(&["two"])).await.unwrap_err();
    let is_ambiguous = matches!(&error, WorkError::Service(error) if error.is_ambiguous());
    assert!(is_ambiguous, "{error}");
    emulator.clear_faults();
    assert_eq!(store.version("a").await.unwrap(), 2);
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

#[tokio::test(start_paused = true)]
async fn all_readers_see_one_sequence_per_partition() {
    let env = TestEnv::start().await;
    let works = [env.open(config()).await, env.open(config()).await];
    let appends = (0..40).map(|n| {
        let (work, stream) = (&works[n % 2], format!("stream-{}", n % 10));
        async move {
            let two = events(&["x", "y"]);
            work.events().append_next(&stream, two).await
        }
    });
    futures::future::try_join_all(appends).await.unwrap();
    let whole = sequences(works[0].events().follow(FeedStart::Beginning)).await;
    assert!(whole.len() > 1, "several partitions have events");
    let count: usize = whole.values().map(Vec::len).sum();
    assert_eq!(count, 80);
    for events in whole.values() {
        assert!(events.is_sorted(), "{events:?}");
    }
    // Another reader, which has stored its position in between.
    let mut feed = works[1].events().follow(FeedStart::Beginning);
    feed.next_events().await.unwrap();
    ok!(works[0].events().append_next("stream-0", events(&["z"])));
    let resumed = works[1].events().follow_on(feed.cursor().clone());
    let rest = sequences(resumed).await;
    for (partition, events) in rest {
        let before = &whole[&partition];
        assert!(events[0] > before[before.len() - 1]);
    }
}

/// Reads a feed to its end. Returns sequence, stream and version of the events of each partition.
async fn sequences(mut feed: EventFeed) -> BTreeMap<String, Vec<(u64, String, u64)>> {
    let mut found: BTreeMap<String, Vec<(u64, String, u64)>> = BTreeMap::new();
    loop {
        let page = feed.next_events().await.unwrap();
        if page.is_empty() {
            return found;
        }
        for event in page {
            let StreamEvent {
                partition,
                stream,
                version,
                ..
            } = event.document;
            let of_partition = found.entry(partition).or_default();
            of_partition.push((event.sequence, stream, version));
        }
    }
}

/// Refuses the events of its second call, and passes the others on.
struct Refusing {
    archive: ContainerArchive,
    calls: AtomicU32,
}

#[async_trait::async_trait]
impl EventArchive for Refusing {
    async fn store(&self, events: &[StreamEvent]) -> Result<(), HandlerError> {
        if self.calls.fetch_add(1, Ordering::Relaxed) == 1 {
            return Err(HandlerError::temporarily("the archive is full"));
        }
        self.archive.store(events).await
    }
}

#[tokio::test(start_paused = true)]
async fn events_are_deleted_after_the_archive_has_stored_them() {
    let env = TestEnv::start().await;
    let store = env.open(config()).await.events();
    for round in 0..3 {
        let ninety = events(&["x"; 90]);
        store.append("a", round * 90, ninety).await.unwrap();
    }
    let archive = ContainerArchive::new(env.other_container("archive").await);
    let refusing = Refusing {
        archive: archive.clone(),
        calls: AtomicU32::new(0),
    };
    let refused = store.archive_up_to("a", 250, &refusing).await.unwrap_err();
    assert!(matches!(refused, WorkError::Unarchived { .. }), "{refused}");
    assert_eq!(store.read("a", 100, 10).await.unwrap().len(), 10);
    // The archive gets the same events twice when the deletion is not reached.
    let next = store.read("a", 100, 20).await.unwrap();
    archive.store(&next).await.unwrap();
    let archived = store.archive_up_to("a", u64::MAX, &refusing).await;
    assert_eq!(archived.unwrap(), 169);
    let old = archive.read("a", 0, 1000).await.unwrap();
    let versions: Vec<u64> = old.iter().map(|event| event.version).collect();
    assert_eq!(versions, (1..=269).collect::<Vec<_>>());
    assert_eq!(store.read("a", 269, 10).await.unwrap().len(), 1);
    assert_eq!(archive.read("a", 269, 10).await.unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_event_message_and_its_event_are_stored_together_and_once() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let work = env.open(config()).await;
    let store = work.events();
    // The coordinator does not know that the stream of events exists.
    store.append("a", 0, events(&["placed"])).await.unwrap();
    let paid = NewWork::inbox("a", "paid-1").with_body("paid", "{}");
    let paid = paid.with_header("user", "ada").as_event();
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Batch));
    work.immediate().store(paid.clone()).await.unwrap();
    let again = work.immediate().store(paid).await.unwrap();
    assert_eq!(again, Settlement::Duplicate);
    work.immediate().store(message("a", 2)).await.unwrap();
    let announced = NewWork::outbox("a", "announced").with_body("announced", "{}");
    work.immediate().store(announced.as_event()).await.unwrap();
    let read = store.read("a", 0, 10).await.unwrap();
    let kinds: Vec<_> = read
        .iter()
        .map(|event| (event.version, &*event.kind))
        .collect();
    assert_eq!(kinds, [(1, "placed"), (2, "paid"), (3, "announced")]);
    assert_eq!(read[1].context.headers["user"], "ada");
    assert_eq!(read[1].message_id.as_deref(), Some("paid-1"));
    assert_eq!(store.version("a").await.unwrap(), 3);
    let mut claimed = work
        .claim_from(Lane::Inbox, 2, Duration::from_secs(5))
        .await;
    let first = claimed.remove(0);
    assert!(first.message().status.contains(WorkStatus::EVENT_STORED));
    work.immediate().report(first.done()).await.unwrap();
    let second = next(&work).await;
    assert!(!second.message().status.contains(WorkStatus::EVENT_STORED));
}

#[tokio::test(start_paused = true)]
async fn coordinators_that_store_events_of_one_stream_leave_no_gap() {
    let env = TestEnv::start().await;
    let works = [env.open(config()).await, env.open(config()).await];
    let store = works[0].events();
    for n in 0..30 {
        let new = message("a", n).as_event();
        works[n % 2].immediate().store(new).await.unwrap();
        if n % 5 == 0 {
            store.append_next("a", events(&["extra"])).await.unwrap();
        }
    }
    let scope = works[1].scoped();
    for n in 30..100 {
        scope.store(message("a", n).as_event()).await;
    }
    scope.commit().await.unwrap();
    let read = store.read("a", 0, 1000).await.unwrap();
    let versions: Vec<u64> = read.iter().map(|event| event.version).collect();
    assert_eq!(versions, (1..=106).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn concurrent_appends_with_automatic_versions_all_take_place() {
    let env = TestEnv::start().await;
    let store = env.open(config()).await.events();
    let appends = (0..10).map(|_| store.append_next("a", events(&["x", "y"])));
    let mut versions: Vec<u64> = futures::future::try_join_all(appends).await.unwrap();
    versions.sort_unstable();
    assert_eq!(versions, (1..=10).map(|n| 2 * n).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn deleted_events_are_reported_to_readers_and_the_newest_stays() {
    let env = TestEnv::start().await;
    let emulator = or_skip!(env.emulator(), "needs the emulator");
    let store = env.open(config()).await.events();
    for round in 0..3 {
        ok!(store.append("a", round * 90, events(&["x"; 90])));
    }
    store.append("b", 0, events(&["other"])).await.unwrap();
    store.save_snapshot("a", 250, "new").await.unwrap();
    store.save_snapshot("a", 200, "old").await.unwrap();
    let snapshot = store.snapshot("a").await.unwrap().unwrap();
    assert_eq!((snapshot.version, &*snapshot.body), (250, "new"));
    emulator.inject(Fault::once(Effect::DropAnswer).on(OperationKind::Batch));
    assert_eq!(
        store.delete_up_to("a", snapshot.version).await.unwrap(),
        250
    );
    let refused = store.read("a", 249, 10).await.unwrap_err();
    assert!(
        matches!(refused, WorkError::EventsDeleted { up_to: 250, .. }),
        "{refused}"
    );
    assert_eq!(store.read("a", 250, 100).await.unwrap().len(), 20);
    assert_eq!(store.delete_up_to("a", u64::MAX).await.unwrap(), 19);
    assert_eq!(store.read("a", 269, 10).await.unwrap().len(), 1);
    assert_eq!(store.append("a", 270, events(&["y"])).await.unwrap(), 271);
    assert_eq!(store.read("b", 0, 10).await.unwrap().len(), 1);
}
