//! The stages of a request before its first attempt, in the order of [`Channel::send_admitted`].

use tokio::time::timeout;

use super::Channel;
use crate::error::{RequestKind, Result};
use crate::partitions::{Class, GoesOn, PhysicalPartitionId, SessionScope};
use crate::protocol::{Accepted, Request, check_name};
use crate::retry::{Observers, time_left};
use crate::throughput::{Admission, Work};

impl Channel {
    /// Waits until a request may be sent; `None` for a request that the governor does not know.
    /// Metadata has a throughput of its own, and foreground requests may wait for a listing.
    pub(crate) async fn admit(&self, kind: RequestKind) -> Option<Admission> {
        if self.work == Work::Foreground || kind.is_metadata() {
            return None;
        }
        // After the deadline of its call, the request is not sent.
        timeout(time_left(), self.governor.admit()).await.ok()
    }

    pub(in crate::retry) fn check_names(&self) -> Result<()> {
        check_name("database", &self.database)?;
        check_name("container", &self.container)
    }

    /// Lists the ranges for a request whose partition may have moved to another region alone. As
    /// azure_data_cosmos_driver `pre_resolve_partition_key_range_id`: without the range, the client
    /// would ask the former region first each time. The request does not need it.
    pub(in crate::retry) async fn list_for_failover(&self, request: &Request) {
        if self.pipeline.has_partition_failover()
            && request.partition.is_some()
            && self.ranges.current().is_none()
        {
            let listing = Box::pin(self.physical_partitions());
            self.ranges.load_if_soon(listing).await;
        }
    }

    /// Returns a request whose session tokens would be too many with the token of its range; `None` for
    /// another one. Lists the ranges for it, as azure-cosmos-dotnet-v3 does (`GatewayStoreModel.cs`,
    /// #2165).
    pub(in crate::retry) async fn narrowed(&self, request: &Request) -> Option<Box<Request>> {
        let key = request.partition.as_ref()?;
        if request.session != SessionScope::Container || !self.sessions.are_too_many() {
            return None;
        }
        // Without the ranges, the service decides.
        let listing = Box::pin(self.physical_partitions());
        self.ranges.load_if_soon(listing).await;
        Some(Box::new(request.clone().session(self.session_of(key))))
    }

    /// Returns the physical partition that a request goes to, if it is known. The only one has no
    /// health, unless it can fail over alone.
    pub(in crate::retry) fn range_of_request(
        &self,
        request: &Request,
    ) -> Option<PhysicalPartitionId> {
        if self.health.is_single() && !self.pipeline.has_partition_failover() {
            return None;
        }
        match request.range() {
            Some(range) => Some(PhysicalPartitionId::new(range)),
            None => self.known_partition_of(request.partition.as_ref()?),
        }
    }

    /// Sends a write that goes on when its caller leaves it.
    pub(in crate::retry) async fn going_on(
        &self,
        range: PhysicalPartitionId,
        request: &Request,
    ) -> Result<Accepted> {
        let (channel, request, to) = (self.clone(), request.clone(), range.clone());
        let sent = async move { channel.watched(Some(to), &request).await };
        GoesOn::new(self.health.clone(), range, Box::pin(sent)).await
    }

    /// Sends a request, and notes in the health of its range how it ends.
    pub(in crate::retry) async fn watched(
        &self,
        range: Option<PhysicalPartitionId>,
        request: &Request,
    ) -> Result<Accepted> {
        let class = Class::of(request.kind);
        let can_fail_over = self.pipeline.has_partition_failover();
        let watch = range.map(|range| self.health.watch(range, class, can_fail_over));
        let governor = (!request.kind.is_metadata()).then_some(&self.governor);
        let observers = Observers {
            sessions: Some(&self.sessions),
            watch: watch.as_ref(),
            governor,
            is_background: governor.is_some() && self.work == Work::Background,
        };
        // Boxed, because the futures of all calls contain it.
        let result = Box::pin(self.pipeline.send(request, Some(observers))).await;
        if let Some(watch) = watch {
            watch.ended(&result);
        }
        result
    }

    /// Ends the admission of a request, which learns its charge.
    pub(in crate::retry) fn settle(admission: Option<Admission>, result: &Result<Accepted>) {
        let call = match result {
            Ok(accepted) => Some(&accepted.call),
            Err(error) => error.call(),
        };
        if let (Some(admission), Some(call)) = (admission, call) {
            admission.ended(call.charge);
        }
    }
}
