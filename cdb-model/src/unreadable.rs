//! Rows that do not fit their type, apart from those that do.
//!
//! One document that another program has spoiled must not keep a search from everything else that it finds. Such a row
//! comes with what is needed to report it and to put it aside.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::codec::SystemProperties;
use crate::codec_error::DecodeError;
use crate::container::Container;
use crate::document::Document;
use crate::etag::ETag;
use crate::id::ItemId;
use crate::partition_key::{PartitionKey, PartitionKeyValue};
use crate::path::Path;
use crate::query::{Fetch, Statement};
use crate::timestamp::Timestamp;

/// A query whose rows are read one by one: what does not fit its type is a row too, and fails none of the others.
///
/// ```
/// use cdb_model::{Fetch, Query, RowByRow};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// let query = RowByRow(Query::<Order>::across_partitions());
/// let spoiled = r#"{"id":"order:8","type":"order","customerId":"ada","number":"eight","_etag":"\"2\"","_ts":1763721471}"#;
/// let row = Fetch::<Shop>::read_row(&query, spoiled)?; // the search goes on
/// assert!(row.is_err());
/// # Ok::<(), cdb_model::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RowByRow<Q>(pub Q);

/// A row that does not fit its type.
///
/// ```
/// use cdb_model::{Fetch, Query, RowByRow};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// let query = RowByRow(Query::<Order>::across_partitions());
/// # let json = r#"{"id":"order:8","type":"order","customerId":"ada","number":"eight","_etag":"\"2\"","_ts":1763721471}"#;
/// if let Err(spoiled) = Fetch::<Shop>::read_row(&query, json)? {
///     assert!(spoiled.is_a::<Order>()); // ours, but its number is a text
///     assert_eq!(spoiled.field(Order::CUSTOMER_ID).as_deref(), Some("ada"));
///     assert_eq!(spoiled.field(Order::NUMBER), None);
/// }
/// # else { panic!("it was read") }
/// # Ok::<(), cdb_model::DecodeError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read: {}", self.name(), self.why())]
pub struct Unreadable {
    /// What is wrong with it.
    #[source]
    pub reason: DecodeError,
    /// The row as the service sent it.
    pub json: String,
    /// Where the document is; `None` for a projected value, and for a document without a partition key that can be named.
    pub location: Option<Location>,
    /// Its discriminator; empty when it has none, or one that is no text.
    pub discriminator: String,
}

/// Where a stored document is, and which version of it.
///
/// ```
/// use cdb_model::{Batch, Unreadable};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
///
/// # let json = r#"{"id":"order:8","type":"order","customerId":"ada","number":"eight","_etag":"\"2\"","_ts":1763721471}"#;
/// # let reason = cdb_model::decode::<Shop, Order>(json).unwrap_err();
/// // It is put away without having been read, and only in the version that was looked at.
/// let spoiled = Unreadable::new::<Shop>(json, reason);
/// if let Some(location) = &spoiled.location {
///     let mut batch = Batch::<Shop>::new(&location.partition_key);
///     batch.delete_at(location)?;
/// #   assert_eq!(batch.len(), 1);
/// }
/// # assert!(spoiled.location.is_some());
/// # Ok::<(), cdb_model::BatchError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The id it is stored under.
    pub id: ItemId,
    /// The partition that it is in.
    pub partition_key: PartitionKey,
    /// Its version.
    pub etag: ETag,
}

impl<C: Container, Q: Fetch<C>> Fetch<C> for RowByRow<Q> {
    type Row = Result<Q::Row, Unreadable>;

    fn statement(&self) -> Statement {
        self.0.statement()
    }

    fn read_row(&self, json: &str) -> Result<Self::Row, DecodeError> {
        let row = self.0.read_row(json);
        Ok(row.map_err(|reason| Unreadable::new::<C>(json, reason)))
    }
}

impl Unreadable {
    /// A row of container `C` that cannot be read, for whatever `reason`.
    pub fn new<C: Container>(json: &str, reason: DecodeError) -> Self {
        Self {
            reason,
            json: json.to_owned(),
            location: Location::read::<C>(json),
            discriminator: property(json, C::DISCRIMINATOR).unwrap_or_default(),
        }
    }

    /// Whether it calls itself a `D`, so that it is damaged, or of another version, and not foreign.
    pub fn is_a<D: Document>(&self) -> bool {
        self.discriminator == D::SHAPE.discriminator
    }

    /// One field, if it is there and fits.
    pub fn field<D, V: DeserializeOwned, I, M>(&self, path: Path<D, V, I, M>) -> Option<V> {
        let document: Value = serde_json::from_str(&self.json).ok()?;
        let value = document.pointer(path.pointer())?;
        serde_json::from_value(value.clone()).ok()
    }

    /// When it was last written, by the service's clock, to the second.
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

    /// The reason with what serde says about it, which alone names the field.
    fn why(&self) -> String {
        match &self.reason {
            DecodeError::Malformed {
                document, source, ..
            } => {
                format!("it is no `{document}`: {source}")
            }
            reason => reason.to_string(),
        }
    }
}

/// A property at the top of a stored document, if it fits.
fn property<V: DeserializeOwned>(json: &str, name: &str) -> Option<V> {
    let document: Value = serde_json::from_str(json).ok()?;
    serde_json::from_value(document.get(name)?.clone()).ok()
}

impl Location {
    fn read<C: Container>(json: &str) -> Option<Self> {
        let system = SystemProperties::read(json, C::DISCRIMINATOR, C::NAME).ok()?;
        let document: Value = serde_json::from_str(json).ok()?;
        let levels = C::PARTITION_KEY.iter().map(|path| {
            let value = document.pointer(path)?;
            PartitionKeyValue::deserialize(value).ok()
        });
        let partition_key = PartitionKey::from_values(levels.collect::<Option<_>>()?);
        let is_stored = !system.id.is_empty() && !system.etag.is_empty();
        is_stored.then(|| Self {
            id: ItemId::from_stored(system.id),
            partition_key,
            etag: ETag::new(system.etag),
        })
    }
}
