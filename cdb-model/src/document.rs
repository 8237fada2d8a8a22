//! The traits behind `#[derive(Document)]`: a type, its key, and what comes back from the store.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::etag::ETag;
use crate::id::{IdError, ItemId};
use crate::partition_key::PartitionKey;
use crate::shape::DocumentShape;
use crate::timestamp::Timestamp;

/// A document type. Implemented by `#[derive(Document)]`, not by hand.
///
/// ```
/// use cdb_model::{Document, DocumentKey, PartitionKey};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, order};
///
/// let order = order(7);
/// assert_eq!(order.key().to_id()?.as_str(), "order:7");
/// assert_eq!(order.partition_key(), PartitionKey::from("ada"));
/// assert_eq!(Order::SHAPE.discriminator, "order");
/// # Ok::<(), cdb_model::IdError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a document type",
    note = "add `#[derive(Document, Serialize, Deserialize)]` and `#[document(...)]` to it"
)]
pub trait Document: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The fields that make the id.
    type Key: DocumentKey<Document = Self>;
    /// The type as constant data.
    const SHAPE: &'static DocumentShape;

    /// The key of this document.
    fn key(&self) -> Self::Key;

    /// The partition that this document belongs to.
    fn partition_key(&self) -> PartitionKey;
}

/// The typed identity of a document within its partition: formats to the id and parses back from it.
///
/// ```
/// use cdb_model::DocumentKey;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::OrderKey;
///
/// assert_eq!(OrderKey::new(7_u64).to_id()?.as_str(), "order:7");
/// assert_eq!(OrderKey::parse("order:7")?.number, 7);
/// assert!(OrderKey::parse("order:007").is_err()); // one key, one id
/// # Ok::<(), cdb_model::IdError>(())
/// ```
pub trait DocumentKey: Clone + std::fmt::Debug + Send + Sync + Sized + 'static {
    /// The document type that this key belongs to.
    type Document: Document<Key = Self>;

    /// The item id.
    ///
    /// # Errors
    /// [`IdError::TooLong`] above the service's 1023 bytes.
    fn to_id(&self) -> Result<ItemId, IdError>;

    /// Reads an id of this type.
    ///
    /// # Errors
    /// [`IdError::Malformed`] when `id` was not made from this pattern.
    fn parse(id: &str) -> Result<Self, IdError>;
}

/// A key whose id pattern holds the whole partition key, so that it alone locates the document.
///
/// ```
/// use cdb_model::{Document, LocatedKey, PartitionKey};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "order", id = "{customer}:order:{number}")]
/// struct Order {
///     #[document(partition_key)]
///     customer: String,
///     number: u64,
/// }
///
/// let key = OrderKey::new("ada", 7_u64);
/// assert_eq!(key.partition_key(), PartitionKey::from("ada")); // so the client's methods need no partition beside it
/// ```
#[diagnostic::on_unimplemented(
    message = "the id pattern of this key does not hold the partition key",
    note = "name the partition explicitly, with the method that takes a `PartitionKey`"
)]
pub trait LocatedKey: DocumentKey {
    /// The partition that the document with this key is in.
    fn partition_key(&self) -> PartitionKey;
}

/// A document as it is stored: with what the service adds beside it, never inside it.
///
/// ```
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::{Order, Shop};
/// # let json = r#"{"id":"order:7","type":"order","customerId":"ada","number":7,"totalCents":9900,"_etag":"\"1\"","_ts":1763721471}"#;
/// # let stored = cdb_model::decode::<Shop, Order>(json)?;
/// let total = stored.map(|order| order.total_cents);
/// assert_eq!((total.document, total.id.as_str()), (9_900, "order:7"));
/// assert_eq!(total.timestamp.as_millis(), 1_763_721_471_000);
/// # Ok::<(), cdb_model::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stored<T> {
    /// The id it is stored under. Equals the id of the document's key unless another program wrote it.
    pub id: ItemId,
    /// The document itself.
    pub document: T,
    /// Its version.
    pub etag: ETag,
    /// When it was last written, by the service's clock, to the second.
    pub timestamp: Timestamp,
}

impl<T> Stored<T> {
    /// Keeps what surrounds the document and converts the document.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Stored<U> {
        Stored {
            id: self.id,
            document: convert(self.document),
            etag: self.etag,
            timestamp: self.timestamp,
        }
    }
}
