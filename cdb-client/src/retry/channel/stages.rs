//! The stages of a request before its first attempt.

use cdb_model::PartitionKey;
use tokio::time::timeout;

use super::Channel;
use crate::error::{RequestKind, Result};
use crate::partitions::{Class, GoesOn, PhysicalPartitionId, SessionScope, goes_on};
use crate::protocol::{Accepted, Request, check_name};
use crate::retry::{Observers, time_left};
use crate::throughput::{Admission, Work};

impl Channel {
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
            let (channel, request, to) = (self.clone(), request.clone(), range.clone());
            let sent = async move { channel.send_to(Some(to), &request, can_fail_over).await };
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
}
