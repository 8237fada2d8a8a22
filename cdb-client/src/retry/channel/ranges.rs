//! The physical partitions of a container: which one has a key, and their listing.

use std::sync::Arc;
use std::time::Duration;

use cdb_model::PartitionKey;
use http::Method;
use serde::Deserialize;
use tokio::time::sleep;

use super::Channel;
use crate::error::{RequestKind, Result};
use crate::partitions::{
    LISTING_INTERVAL, ListedRange, PhysicalPartitionId, RangeMap, SessionScope,
};
use crate::protocol::{Request, header};
use crate::retry::with_own_deadline;

/// How often ranges are listed until a listing does not overlap with a split.
const LISTING_ATTEMPTS: u32 = 5;

#[derive(Deserialize)]
struct RangeListing {
    #[serde(rename = "PartitionKeyRanges")]
    ranges: Vec<ListedRange>,
}

impl Channel {
    /// Returns the physical partition of a logical one, without listing the physical partitions.
    pub(crate) fn known_partition_of(&self, key: &PartitionKey) -> Option<PhysicalPartitionId> {
        let map = self.ranges.current()?;
        map.locate(key).map(|range| range.id.clone())
    }

    /// Returns which session tokens a read of this partition needs: that of its range if the ranges
    /// are known, else all.
    ///
    /// A request that names a logical partition is never refused because of a split. A session
    /// token of an unknown range shows that the known ranges are out of date, and this method then
    /// marks them.
    pub(crate) fn session_of(&self, key: &PartitionKey) -> SessionScope {
        let Some(map) = self.ranges.current() else {
            return SessionScope::Container;
        };
        if !self
            .sessions
            .all_of(|id| map.iter().any(|range| range.id.as_str() == id))
        {
            self.ranges.mark_outdated();
            return SessionScope::Container;
        }
        match map.locate(key) {
            Some(range) => SessionScope::Range(range.id.to_string()),
            None => SessionScope::Container,
        }
    }

    /// Returns the physical partitions; lists them if they are not known.
    pub(crate) async fn physical_partitions(&self) -> Result<Arc<RangeMap>> {
        if let Some(map) = self.ranges.current() {
            if self.health.takes_new_list() {
                let list = self.newer_ranges(&map, Duration::ZERO);
                self.ranges.load_if_soon(list).await;
                return Ok(self.ranges.current().unwrap_or(map));
            }
            return Ok(map);
        }
        let map = self.ranges.load(|| self.list_ranges()).await?;
        self.follow(&map);
        Ok(map)
    }

    /// Returns the physical partitions after `stale` proved out of date. Waits before it lists them,
    /// so that a split can complete.
    pub(crate) async fn ranges_after(&self, stale: &Arc<RangeMap>) -> Result<Arc<RangeMap>> {
        let delay = self.pipeline.slow_backoff().delay(None);
        self.newer_ranges(stale, delay).await
    }

    async fn newer_ranges(&self, stale: &Arc<RangeMap>, delay: Duration) -> Result<Arc<RangeMap>> {
        let list = || self.list_ranges();
        let map = self.ranges.load_after(stale, delay, list).await?;
        self.follow(&map);
        Ok(map)
    }

    /// Hands the session tokens of split ranges on to their children, and forgets the health of
    /// split ranges.
    fn follow(&self, map: &RangeMap) {
        self.health.follow(map);
        self.sessions.follow_ranges(
            map.iter()
                .map(|range| (range.id.as_str(), range.parents.as_slice())),
        );
    }

    /// Lists the ranges for all callers that wait for them, so not within the deadline of this one.
    async fn list_ranges(&self) -> Result<RangeMap> {
        with_own_deadline(self.list_complete_ranges()).await
    }

    async fn list_complete_ranges(&self) -> Result<RangeMap> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match RangeMap::from_listing(self.list_ranges_once().await?) {
                Err(_) if attempts < LISTING_ATTEMPTS => {
                    sleep(LISTING_INTERVAL).await;
                }
                result => return result,
            }
        }
    }

    async fn list_ranges_once(&self) -> Result<Vec<ListedRange>> {
        let mut listed = Vec::new();
        let mut continuation: Option<String> = None;
        loop {
            let mut request = Request::new(
                RequestKind::ReadPhysicalPartitions,
                Method::GET,
                self.resource.ranges(),
            )
            .header(header::MAX_ITEMS, "-1");
            if let Some(token) = &continuation {
                request = request.header_value(header::CONTINUATION, token)?;
            }
            let response = self.send(&request).await?;
            listed.extend(response.metadata::<RangeListing>()?.ranges);
            continuation = response.continuation();
            if continuation.is_none() {
                return Ok(listed);
            }
        }
    }
}
