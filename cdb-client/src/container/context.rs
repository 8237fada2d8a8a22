//! The untyped state of one container: its link, session tokens and ranges.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cdb_model::{ETag, PartitionKey};
use http::Method;
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use crate::container::unique_keys::UniqueKeys;
use crate::error::{RequestKind, Result};
use crate::partitions::{
    Class, GoesOn, LISTING_INTERVAL, ListedRange, PartitionHealth, PhysicalPartitionId, RangeCache,
    RangeMap, SessionScope, SessionTokens, goes_on,
};
use crate::protocol::{Accepted, Repeat, Request, Resource, check_name, header};
use crate::retry::{Observers, Pipeline, time_left, with_own_deadline};
use crate::throughput::{Admission, Governor, Work};

/// One container of one account. Clones share what the process knows of it.
#[derive(Clone, Debug)]
pub(crate) struct ContainerContext {
    pub pipeline: Arc<Pipeline>,
    pub resource: Resource,
    pub database: String,
    pub container: String,
    pub sessions: Arc<SessionTokens>,
    ranges: Arc<RangeCache>,
    pub health: Arc<PartitionHealth>,
    pub governor: Arc<Governor>,
    /// The class of all requests of this clone.
    work: Work,
    pub unique_keys: Arc<UniqueKeys>,
}

/// How often ranges are listed until a listing does not overlap with a split.
const LISTING_ATTEMPTS: u32 = 5;

/// Which container has the name: the resource id, and the version of its definition.
#[derive(Deserialize)]
struct Identity {
    #[serde(rename = "_rid")]
    rid: String,
    #[serde(rename = "_etag")]
    etag: ETag,
}

#[derive(Deserialize)]
struct RangeListing {
    #[serde(rename = "PartitionKeyRanges")]
    ranges: Vec<ListedRange>,
}

impl ContainerContext {
    pub(crate) fn new(pipeline: Arc<Pipeline>, database: &str, container: &str) -> Self {
        Self {
            governor: Arc::new(Governor::new(pipeline.parts.background.share)),
            pipeline,
            resource: Resource::container(database, container),
            database: database.to_owned(),
            container: container.to_owned(),
            sessions: Arc::default(),
            ranges: Arc::default(),
            health: Arc::default(),
            work: Work::Foreground,
            unique_keys: Arc::default(),
        }
    }

    /// Returns a clone whose requests are background work.
    pub(crate) fn in_background(&self) -> Self {
        Self {
            work: Work::Background,
            ..self.clone()
        }
    }

    /// Forgets the ranges and session tokens of a deleted or re-created container.
    pub(crate) fn forget(&self) {
        self.sessions.clear();
        self.ranges.clear();
        self.health.clear();
        self.unique_keys.forget();
    }

    /// Deletes the container and everything in it. The request names the version that was read, so
    /// that a repetition after a lost answer does not delete a newer container of this name.
    pub(crate) async fn delete(&self) -> Result<()> {
        let found = self.identity().await?;
        let resource = self.resource.clone();
        let request = Request::new(RequestKind::DeleteContainer, Method::DELETE, resource)
            .if_match(&found.etag)?
            .repeat(Repeat::Always);
        // Also before, because the call may be cancelled.
        self.forget();
        let result = self.send(&request).await;
        self.forget();
        match result {
            Err(error) if error.is_missing_after_doubt() => Ok(()),
            Err(error) if error.is_precondition_failed() => match self.identity().await {
                // Its definition has changed since it was read.
                Ok(latest) if latest.rid == found.rid => Err(error),
                Err(other) if !other.is_not_found() => Err(other),
                Ok(_) | Err(_) => Ok(()),
            },
            other => other.map(drop),
        }
    }

    async fn identity(&self) -> Result<Identity> {
        let resource = self.resource.clone();
        let read = Request::new(RequestKind::ReadContainer, Method::GET, resource);
        self.send(&read).await?.metadata()
    }

    /// Sends a request to this container. A background request waits for its admission first.
    pub(crate) async fn send(&self, request: &Request) -> Result<Accepted> {
        let admission = self.admit(request.kind).await;
        self.send_admitted(request, admission).await
    }

    /// Waits until a request may be sent; `None` for a request that the governor does not know.
    /// Metadata has a throughput of its own, and foreground requests may wait for a listing.
    pub(crate) async fn admit(&self, kind: RequestKind) -> Option<Admission> {
        if self.work == Work::Foreground || kind.is_metadata() {
            return None;
        }
        // After the deadline of its call, the request is not sent.
        timeout(time_left(), self.governor.admit()).await.ok()
    }

    /// Sends an admitted request.
    pub(crate) async fn send_admitted(
        &self,
        request: &Request,
        admission: Option<Admission>,
    ) -> Result<Accepted> {
        match admission {
            None => self.send_now(request).await,
            // Boxed, so that the futures of other requests stay small.
            Some(admission) => Box::pin(self.send_in_background(request, admission)).await,
        }
    }

    async fn send_in_background(
        &self,
        request: &Request,
        admission: Admission,
    ) -> Result<Accepted> {
        let mut labelled = request.clone();
        self.pipeline.parts.background.label(&mut labelled.headers);
        let result = self.send_now(&labelled).await;
        let call = match &result {
            Ok(accepted) => Some(&accepted.call),
            Err(error) => error.call(),
        };
        if let Some(call) = call {
            admission.ended(call.charge);
        }
        result
    }

    async fn send_now(&self, request: &Request) -> Result<Accepted> {
        check_name("database", &self.database)?;
        check_name("container", &self.container)?;
        let can_fail_over = self.pipeline.has_partition_failover();
        if can_fail_over && request.partition.is_some() && self.ranges.current().is_none() {
            // As azure_data_cosmos_driver `pre_resolve_partition_key_range_id`: without the range, the
            // client would ask the former region first each time. The request does not need it.
            let listing = Box::pin(self.physical_partitions());
            self.ranges.load_if_soon(listing).await;
        }
        match &request.partition {
            Some(key)
                if request.session == SessionScope::Container && self.sessions.are_too_many() =>
            {
                Box::pin(self.send_narrowed(request, key)).await
            }
            _ => self.send_as_is(request, can_fail_over).await,
        }
    }

    async fn send_as_is(&self, request: &Request, can_fail_over: bool) -> Result<Accepted> {
        let range = self.range_of_request(request);
        if let Some(range) = &range
            && goes_on(Class::of(request.kind))
        {
            let (context, request, to) = (self.clone(), request.clone(), range.clone());
            let sent = async move { context.send_to(Some(to), &request, can_fail_over).await };
            let (health, range) = (self.health.clone(), range.clone());
            return GoesOn::new(health, range, Box::pin(sent)).await;
        }
        self.send_to(range, request, can_fail_over).await
    }

    async fn send_to(
        &self,
        range: Option<PhysicalPartitionId>,
        request: &Request,
        can_fail_over: bool,
    ) -> Result<Accepted> {
        let class = Class::of(request.kind);
        let watch = range.map(|range| self.health.watch(range, class, can_fail_over));
        let observers = Observers {
            sessions: Some(&self.sessions),
            watch: watch.as_ref(),
            governor: (!request.kind.is_metadata()).then_some(&self.governor),
            is_background: self.work == Work::Background,
        };
        // Boxed, because the futures of all calls contain it.
        let result = Box::pin(self.pipeline.send_observed(request, observers)).await;
        if let Some(watch) = watch {
            watch.ended(&result);
        }
        result
    }

    /// Sends a request whose session tokens would be too many, with the token of its range. Lists the
    /// ranges for it, as azure-cosmos-dotnet-v3 does (`GatewayStoreModel.cs`, #2165).
    async fn send_narrowed(&self, request: &Request, key: &PartitionKey) -> Result<Accepted> {
        // Without the ranges, the service decides.
        self.ranges.load_if_soon(self.physical_partitions()).await;
        let narrowed = request.clone().session(self.session_of(key));
        let can_fail_over = self.pipeline.has_partition_failover();
        self.send_as_is(&narrowed, can_fail_over).await
    }

    /// Returns the physical partition that a request goes to, if it is known. The only one has no
    /// health, unless it can fail over alone.
    fn range_of_request(&self, request: &Request) -> Option<PhysicalPartitionId> {
        if self.health.is_single() && !self.pipeline.has_partition_failover() {
            return None;
        }
        match request.range() {
            Some(range) => Some(PhysicalPartitionId::new(range)),
            None => self.known_partition_of(request.partition.as_ref()?),
        }
    }

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

    /// Sends a query of a physical partition, with the deadline of [`PartitionHealth::in_time`].
    pub(crate) async fn query_in_time(
        &self,
        range: &PhysicalPartitionId,
        request: Request,
        admission: Option<Admission>,
    ) -> Result<Accepted> {
        let context = self.clone();
        let sent = async move { context.send_admitted(&request, admission).await };
        self.health.in_time(range, Class::Queries, sent).await
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

    /// Creates a request to the items of this container.
    pub(crate) fn items_request(
        &self,
        kind: RequestKind,
        content_type: &'static str,
        body: Bytes,
    ) -> Request {
        Request::new(kind, Method::POST, self.resource.items()).body(content_type, body)
    }
}
