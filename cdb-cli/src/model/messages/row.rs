//! Messages as rows of a list and in detail: the form of JSON answers.

use cdb_model::Timestamp;
use cdb_provider::coordination::retry::Attempt;
use cdb_work::Lane;
use serde::Serialize;

use super::kind::{Source, State, Step};
use super::name::MessageName;

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MessageRow {
    pub name: MessageName,
    pub state: State,
    pub source: Source,
    pub failed: Step,
    /// The sender. Ordered work has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The receiver; the stream of ordered work.
    pub to: String,
    pub what: String,
    pub attempts: u32,
    /// The error of the last failed attempt; empty before the first.
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_since: Option<Timestamp>,
    /// Whether the later messages of its stream wait.
    pub blocks_stream: bool,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkPosition>,
}

/// The position of a message of ordered work.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkPosition {
    pub partition: String,
    pub lane: Lane,
    pub id: String,
    pub sequence: u64,
    /// Since when the message waits, unless it is dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Timestamp>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct MessageDetail {
    #[serde(flatten)]
    pub row: MessageRow,
    /// The payload of the message, or a description of each message of an intent.
    pub contents: Vec<String>,
    /// The newest attempts, where the source stores them.
    pub history: Vec<Attempt>,
}

impl MessageRow {
    /// A row with a name and a state only; the name determines the source.
    pub(crate) fn new(name: MessageName, state: State, failed: Step) -> Self {
        Self {
            source: name.source(),
            name,
            state,
            failed,
            from: None,
            to: String::new(),
            what: String::new(),
            attempts: 0,
            reason: String::new(),
            sent_at: None,
            failed_at: None,
            next_attempt_at: None,
            dead_since: None,
            blocks_stream: false,
            work: None,
        }
    }
}
