//! The physical partitions of a container, and their cache.
//!
//! Ranges change when the service splits or merges partitions; an answer of 410/1002 causes a
//! reload. Listing ranges is a metadata request with a small budget, so it happens on demand and
//! once for concurrent callers.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use cdb_model::PartitionKey;
use serde::{Deserialize, Serialize};

use crate::epk::Epk;
use crate::error::{Error, Result};

/// The service's "partition key range id" of a physical partition. Valid until that partition is
/// split or merged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[doc(alias = "feed range")]
pub struct RangeId(String);

impl RangeId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One physical partition.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub id: RangeId,
    /// The first point of the range.
    pub min: Epk,
    /// The first point after the range.
    pub max: Epk,
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
                id: RangeId(range.id),
                min: Epk::from_service(&range.min_inclusive),
                max: Epk::from_service(&range.max_exclusive),
                parents: range.parents.unwrap_or_default(),
            })
            .collect();
        ranges.sort_by(|a, b| a.min.cmp(&b.min));
        let joined = ranges.windows(2).all(|pair| pair[0].max == pair[1].min);
        let whole = ranges
            .first()
            .is_some_and(|first| first.min == Epk::from_service(""))
            && ranges
                .last()
                .is_some_and(|last| last.max == Epk::from_service("FF"));
        if joined && whole {
            Ok(Self { ranges })
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
        let epk = Epk::of(key)?;
        self.ranges.iter().rfind(|range| range.min <= epk)
    }
}

/// The newest known map. One caller at a time loads the next one.
#[derive(Debug, Default)]
pub(crate) struct RangeCache {
    map: RwLock<Option<Arc<RangeMap>>>,
    loading: tokio::sync::Mutex<()>,
}

impl RangeCache {
    /// Returns the map, if one is known.
    pub(crate) fn known(&self) -> Option<Arc<RangeMap>> {
        self.map
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Forgets the map, so that the next caller lists the ranges.
    pub(crate) fn clear(&self) {
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the map, and loads it if it is not known or is the map `stale`. Concurrent callers
    /// share one load.
    pub(crate) async fn load<F>(
        &self,
        stale: Option<&Arc<RangeMap>>,
        list: impl FnOnce() -> F,
    ) -> Result<Arc<RangeMap>>
    where
        F: Future<Output = Result<RangeMap>>,
    {
        let _loading = self.loading.lock().await;
        let fresh = self
            .known()
            .filter(|known| stale.is_none_or(|stale| !Arc::ptr_eq(stale, known)));
        if let Some(known) = fresh {
            return Ok(known);
        }
        let loaded = Arc::new(list().await?);
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = Some(loaded.clone());
        Ok(loaded)
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

    #[tokio::test]
    async fn concurrent_callers_with_the_same_stale_map_load_one_new_map() {
        let cache = RangeCache::default();
        let loads = std::sync::atomic::AtomicUsize::new(0);
        let list = || async {
            loads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
            RangeMap::from_listing(listed(&[("0", "", "FF", &[])]))
        };
        let first = cache.load(None, list).await.unwrap();
        let (a, b) = tokio::join!(
            cache.load(Some(&first), list),
            cache.load(Some(&first), list)
        );
        assert!(Arc::ptr_eq(&a.unwrap(), &b.unwrap()));
        assert_eq!(loads.into_inner(), 2);
    }
}
