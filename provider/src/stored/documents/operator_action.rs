//! The record of an operator's change.

use cdb_model::Timestamp;
use serde::{Deserialize, Serialize};

/// A change of an instance by an operator.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct OperatorAction {
    /// The time of the change.
    pub at: Timestamp,
    /// The operator, as the tool names it.
    pub by: String,
    /// What was changed, in words.
    pub what: String,
}
