//! The operations of the store: by state, by criteria, and under a lease.

use std::time::Duration;

use cdb_client::{ContainerClient, Page};
use cdb_coordination::lease::LeaseGuard;
use cdb_coordination::repository::{Criteria, RepositoryError};
use cdb_coordination::{LeaseError, Leases, Repository};
use cdb_model::query::SortCriterion;
use cdb_model::shape::Direction;
use cdb_model::{Batch, Document as _, Patch, Query, Stored, Timestamp};

use super::negotiation::{
    ContractAgreement, ContractNegotiation, ContractNegotiationKey, Dataspace, State,
};

/// A leased negotiation.
pub(crate) type Held = LeaseGuard<Dataspace, ContractNegotiation>;

pub(crate) struct NegotiationStore {
    store: Repository<Dataspace, ContractNegotiation>,
    leases: Leases<Dataspace, ContractNegotiation>,
}

impl NegotiationStore {
    pub(crate) fn new(
        container: &ContainerClient<Dataspace>,
        holder: &str,
        lease: Duration,
    ) -> Self {
        let store = Repository::new(container);
        Self {
            leases: store.leases(holder).with_duration(lease),
            store,
        }
    }

    /// The service's time.
    pub(crate) fn now(&self) -> Timestamp {
        self.store.container().now()
    }

    pub(crate) async fn create(
        &self,
        negotiation: ContractNegotiation,
    ) -> Result<Stored<ContractNegotiation>, RepositoryError> {
        self.store.run(negotiation.create()).await
    }

    pub(crate) async fn find(
        &self,
        id: &str,
    ) -> Result<Option<Stored<ContractNegotiation>>, RepositoryError> {
        self.store.find(&ContractNegotiationKey::new(id)).await
    }

    pub(crate) async fn query(
        &self,
        criteria: &Criteria,
    ) -> Result<Page<Stored<ContractNegotiation>>, RepositoryError> {
        self.store.query(criteria).await
    }

    pub(crate) async fn counts(&self) -> Result<Vec<(State, u64)>, RepositoryError> {
        let state = ContractNegotiation::STATE;
        self.store.count_each(state, State::ALL).await
    }

    pub(crate) async fn count(&self, state: State) -> Result<u64, RepositoryError> {
        let counts = self.store.count_each(ContractNegotiation::STATE, [state]);
        Ok(counts.await?.iter().map(|(_, count)| count).sum())
    }

    /// The ids of the negotiations that entered a state last.
    pub(crate) async fn latest(
        &self,
        state: State,
        count: u32,
    ) -> Result<Vec<String>, RepositoryError> {
        let state = serde_json::to_value(state).unwrap_or_default();
        let latest = Criteria::all().with("state", state).limit(count);
        let latest = latest.sorted_by(SortCriterion {
            field: "stateAt".to_owned(),
            direction: Direction::Descending,
        });
        let page = self.query(&latest).await?;
        let names = page.rows.into_iter().map(|row| row.document.negotiation);
        Ok(names.collect())
    }

    /// Leases the negotiations that have been in a state for longest.
    pub(crate) async fn next_for_state(
        &self,
        state: State,
        count: usize,
    ) -> Result<Vec<Held>, LeaseError> {
        let query = Query::across_partitions()
            .filter(ContractNegotiation::STATE.eq(state))
            .order_by(ContractNegotiation::BY_AGE);
        self.leases.take_next(query, count).await
    }

    /// Leases one negotiation.
    pub(crate) async fn lease(&self, id: &str) -> Result<Held, LeaseError> {
        self.leases.acquire(&ContractNegotiationKey::new(id)).await
    }

    /// Answers a request with an offer, and releases the negotiation.
    pub(crate) async fn offer(&self, negotiation: Held) -> Result<(), LeaseError> {
        negotiation
            .release_with(self.moved_to(State::Offered))
            .await
    }

    /// Ends a negotiation with an agreement: both or neither, and only under the lease.
    pub(crate) async fn agree(&self, negotiation: Held) -> Result<(), LeaseError> {
        let agreement = ContractAgreement {
            negotiation: negotiation.document().negotiation.clone(),
            counter_party: negotiation.document().counter_party.clone(),
            signed_at: self.now(),
            signed_under: negotiation.token(),
        };
        let mut signed = Batch::new(agreement.partition_key());
        signed.add(agreement.create())?;
        let agreed = self.moved_to(State::Agreed);
        negotiation.release_with((agreed, signed)).await
    }

    /// Ends a negotiation without an agreement.
    pub(crate) async fn terminate(&self, negotiation: Held) -> Result<(), LeaseError> {
        let terminated = self.moved_to(State::Terminated);
        negotiation.release_with(terminated).await
    }

    /// Records a failed attempt and keeps the lease.
    pub(crate) async fn failed(
        &self,
        negotiation: &mut Held,
        reason: &str,
    ) -> Result<(), LeaseError> {
        let patch = Patch::new()
            .incr(ContractNegotiation::STATE_COUNT, 1)
            .set(ContractNegotiation::ERROR_DETAIL, Some(reason.to_owned()));
        negotiation.run(patch).await
    }

    fn moved_to(&self, state: State) -> Patch<ContractNegotiation> {
        Patch::new()
            .set(ContractNegotiation::STATE, state)
            .set(ContractNegotiation::STATE_AT, self.now())
            .set(ContractNegotiation::STATE_COUNT, 1)
    }
}
