//! A document of the outbox or the inbox as it is stored, with untyped content.

use cdb_model::{Document, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Document, Serialize, Deserialize, Clone, Default)]
#[serde(rename_all = "camelCase")]
#[document(type = "mail", id = "{kind}:mail:{slot}")]
pub(crate) struct StoredMessage {
    #[document(partition_key)]
    pub(crate) place: String,
    #[serde(default)]
    pub(crate) kind: String,
    pub(crate) slot: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mail_out: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mail_in: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mail_dead: Option<Timestamp>,
    #[document(ttl)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ttl: Option<u32>,
    pub(crate) mail: Value,
}
