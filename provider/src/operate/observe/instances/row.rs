//! An instance, as lists and details show it.

use std::collections::BTreeMap;
use std::fmt;

use cdb_model::Timestamp;
use serde::{Serialize, Serializer};

use super::waits_for::WaitsFor;
use crate::stored::documents::{
    AttributeValue, Hold, Instance, InstanceKey, OperatorAction, Status, Text,
};
use crate::stored::payload::Payloads;

/// An instance.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ObservedInstance {
    /// The id of the instance.
    pub id: String,
    /// The name of the orchestration.
    pub orchestration: String,
    /// The version of the orchestration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The status of the newest execution.
    pub status: Status,
    /// The status in words, or what keeps a running instance from continuing: `Paused`, `Held`. Between two executions,
    /// an instance is `Running`.
    pub state: String,
    /// The custom status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_status: Option<String>,
    /// The id of the newest execution.
    pub execution: u64,
    /// The instance that started it as a sub-orchestration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its last turn.
    pub updated_at: Timestamp,
    /// The end of the newest execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// Whether its start is queued, and no turn of it is committed.
    #[serde(skip)]
    pub is_unbegun: bool,
    /// The operator's pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<OperatorAction>,
    /// Why it waits for other code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Hold>,
    /// The request units that it has been charged, without its last commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_units: Option<f64>,
    /// The error of a failed instance, in a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What a running instance waits for, in a list that was asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitsFor>,
    /// The search attributes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, AttributeValue>,
}

impl ObservedInstance {
    pub(super) fn of(instance: Instance) -> Self {
        Self {
            state: state(&instance),
            id: instance.instance_id,
            orchestration: instance.orchestration_name,
            version: instance.orchestration_version,
            status: instance.status,
            custom_status: instance.custom_status,
            execution: instance.current_execution_id,
            parent: instance.parent_instance_id,
            created_at: instance.created_at,
            updated_at: instance.updated_at,
            completed_at: instance.completed_at,
            is_unbegun: false,
            paused: instance.paused,
            held: instance.held,
            request_units: instance.request_units,
            error: None,
            waits_for: None,
            attributes: instance.attributes,
        }
    }
}

fn state(instance: &Instance) -> String {
    if !instance.has_more() {
        return instance.status.to_string();
    }
    match (instance.paused.is_some(), instance.held.is_some()) {
        (true, true) => "Paused, held".to_owned(),
        (true, false) => "Paused".to_owned(),
        (false, true) => "Held".to_owned(),
        (false, false) if instance.status == Status::ContinuedAsNew => Status::Running.to_string(),
        (false, false) => instance.status.to_string(),
    }
}

/// A stored text. Displayed, and written as JSON, as the text or as why it is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoredText {
    /// The text.
    Whole(String),
    /// A text that is stored in parts, and its size in bytes. duroxide's client returns it.
    InParts(u64),
    /// A damaged text, and what is wrong.
    Damaged(String),
}

impl StoredText {
    pub(super) fn of(text: &Text) -> Self {
        match text {
            Text::Inline(text) => Self::Whole(text.clone()),
            Text::Damaged(reason) => Self::Damaged(reason.clone()),
            Text::Chunked(chunked) => Self::InParts(chunked.bytes),
        }
    }
}

impl fmt::Display for StoredText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(text) => f.write_str(text),
            Self::InParts(bytes) => write!(f, "({bytes} bytes, stored in parts)"),
            Self::Damaged(reason) => write!(f, "({reason})"),
        }
    }
}

impl Serialize for StoredText {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Decodes the payloads of an instance, as far as the keys are known.
pub(super) fn readable(payloads: &Payloads, mut instance: Instance) -> Instance {
    let decode = |payload| payloads.readable(payload);
    instance.custom_status = instance.custom_status.map(decode);
    if let Some(held) = &mut instance.held {
        held.reason = decode(std::mem::take(&mut held.reason));
    }
    instance.output = instance.output.map(|output| match output {
        Text::Inline(text) => Text::Inline(decode(text)),
        other => other,
    });
    instance
}

/// Returns the key of the document of an instance.
pub(super) fn key(id: &str) -> InstanceKey {
    InstanceKey::new(id)
}
