//! What is stored: negotiations, and the agreement that a negotiation ends with, in its partition.

use cdb_model::{Container, Document, Lease, Timestamp};
use serde::{Deserialize, Serialize};

/// How far a negotiation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// The negotiation of a contract with somebody. Each has a partition of its own.
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
    /// Since when.
    #[document(index)]
    pub(crate) state_at: Timestamp,
    /// How often it was tried in this state.
    pub(crate) state_count: u32,
    pub(crate) error_detail: Option<String>,
    #[document(lease)]
    pub(crate) lease: Lease,
}

/// What was agreed upon.
#[derive(Document, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "agreement", id = "{negotiation}:agreement")]
pub(crate) struct ContractAgreement {
    #[document(partition_key)]
    pub(crate) negotiation: String,
    pub(crate) counter_party: String,
    pub(crate) signed_at: Timestamp,
    /// Who holds the negotiation signs with his fencing token.
    pub(crate) signed_under: u64,
}

/// Everything in the container.
#[derive(Container, Clone, Debug)]
#[container(partition_key = "/negotiation")]
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
