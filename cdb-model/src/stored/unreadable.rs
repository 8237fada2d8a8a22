//! Rows that do not match their type.
//!
//! One document that another program damaged must not fail a query for all other documents. An
//! unreadable row contains everything needed to report it and to move or delete its document.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::codec::SystemProperties;
use crate::container::Container;
use crate::document::{DecodeError, Document, ETag, Path};
use crate::value::{ItemId, PartitionKey, PartitionKeyValue, Timestamp};

/// A row that does not match its type.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read: {}", self.name(), self.reason())]
pub struct Unreadable {
    /// Why the row cannot be read.
    #[source]
    pub reason: DecodeError,
    /// The row as the service sent it.
    pub json: String,
    /// The location of the document; `None` for a projected value, and for a document without a
    /// valid partition key.
    pub location: Option<Location>,
    /// The discriminator of the document; empty if it is missing or not a string.
    pub discriminator: String,
}

/// The location and version of a stored document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The stored id.
    pub id: ItemId,
    /// The partition key.
    pub partition_key: PartitionKey,
    /// The version.
    pub etag: ETag,
}

impl Unreadable {
    /// Creates an unreadable row of container `C`.
    pub fn new<C: Container>(json: &str, reason: DecodeError) -> Self {
        Self {
            reason,
            json: json.to_owned(),
            location: Location::read::<C>(json),
            discriminator: property(json, C::DISCRIMINATOR).unwrap_or_default(),
        }
    }

    /// Whether the discriminator is that of `D`: the document is damaged or of another version, not
    /// foreign.
    pub fn is_a<D: Document>(&self) -> bool {
        self.discriminator == D::SHAPE.discriminator
    }

    /// Returns one field, if it exists and matches its type.
    pub fn field<D, V: DeserializeOwned, I, M>(&self, path: Path<D, V, I, M>) -> Option<V> {
        let document: Value = serde_json::from_str(&self.json).ok()?;
        let value = document.pointer(path.pointer())?;
        serde_json::from_value(value.clone()).ok()
    }

    /// Returns `base` with each field of the row that can be decoded. So a field that is added to the
    /// type later is read too.
    pub fn fields_over<D: Serialize + DeserializeOwned>(&self, base: D) -> D {
        self.fields_at("", base)
    }

    /// As [`fields_over`](Self::fields_over), of the object at this JSON pointer (RFC 6901) in the row.
    pub fn fields_at<D: Serialize + DeserializeOwned>(&self, pointer: &str, base: D) -> D {
        let document: Value = serde_json::from_str(&self.json).unwrap_or_default();
        let found = document.pointer(pointer).cloned();
        let (Some(Value::Object(found)), Ok(Value::Object(mut fields))) =
            (found, serde_json::to_value(&base))
        else {
            return base;
        };
        let mut decoded = base;
        for (name, value) in found {
            let before = fields.insert(name.clone(), value);
            // One after the other: the field that damages the document must not hide the others.
            match serde_json::from_value(Value::Object(fields.clone())) {
                Ok(with_field) => decoded = with_field,
                Err(_) => drop(match before {
                    Some(before) => fields.insert(name, before),
                    None => fields.remove(&name),
                }),
            }
        }
        decoded
    }

    /// Returns the service's time of the last write, in whole seconds.
    pub fn timestamp(&self) -> Timestamp {
        Timestamp::from_secs(property(&self.json, "_ts").unwrap_or_default())
    }

    fn name(&self) -> String {
        match &self.location {
            Some(Location {
                id, partition_key, ..
            }) => format!("item `{id}` in partition {partition_key}"),
            None => "a row".to_owned(),
        }
    }

    /// Returns the reason with the message of serde, which names the field.
    fn reason(&self) -> String {
        match &self.reason {
            DecodeError::Malformed {
                document, reason, ..
            } => {
                format!("it is not a `{document}`: {reason}")
            }
            reason => reason.to_string(),
        }
    }
}

/// Returns a top-level property of a stored document, if it exists and matches its type.
fn property<V: DeserializeOwned>(json: &str, name: &str) -> Option<V> {
    let document: Value = serde_json::from_str(json).ok()?;
    serde_json::from_value(document.get(name)?.clone()).ok()
}

/// Returns the partition key of a document as the service stores it; `None` for a document without
/// a valid one.
pub fn partition_key_of<C: Container>(json: &str) -> Option<PartitionKey> {
    let document: Value = serde_json::from_str(json).ok()?;
    let levels = C::PARTITION_KEY.iter().map(|path| {
        let value = document.pointer(path)?;
        PartitionKeyValue::deserialize(value).ok()
    });
    Some(PartitionKey::from_values(levels.collect::<Option<_>>()?))
}

impl Location {
    pub(crate) fn read<C: Container>(json: &str) -> Option<Self> {
        let system = SystemProperties::read::<C>(json, C::NAME).ok()?;
        let partition_key = partition_key_of::<C>(json)?;
        let is_stored = !system.id.is_empty() && !system.etag.is_empty();
        is_stored.then(|| Self {
            id: ItemId::from_stored(system.id),
            partition_key,
            etag: ETag::new(system.etag),
        })
    }
}
