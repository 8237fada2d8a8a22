//! Processors of all versions and deletions.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cdb_client::feed::{Change, VersionRow};
use cdb_coordination::ChangeProcessor;
use cdb_coordination::change_feed::versions_progress;
use cdb_model::{Document as _, DocumentKey as _};
use tokio::time::sleep;

use crate::change_feed::plant::{IsDead, PROCESSOR, Plant, ReadingKey, Site, config, reading};

/// A change as its handler saw it: the value that was written, `None` for a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    kind: &'static str,
    value: Option<u64>,
}

/// The changes of each site, by log sequence number.
type Record = Arc<Mutex<BTreeMap<String, BTreeMap<u64, Seen>>>>;

fn seen(row: VersionRow<Plant>) -> (String, u64, Seen) {
    let written = |kind, Plant::Reading(reading)| {
        let value = Some(reading.value);
        (reading.site, row.lsn, Seen { kind, value })
    };
    match row.change {
        Change::Created(stored) => written("create", stored.unwrap().document),
        Change::Replaced { current, .. } => written("replace", current.unwrap().document),
        Change::Deleted { id, .. } => {
            let key = ReadingKey::parse(&id).unwrap();
            let (kind, value) = ("delete", None);
            (key.site, row.lsn, Seen { kind, value })
        }
        other => panic!("{other:?}"),
    }
}

fn join(site: &Site, member: &str, is_dead: &IsDead, record: &Record) -> ChangeProcessor {
    let (plant, state) = site.process(is_dead);
    let record = record.clone();
    ChangeProcessor::builder(PROCESSOR, &plant, &state)
        .config(config(member))
        .start_versions(move |rows| {
            let record = record.clone();
            async move {
                for row in rows {
                    let (of, lsn, seen) = seen(row);
                    let mut record = record.lock().unwrap();
                    let changes = record.entry(of).or_default();
                    // A change that is handled again is the same one, and no later one came first.
                    let newer = changes.range(lsn + 1..).next();
                    assert!(
                        changes.contains_key(&lsn) || newer.is_none(),
                        "{lsn}: {changes:?}"
                    );
                    let before = changes.insert(lsn, seen.clone());
                    assert!(before.is_none_or(|before| before == seen));
                }
                Ok(())
            }
        })
        .expect("the durations fit")
}

async fn until(record: &Record, changes: usize) {
    for _ in 0..1_200 {
        let found: usize = record.lock().unwrap().values().map(BTreeMap::len).sum();
        if found == changes {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("{changes} changes are not handled: {:#?}", record.lock());
}

async fn delete(site: &Site, sites: std::ops::Range<u64>) {
    for number in sites {
        ok!(site.plant.run(reading(number, 0).key().delete()));
    }
}

#[tokio::test(start_paused = true)]
async fn every_version_and_deletion_is_handled_although_members_are_killed_and_restarted() {
    let site = or_skip!(Site::open(4).await);
    site.write(20..25, 9).await; // before the first start: not in the feed
    let record = Record::default();
    let (alive, dead) = (IsDead::default(), IsDead::default());
    let survivor = join(&site, "a", &alive, &record);
    let killed = join(&site, "b", &dead, &record);
    site.until_read(4).await;
    site.write(0..10, 1).await;
    until(&record, 10).await;

    dead.store(true, Ordering::SeqCst);
    site.write(0..10, 2).await;
    site.write(0..10, 3).await; // both versions are handled
    delete(&site, 0..5).await;
    until(&record, 35).await;
    drop(killed);
    survivor.stop().await;

    // While no process runs.
    site.write(0..5, 4).await;
    delete(&site, 9..10).await;
    let restarted = join(&site, "c", &IsDead::default(), &record);
    until(&record, 41).await;
    let progress = versions_progress(PROCESSOR, &site.plant, &site.state).await;
    assert_eq!(progress.unwrap().len(), 4);
    restarted.stop().await;

    let record = record.lock().unwrap();
    for (of, changes) in &*record {
        let number: u64 = of.strip_prefix("site-").unwrap().parse().unwrap();
        let seen: Vec<_> = changes.values().map(|one| (one.kind, one.value)).collect();
        let mut expected = vec![
            ("create", Some(1)),
            ("replace", Some(2)),
            ("replace", Some(3)),
        ];
        match number {
            0..5 => expected.extend([("delete", None), ("create", Some(4))]),
            9 => expected.push(("delete", None)),
            _ => {}
        }
        assert_eq!(seen, expected, "{of}");
    }
    assert_eq!(record.len(), 10);
}
