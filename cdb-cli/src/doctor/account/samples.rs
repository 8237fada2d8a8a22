//! The documents of the check, beside those of the provider.

use cdb_model::{Container, Document, Timestamp};
use cdb_provider::documents::Durable;
use serde::{Deserialize, Serialize};

/// The container of most questions.
#[expect(clippy::large_enum_variant, reason = "the check handles few rows")]
#[derive(Container, Clone, Debug)]
pub(crate) enum Checked {
    #[container(extends)]
    Durable(Durable),
    Sample(Sample),
}

#[derive(Document, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[document(type = "azureCheck", id = "{instance_id}:sample:{name}")]
#[document(composite(BY_AMOUNT = r#type, amount))]
pub(crate) struct Sample {
    #[document(partition_key)]
    pub(crate) instance_id: String,
    pub(crate) name: String,
    #[document(index)]
    pub(crate) group: String,
    #[document(index)]
    pub(crate) amount: u32,
    #[document(index)]
    pub(crate) until: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[document(ttl)]
    pub(crate) ttl: Option<u32>,
    #[document(unindexed)]
    pub(crate) padding: String,
}

impl Sample {
    pub(crate) fn new(partition: &str, name: &str) -> Self {
        Self {
            instance_id: partition.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn key(&self) -> SampleKey {
        SampleKey::new(&*self.instance_id, &*self.name)
    }
}

/// A container before a new version of its program extends it.
#[derive(Container)]
pub(crate) enum Before {
    Note(Note),
}

/// The same container in the new version.
#[derive(Container)]
#[container(default_ttl = "per_document")]
pub(crate) enum After {
    Note(IndexedNote),
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "note")]
pub(crate) struct Note {
    #[document(partition_key)]
    owner: String,
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "note", id = "note")]
#[document(composite(BY_TITLE = r#type, title))]
pub(crate) struct IndexedNote {
    #[document(partition_key)]
    owner: String,
    #[document(index)]
    title: String,
}

/// A container with a unique key.
#[derive(Container)]
pub(crate) enum Keyed {
    Guest(Guest),
}

#[derive(Document, Serialize, Deserialize)]
#[document(type = "guest", id = "{name}", unique(badge))]
pub(crate) struct Guest {
    #[document(partition_key)]
    pub(crate) place: String,
    pub(crate) name: String,
    pub(crate) badge: u32,
}

/// A container of an account with full-text and vector search.
#[derive(Container)]
pub(crate) enum Searched {
    Text(SearchedText),
}

#[derive(Document, Serialize, Deserialize, Clone, Debug)]
#[document(type = "text", id = "{name}")]
pub(crate) struct SearchedText {
    #[document(partition_key)]
    pub(crate) topic: String,
    pub(crate) name: String,
    #[document(full_text)]
    pub(crate) body: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[document(vector(dimensions = 3))]
    pub(crate) meaning: Option<Vec<f32>>,
}
