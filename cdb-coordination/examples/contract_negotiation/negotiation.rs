//! The stored documents: negotiations, and the agreement of a negotiation in its partition.

use cdb_model::operation::Lease;
use cdb_model::{Container, Document, Scalar, Timestamp};
use serde::{Deserialize, Serialize};

/// The state of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Scalar, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum State {
    Requested,
    Offered,
    Agreed,
    Terminated,
}

impl State {
    pub(crate) const ALL: [Self; 4] = [
        Self::Requested,
        Self::Offered,
        Self::Agreed,
        Self::Terminated,
    ];
}

/// A contract negotiation with a counterparty, in its own partition.
#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "negotiation", id = "{negotiation}:negotiation")]
#[document(composite(BY_AGE = r#type, state, state_at))]
pub(crate) struct ContractNegotiation {
    #[document(partition_key)]
    pub(crate) negotiation: String,
    #[document(index)]
    pub(crate) counter_party: String,
    #[document(index)]
    pub(crate) state: State,
    /// When the state was entered.
    #[document(index)]
    pub(crate) state_at: Timestamp,
    /// The number of attempts in this state.
    pub(crate) state_count: u32,
    pub(crate) error_detail: Option<String>,
    #[document(lease)]
    pub(crate) lease: Lease,
}

/// The agreed contract.
#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "agreement", id = "{negotiation}:agreement")]
pub(crate) struct ContractAgreement {
    #[document(partition_key)]
    pub(crate) negotiation: String,
    pub(crate) counter_party: String,
    pub(crate) signed_at: Timestamp,
    /// The fencing token of the holder that signed.
    pub(crate) signed_under: u64,
}

/// All documents of the container.
#[derive(Container, Clone, Debug)]
pub(crate) enum Dataspace {
    Negotiation(ContractNegotiation),
    Agreement(ContractAgreement),
}

impl ContractNegotiation {
    pub(crate) fn requested(id: &str, counter_party: &str, now: Timestamp) -> Self {
        Self {
            negotiation: id.to_owned(),
            counter_party: counter_party.to_owned(),
            state: State::Requested,
            state_at: now,
            state_count: 1,
            error_detail: None,
            lease: Lease::free(),
        }
    }
}
