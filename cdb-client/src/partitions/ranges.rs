//! The physical partitions of a container, and their cache.
//!
//! Ranges change when the service splits or merges partitions; an answer of 410/1002 causes a
//! reload. Listing ranges is a metadata request with a small budget, so it happens on demand, once
//! for concurrent callers, and at most once a second.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use cdb_model::PartitionKey;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::{Error, Result};
use crate::partitions::epk::{Epk, EpkPart, HashVersion};
use crate::partitions::shared_call::SharedCall;

/// The service's "partition key range id" of a physical partition. Valid until that partition is
/// split or merged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[doc(alias = "feed range")]
pub struct PhysicalPartitionId(String);

impl PhysicalPartitionId {
    pub(crate) fn new(id: &str) -> Self {
        Self(id.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PhysicalPartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One physical partition.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub id: PhysicalPartitionId,
    pub part: EpkPart,
    /// The ranges that were split or merged into this one.
    pub parents: Vec<String>,
}

/// A range as the service lists it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedRange {
    id: String,
    min_inclusive: String,
    max_exclusive: String,
    #[serde(default)]
    parents: Option<Vec<String>>,
}

/// All ranges of a container, without gaps, in the order of the hash space.
#[derive(Debug)]
pub(crate) struct RangeMap {
    ranges: Vec<Range>,
    version: HashVersion,
}

impl RangeMap {
    /// Builds the map without ranges that have children in the listing.
    ///
    /// # Errors
    /// When the remaining ranges do not cover the hash space, as in a listing taken during a split.
    pub(crate) fn from_listing(listed: Vec<ListedRange>) -> Result<Self> {
        let gone: Vec<String> = listed
            .iter()
            .flat_map(|range| range.parents.iter().flatten().cloned())
            .collect();
        let mut ranges: Vec<Range> = listed
            .into_iter()
            .filter(|range| !gone.contains(&range.id))
            .map(|range| Range {
                id: PhysicalPartitionId(range.id),
                part: EpkPart {
                    min: Epk::from_service(&range.min_inclusive),
                    max: Epk::from_service(&range.max_exclusive),
                },
                parents: range.parents.unwrap_or_default(),
            })
            .collect();
        ranges.sort_by(|a, b| a.part.min.cmp(&b.part.min));
        let joined = |pair: &[Range]| pair[0].part.max == pair[1].part.min;
        let EpkPart { min, max } = EpkPart::whole();
        let is_whole = ranges.first().is_some_and(|first| first.part.min == min)
            && ranges.last().is_some_and(|last| last.part.max == max);
        if ranges.windows(2).all(joined) && is_whole {
            let boundaries = ranges.iter().skip(1).map(|range| &range.part.min);
            let version = HashVersion::of_boundaries(boundaries);
            Ok(Self { ranges, version })
        } else {
            Err(Error::protocol(
                "the listed physical partitions do not cover the hash space of the container",
            ))
        }
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Range> {
        self.ranges.iter()
    }

    /// Returns the range of a logical partition; `None` when this client cannot hash its key.
    pub(crate) fn locate(&self, key: &PartitionKey) -> Option<&Range> {
        let epk = Epk::of(key, self.version)?;
        self.ranges.iter().rfind(|range| range.part.min <= epk)
    }

    /// Returns the bounds of a request that reads this part in a physical partition; `None` if it reads
    /// the whole partition.
    pub(crate) fn bounds(&self, id: &PhysicalPartitionId, part: &EpkPart) -> Option<EpkPart> {
        let range = self.ranges.iter().find(|range| range.id == *id);
        let range = range.and_then(|range| Some((range, range.part.intersection(part)?)));
        match range {
            Some((range, common)) if common == range.part => None,
            Some((_, common)) => Some(common),
            // The service answers that the range is gone, or finds no rows of the part.
            None => (*part != EpkPart::whole()).then(|| part.clone()),
        }
    }
}

/// The shortest time between two listings: all clients of an account share a small budget of
/// metadata requests.
pub(crate) const LISTING_INTERVAL: Duration = Duration::from_secs(1);

/// The longest wait for a listing of a caller that can do without it.
const OPTIONAL: Duration = Duration::from_secs(1);

/// The time after such a wait in which callers do without a listing at once.
const DO_WITHOUT: Duration = Duration::from_secs(10);

/// The newest known map. One caller at a time loads the next one.
#[derive(Debug, Default)]
pub(crate) struct RangeCache {
    known: RwLock<Known>,
    loading: SharedCall,
}

#[derive(Debug, Default)]
struct Known {
    map: Option<Arc<RangeMap>>,
    /// A session token names a range that the map lacks.
    is_outdated: bool,
    /// When the last listing began.
    listed_at: Option<Instant>,
    /// Until when callers that can do without a listing do not wait for one.
    done_without_until: Option<Instant>,
}

impl RangeCache {
    /// Returns the map, if one is known. `None` for an outdated one.
    pub(crate) fn current(&self) -> Option<Arc<RangeMap>> {
        let known = self.read();
        known.map.clone().filter(|_| !known.is_outdated)
    }

    /// Forgets the map.
    pub(crate) fn clear(&self) {
        self.set(None, false);
    }

    /// Notes that the map lacks a range. It is used until the ranges may be listed again.
    pub(crate) fn mark_outdated(&self) {
        self.set(self.any(), true);
    }

    /// Returns the map, and loads it if it is not known or outdated. Concurrent callers share one
    /// load and its failure. Returns an outdated map if the last listing is too recent, or fails.
    pub(crate) async fn load<F>(&self, list: impl FnOnce() -> F) -> Result<Arc<RangeMap>>
    where
        F: Future<Output = Result<RangeMap>>,
    {
        let load = || async {
            let Some(outdated) = self.any() else {
                return self.list(list).await;
            };
            let listed_at = self.read().listed_at;
            if listed_at.is_some_and(|at| at.elapsed() < LISTING_INTERVAL) {
                return Ok(outdated);
            }
            let listed = timeout(OPTIONAL, self.list(list)).await;
            Ok(listed.ok().and_then(Result::ok).unwrap_or(outdated))
        };
        self.loading.run(|| self.current(), load).await
    }

    /// Returns the map after `stale` proved wrong. Waits for `delay`, and until the last listing is
    /// a second old; others use the known map in the meantime.
    pub(crate) async fn load_after<F>(
        &self,
        stale: &Arc<RangeMap>,
        delay: Duration,
        list: impl FnOnce() -> F,
    ) -> Result<Arc<RangeMap>>
    where
        F: Future<Output = Result<RangeMap>>,
    {
        let newer = || self.any().filter(|known| !Arc::ptr_eq(stale, known));
        let load = || async {
            let listed_at = self.read().listed_at;
            let earliest = listed_at.map_or_else(Instant::now, |at| at + LISTING_INTERVAL);
            sleep_until(earliest.max(Instant::now() + delay)).await;
            self.list(list).await
        };
        self.loading.run(newer, load).await
    }

    /// Loads the map for a caller that can do without it.
    pub(crate) async fn load_if_soon(&self, load: impl Future<Output = Result<Arc<RangeMap>>>) {
        let now = Instant::now();
        let until = self.read().done_without_until;
        if until.is_some_and(|until| now < until) {
            return;
        }
        if !matches!(timeout(OPTIONAL, load).await, Ok(Ok(_))) {
            self.write().done_without_until = Some(Instant::now() + DO_WITHOUT);
        }
    }

    async fn list<F>(&self, list: impl FnOnce() -> F) -> Result<Arc<RangeMap>>
    where
        F: Future<Output = Result<RangeMap>>,
    {
        self.write().listed_at = Some(Instant::now());
        let loaded = Arc::new(list().await?);
        self.set(Some(loaded.clone()), false);
        Ok(loaded)
    }

    fn any(&self) -> Option<Arc<RangeMap>> {
        self.read().map.clone()
    }

    fn set(&self, map: Option<Arc<RangeMap>>, is_outdated: bool) {
        let mut known = self.write();
        (known.map, known.is_outdated) = (map, is_outdated);
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(ranges: &[(&str, &str, &str, &[&str])]) -> Vec<ListedRange> {
        ranges
            .iter()
            .map(|&(id, min, max, parents)| ListedRange {
                id: id.to_owned(),
                min_inclusive: min.to_owned(),
                max_exclusive: max.to_owned(),
                parents: Some(parents.iter().map(|&parent| parent.to_owned()).collect()),
            })
            .collect()
    }

    fn ids(map: &RangeMap) -> Vec<String> {
        map.iter().map(|range| range.id.to_string()).collect()
    }

    #[test]
    fn parents_are_removed_and_ranges_are_sorted() {
        let map = RangeMap::from_listing(listed(&[
            ("2", "1F", "FF", &["0"]),
            ("0", "", "FF", &[]),
            ("1", "", "1F00", &["0"]),
        ]))
        .unwrap();
        assert_eq!(ids(&map), ["1", "2"]);
    }

    #[test]
    fn a_listing_with_a_gap_is_refused() {
        for gapped in [
            listed(&[("1", "", "1F", &[])]),
            listed(&[("1", "", "1F", &[]), ("2", "20", "FF", &[])]),
            listed(&[]),
        ] {
            assert!(RangeMap::from_listing(gapped).is_err());
        }
    }

    #[test]
    fn partitions_are_located_by_their_hash() {
        let map = RangeMap::from_listing(listed(&[("1", "", "23", &[]), ("2", "23", "FF", &[])]))
            .unwrap();
        let range = |key: &str| map.locate(&PartitionKey::from(key)).unwrap().id.to_string();
        // 22E3… and 23A8….
        assert_eq!(range("redmond"), "1");
        assert_eq!(range("inst-1"), "2");
    }

    fn whole() -> RangeMap {
        RangeMap::from_listing(listed(&[("0", "", "FF", &[])])).unwrap()
    }

    const DELAY: Duration = Duration::from_millis(300);

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_with_the_same_stale_map_load_one_new_map() {
        let cache = RangeCache::default();
        let loads = std::sync::atomic::AtomicUsize::new(0);
        let list = || async {
            loads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(whole())
        };
        let first = cache.load(list).await.unwrap();
        let (a, b) = tokio::join!(
            cache.load_after(&first, DELAY, list),
            cache.load_after(&first, DELAY, list)
        );
        assert!(Arc::ptr_eq(&a.unwrap(), &b.unwrap()));
        assert_eq!(loads.into_inner(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn ranges_are_listed_at_most_once_a_second_and_the_old_map_stays_in_use() {
        let cache = RangeCache::default();
        let list = || async { Ok(whole()) };
        let begun = Instant::now();
        let mut map = cache.load(list).await.unwrap();
        for seconds in 1..4 {
            let refresh = cache.load_after(&map, DELAY, list);
            let others = async {
                tokio::task::yield_now().await;
                cache.load(list).await
            };
            // `load` waits for nothing, because the known map is not outdated.
            let used = cache.current().unwrap();
            assert!(Arc::ptr_eq(&used, &map));
            let (next, _) = tokio::join!(refresh, others);
            map = next.unwrap();
            assert_eq!(begun.elapsed(), seconds * LISTING_INTERVAL);
        }
        tokio::time::advance(LISTING_INTERVAL * 5).await;
        let idle = Instant::now();
        cache.load_after(&map, DELAY, list).await.unwrap();
        assert_eq!(idle.elapsed(), DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn an_outdated_map_stays_in_use_until_the_ranges_may_be_listed_again() {
        let cache = RangeCache::default();
        let list = || async { Ok(whole()) };
        let first = cache.load(list).await.unwrap();
        cache.mark_outdated();
        assert!(cache.current().is_none());
        assert!(Arc::ptr_eq(&cache.load(list).await.unwrap(), &first));
        tokio::time::advance(LISTING_INTERVAL).await;
        assert!(!Arc::ptr_eq(&cache.load(list).await.unwrap(), &first));
        assert!(cache.current().is_some());
    }

    #[test]
    fn keys_of_version_1_are_located_by_their_own_hash() {
        let map = RangeMap::from_listing(listed(&[
            ("1", "", "05C1DFFFFFFFFC", &[]),
            ("2", "05C1DFFFFFFFFC", "FF", &[]),
        ]))
        .unwrap();
        let range = |key: &str| map.locate(&PartitionKey::from(key)).unwrap().id.to_string();
        // 05C1CF33970FF8… and 05C1E1B3D9CD26…; version 2 puts the first into the second range.
        assert_eq!(range(""), "1");
        assert_eq!(range("partitionKey"), "2");
    }
}
