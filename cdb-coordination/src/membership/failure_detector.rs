//! Who has fallen silent, judged without comparing clocks: a member whose document has not changed over three looks, and
//! over most of two of its own heartbeats, has missed at least one and is late with the next.
//!
//! Pure: what was seen and the local monotonic time go in, names come out. Not more than a few members are watched by each,
//! the next on the ring of names, so that a heartbeat costs the same however many members there are.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_model::ETag;
use tokio::time::Instant;

/// How many others a member watches. All, in groups of up to 17.
const WATCHED: usize = 16;

/// Looks without a change that make silence: the first sees the last heartbeat.
const LOOKS: u32 = 3;

/// A member's document, as a heartbeat has seen it.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    pub(super) name: String,
    pub(super) etag: ETag,
    pub(super) period: Duration,
}

/// What has been seen of the members that are watched.
#[derive(Debug, Default)]
pub(super) struct FailureDetector {
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    etag: ETag,
    since: Instant,
    looks: u32,
}

impl FailureDetector {
    /// Takes in what one heartbeat has seen. Returns those that have fallen silent.
    pub(super) fn look(&mut self, sightings: Vec<Sighting>, now: Instant) -> Vec<Sighting> {
        self.seen
            .retain(|name, _| sightings.iter().any(|sighting| sighting.name == *name));
        sightings
            .into_iter()
            .filter(|sighting| self.is_silent(sighting, now))
            .collect()
    }

    fn is_silent(&mut self, sighting: &Sighting, now: Instant) -> bool {
        let unchanged = self
            .seen
            .get_mut(&sighting.name)
            .filter(|seen| seen.etag == sighting.etag);
        let Some(seen) = unchanged else {
            let fresh = Seen {
                etag: sighting.etag.clone(),
                since: now,
                looks: 1,
            };
            self.seen.insert(sighting.name.clone(), fresh);
            return false;
        };
        seen.looks = seen.looks.saturating_add(1);
        // Not all of two heartbeats: looks are not exactly one heartbeat apart.
        seen.looks >= LOOKS && now - seen.since >= sighting.period.saturating_mul(2) * 3 / 4
    }
}

/// Whom `me` watches: those that follow on the ring of names. `members` are in ascending order.
pub(super) fn watched_by(members: &[String], me: &str) -> Vec<String> {
    let after = members.partition_point(|name| name.as_str() <= me);
    let ring = members[after..].iter().chain(&members[..after]);
    ring.filter(|name| name.as_str() != me)
        .take(WATCHED)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(1);

    fn sighting(name: &str, version: u32) -> Sighting {
        Sighting {
            name: name.to_owned(),
            etag: ETag::new(format!("\"{version}\"")),
            period: PERIOD,
        }
    }

    /// Looks at one member each period, with these versions; says at which look it counted as silent.
    fn silent_at(versions: &[u32], between: Duration) -> Option<usize> {
        let start = Instant::now();
        let mut detector = FailureDetector::default();
        (0_u32..).zip(versions).position(|(at, &version)| {
            let now = start + between * at;
            !detector.look(vec![sighting("a", version)], now).is_empty()
        })
    }

    #[test]
    fn three_looks_without_a_heartbeat_are_silence() {
        assert_eq!(silent_at(&[1, 2, 3, 4, 5, 6], PERIOD), None);
        assert_eq!(silent_at(&[1, 1, 1], PERIOD), Some(2));
        // Every second heartbeat comes late.
        assert_eq!(silent_at(&[1, 1, 2, 2, 3, 3, 4], PERIOD), None);
        assert_eq!(silent_at(&[1, 2, 3, 3, 3], PERIOD), Some(4));
    }

    #[test]
    fn who_looks_more_often_than_the_other_beats_waits_for_its_heartbeats() {
        let often = PERIOD / 10;
        assert_eq!(silent_at(&[1; 10], often), None);
        assert_eq!(silent_at(&[1; 30], often), Some(15));
    }

    #[test]
    fn who_was_not_watched_for_a_while_begins_anew() {
        let start = Instant::now();
        let mut detector = FailureDetector::default();
        for at in 0..2 {
            let now = start + PERIOD * at;
            assert!(detector.look(vec![sighting("a", 1)], now).is_empty());
        }
        assert!(detector.look(Vec::new(), start + PERIOD * 2).is_empty());
        let again = detector.look(vec![sighting("a", 1)], start + PERIOD * 3);
        assert!(again.is_empty());
    }

    #[test]
    fn everybody_is_watched_however_many_members_there_are() {
        for count in [1_usize, 2, 5, 17, 40] {
            let members: Vec<String> = (0..count).map(|n| format!("{n:03}")).collect();
            let mut times = BTreeMap::<String, usize>::new();
            for me in &members {
                let watched = watched_by(&members, me);
                assert!(!watched.contains(me));
                assert_eq!(watched.len(), WATCHED.min(count - 1));
                for name in watched {
                    *times.entry(name).or_default() += 1;
                }
            }
            assert!(times.values().all(|&n| n == WATCHED.min(count - 1)));
            assert_eq!(times.len(), if count == 1 { 0 } else { count });
        }
        assert_eq!(watched_by(&["b".to_owned()], "a"), ["b"]);
    }
}
