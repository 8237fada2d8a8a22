//! The rows of the two modes of a change feed.
//!
//! The form of [`VersionRow`]: "Change feed modes, parse the response object", Azure Cosmos DB for
//! NoSQL.

use cdb_model::document::DecodeError;
use cdb_model::stored::{Unreadable, decode_any};
use cdb_model::value::PartitionKeyValue;
use cdb_model::{Container, PartitionKey, Stored, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::protocol::without_nulls;

/// The rows of a change feed: [`FeedRow`] for the latest versions of documents, [`VersionRow`] for all
/// versions and deletions. Implemented by no other type.
pub trait ChangeRow<C>: Sized + Send + 'static {
    /// Whether the feed has all versions and deletions.
    #[doc(hidden)]
    const ALL_VERSIONS: bool;

    /// Returns the service's time of the write, in whole seconds.
    fn timestamp(&self) -> Timestamp;

    /// Reads a row; `None` for a document of a type that `C` does not know.
    ///
    /// # Errors
    /// When the row does not have the form of the service.
    #[doc(hidden)]
    fn read(json: &str) -> Result<Option<Self>>;
}

/// A row of the change feed of latest versions.
#[derive(Debug)]
#[non_exhaustive]
pub struct FeedRow<C> {
    /// The log sequence number (`_lsn`) of the transaction that wrote the document; 0 if the service
    /// sends none. Ascends within a physical partition, also over splits. The documents of one
    /// batch have the same number.
    pub lsn: u64,
    /// The document, or the document that does not match its type.
    pub row: Result<Stored<C>, Unreadable>,
}

#[derive(Deserialize)]
struct Lsn {
    #[serde(rename = "_lsn", default)]
    lsn: u64,
}

impl<C> FeedRow<C> {
    /// The service's time of the write, in whole seconds.
    pub fn timestamp(&self) -> Timestamp {
        match &self.row {
            Ok(stored) => stored.timestamp,
            Err(unreadable) => unreadable.timestamp(),
        }
    }
}

impl<C: Container> ChangeRow<C> for FeedRow<C> {
    const ALL_VERSIONS: bool = false;

    fn timestamp(&self) -> Timestamp {
        self.timestamp()
    }

    fn read(json: &str) -> Result<Option<Self>> {
        let lsn = serde_json::from_str(json).map_or(0, |Lsn { lsn }| lsn);
        Ok(known(json).map(|row| Self { lsn, row }))
    }
}

/// A row of the change feed of all versions and deletions.
#[derive(Debug)]
#[non_exhaustive]
pub struct VersionRow<C> {
    /// The log sequence number of the transaction. Ascends within a physical partition, also over
    /// splits. The documents of one batch have the same number.
    pub lsn: u64,
    /// The number of the transaction that wrote the version before; `None` for a creation, or if the
    /// service sends none.
    pub previous_lsn: Option<u64>,
    /// The service's time of the write, in whole seconds.
    pub timestamp: Timestamp,
    /// The kind of change, with the documents.
    pub change: Change<C>,
}

/// A kind of change, with the documents that the service sends. A document that does not match its
/// type is an `Err`.
#[derive(Debug)]
#[non_exhaustive]
pub enum Change<C> {
    /// A document was created.
    Created(Result<Stored<C>, Unreadable>),
    /// A document was replaced, or patched.
    Replaced {
        /// The new version.
        current: Result<Stored<C>, Unreadable>,
        /// The version before, if the service sends it.
        previous: Option<Result<Stored<C>, Unreadable>>,
    },
    /// A document was deleted. Its type is unknown without `previous`: parse the id with the key of
    /// each type.
    Deleted {
        /// The id of the document.
        id: String,
        /// The partition key of the document; `None` if the service sends another form.
        partition_key: Option<PartitionKey>,
        /// Whether its time to live has expired.
        expired: bool,
        /// The last version, if the service sends it.
        previous: Option<Result<Stored<C>, Unreadable>>,
    },
    /// A kind that this version of the crate does not know, with the documents that the service sends.
    Other {
        /// The new version.
        current: Option<Result<Stored<C>, Unreadable>>,
        /// The version before.
        previous: Option<Result<Stored<C>, Unreadable>>,
    },
}

/// A row as the service sends it.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow, default)]
    current: Option<&'a RawValue>,
    #[serde(borrow, default)]
    previous: Option<&'a RawValue>,
    #[serde(deserialize_with = "without_nulls")]
    metadata: Metadata,
}

/// Source of the optional members, and of the forms of the partition key: azure_data_cosmos,
/// `change_feed_item.rs`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    operation_type: Operation,
    #[serde(default)]
    lsn: u64,
    /// The time of the write.
    #[serde(default)]
    crts: u64,
    #[serde(default, rename = "previousImageLSN")]
    previous_image_lsn: u64,
    #[serde(default)]
    time_to_live_expired: bool,
    /// Of a deletion.
    #[serde(default)]
    id: Option<String>,
    /// Of a deletion: values by path, or one per level.
    #[serde(default)]
    partition_key: Value,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Create,
    Replace,
    Delete,
    /// A newer one. It must not stop the feed.
    #[default]
    #[serde(other)]
    Other,
}

impl<'a> Entry<'a> {
    fn read(json: &'a str) -> Result<Self> {
        serde_json::from_str(json)
            .map_err(|error| Error::protocol(format!("row of all versions is unreadable: {error}")))
    }
}

impl Metadata {
    fn partition_key<C: Container>(&self) -> Option<PartitionKey> {
        let levels = C::PARTITION_KEY.iter().enumerate().map(|(level, path)| {
            let value = match &self.partition_key {
                Value::Array(values) => values.get(level),
                by_path => by_path.get(path.trim_start_matches('/')),
            };
            PartitionKeyValue::deserialize(value?).ok()
        });
        Some(PartitionKey::from_values(levels.collect::<Option<_>>()?))
    }
}

impl<C: Container> ChangeRow<C> for VersionRow<C> {
    const ALL_VERSIONS: bool = true;

    fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    fn read(json: &str) -> Result<Option<Self>> {
        let Entry {
            current,
            previous,
            metadata,
        } = Entry::read(json)?;
        // The service may send an empty object for a version that it does not have.
        let previous = previous.filter(|json| !matches!(json.get(), "{}" | "null"));
        let is_deletion = matches!(metadata.operation_type, Operation::Delete);
        let previous = match previous.map(|json| known::<C>(json.get())) {
            Some(None) if is_deletion => return Ok(None),
            previous => previous.flatten(),
        };
        let written = || match current {
            Some(current) => Ok(known::<C>(current.get())),
            None => Err(Error::protocol("row of all versions has no document")),
        };
        let change = match metadata.operation_type {
            Operation::Create => written()?.map(Change::Created),
            Operation::Replace => written()?.map(|current| Change::Replaced { current, previous }),
            Operation::Other => Some(Change::Other {
                current: current.and_then(|json| known::<C>(json.get())),
                previous,
            }),
            Operation::Delete => Some(Change::Deleted {
                partition_key: metadata.partition_key::<C>(),
                id: metadata.id.unwrap_or_default(),
                expired: metadata.time_to_live_expired,
                previous,
            }),
        };
        let previous_lsn = Some(metadata.previous_image_lsn).filter(|lsn| *lsn > 0);
        Ok(change.map(|change| Self {
            lsn: metadata.lsn,
            previous_lsn,
            timestamp: Timestamp::from_secs(metadata.crts),
            change,
        }))
    }
}

/// Decodes a document; `None` if `C` does not know its type.
fn known<C: Container>(json: &str) -> Option<Result<Stored<C>, Unreadable>> {
    match decode_any::<C>(json) {
        Err(DecodeError::UnknownType { .. }) => None,
        decoded => Some(decoded.map_err(|reason| Unreadable::new::<C>(json, reason))),
    }
}
