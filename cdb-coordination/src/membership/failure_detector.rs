//! The failure detector, without comparing clocks. A member has failed when its document stays
//! unchanged over three observations and over most of two of its heartbeat intervals: it has missed
//! one heartbeat and is late with the next.
//!
//! Pure: observations and the local monotonic time go in, names come out. Each member watches a
//! fixed number of others, the next on the ring of names, so the cost of a heartbeat does not grow
//! with the group.

use std::collections::BTreeMap;
use std::time::Duration;

use cdb_model::ETag;
use tokio::time::Instant;

/// How many others a member watches: all of them in groups of up to 17.
const WATCHED: usize = 16;

/// How many unchanged observations make a failure. The first one sees the last heartbeat.
const OBSERVATIONS: u32 = 3;

/// The version of a member's document that a heartbeat has read.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    pub(super) name: String,
    /// `None` if the document cannot be read.
    pub(super) incarnation: Option<String>,
    pub(super) etag: ETag,
    pub(super) period: Duration,
}

/// The observations of the watched members.
#[derive(Debug, Default)]
pub(super) struct FailureDetector {
    seen: BTreeMap<String, Seen>,
}

#[derive(Debug)]
struct Seen {
    etag: ETag,
    since: Instant,
    observations: u32,
}

impl FailureDetector {
    /// Adds the observations of one heartbeat. Returns those of failed members.
    pub(super) fn observe(&mut self, sightings: Vec<Sighting>, now: Instant) -> Vec<Sighting> {
        self.seen
            .retain(|name, _| sightings.iter().any(|sighting| sighting.name == *name));
        sightings
            .into_iter()
            .filter(|sighting| self.has_failed(sighting, now))
            .collect()
    }

    fn has_failed(&mut self, sighting: &Sighting, now: Instant) -> bool {
        let unchanged = self
            .seen
            .get_mut(&sighting.name)
            .filter(|seen| seen.etag == sighting.etag);
        let Some(seen) = unchanged else {
            let fresh = Seen {
                etag: sighting.etag.clone(),
                since: now,
                observations: 1,
            };
            self.seen.insert(sighting.name.clone(), fresh);
            return false;
        };
        seen.observations = seen.observations.saturating_add(1);
        // Less than two intervals, because observations are not exactly one interval apart.
        seen.observations >= OBSERVATIONS
            && now - seen.since >= sighting.period.saturating_mul(2) * 3 / 4
    }
}

/// The members that `me` watches: the next ones on the ring of names. `members` must be in
/// ascending order.
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
            incarnation: None,
            etag: ETag::new(format!("\"{version}\"")),
            period: PERIOD,
        }
    }

    /// Observes one member once per period, with these versions. Returns the index of the
    /// observation that made it fail.
    fn failed_at(versions: &[u32], between: Duration) -> Option<usize> {
        let start = Instant::now();
        let mut detector = FailureDetector::default();
        (0_u32..).zip(versions).position(|(at, &version)| {
            let now = start + between * at;
            !detector
                .observe(vec![sighting("a", version)], now)
                .is_empty()
        })
    }

    #[test]
    fn a_member_fails_after_three_observations_without_a_heartbeat() {
        assert_eq!(failed_at(&[1, 2, 3, 4, 5, 6], PERIOD), None);
        assert_eq!(failed_at(&[1, 1, 1], PERIOD), Some(2));
        // Every second heartbeat comes late.
        assert_eq!(failed_at(&[1, 1, 2, 2, 3, 3, 4], PERIOD), None);
        assert_eq!(failed_at(&[1, 2, 3, 3, 3], PERIOD), Some(4));
    }

    #[test]
    fn frequent_observations_wait_for_one_and_a_half_heartbeat_intervals() {
        let often = PERIOD / 10;
        assert_eq!(failed_at(&[1; 10], often), None);
        assert_eq!(failed_at(&[1; 30], often), Some(15));
    }

    #[test]
    fn an_interrupted_observation_starts_again() {
        let start = Instant::now();
        let mut detector = FailureDetector::default();
        for at in 0..2 {
            let now = start + PERIOD * at;
            assert!(detector.observe(vec![sighting("a", 1)], now).is_empty());
        }
        assert!(detector.observe(Vec::new(), start + PERIOD * 2).is_empty());
        let again = detector.observe(vec![sighting("a", 1)], start + PERIOD * 3);
        assert!(again.is_empty());
    }

    #[test]
    fn every_member_is_watched_in_groups_of_any_size() {
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
