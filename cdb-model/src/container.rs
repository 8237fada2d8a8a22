//! The traits behind `#[derive(Container)]`: which document types share a container, and its definition.

use serde::{Deserialize, Serialize};

use crate::codec_error::DecodeError;
use crate::document::Document;
use crate::policy::IndexingPolicy;
use crate::shape::DocumentShape;

/// The document types of one container, as an enum over them. Implemented by `#[derive(Container)]`.
///
/// ```
/// use cdb_model::Container;
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
///
/// assert_eq!(Shop::PARTITION_KEY, ["/customerId"]);
/// let names: Vec<&str> = Shop::DOCUMENTS.iter().map(|shape| shape.name).collect();
/// assert_eq!(names, ["Order"]);
/// println!("{}", Shop::definition().indexing_policy());
/// ```
pub trait Container: Sized + Send + Sync + 'static {
    /// Name of the Rust type.
    const NAME: &'static str;
    /// The property that says which type a document is, `type` unless renamed.
    const DISCRIMINATOR: &'static str;
    /// Paths of the partition key, outermost level first.
    const PARTITION_KEY: &'static [&'static str];
    /// All document types, those of extended containers included.
    const DOCUMENTS: &'static [&'static DocumentShape];
    /// The container's time to live; see [`DefaultTtl`].
    const DEFAULT_TTL: DefaultTtl;

    /// Reads a document whose discriminator is `discriminator`.
    ///
    /// # Errors
    /// [`DecodeError::UnknownType`] when no type of this container has that discriminator.
    fn decode(discriminator: &str, json: &str) -> Result<Self, DecodeError>;

    /// The type of this document.
    fn shape(&self) -> &'static DocumentShape;

    /// What the service must be told to create this container.
    fn definition() -> ContainerDefinition {
        ContainerDefinition::of::<Self>()
    }
}

/// `Self` is one of the document types of container `C`.
///
/// ```
/// use cdb_model::{Container, EncodeError, MemberOf};
///
/// /// Bytes that a document takes in container `C`.
/// fn size<C: Container, D: MemberOf<C>>(document: &D) -> Result<usize, EncodeError> {
///     Ok(cdb_model::encode::<C, D>(document)?.json.get().len())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a document type of container `{C}`",
    note = "add a variant for it to the container's enum"
)]
pub trait MemberOf<C: Container>: Document {}

/// Every document of `Base` is also a document of this container, stored the same way.
///
/// ```
/// use cdb_model::{Container, Document, Extends};
/// use serde::{Deserialize, Serialize};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// #[document(type = "voucher", id = "voucher:{code}")]
/// pub struct Voucher {
///     #[document(partition_key)]
///     customer_id: String,
///     code: String,
/// }
///
/// #[derive(Container)] // the partition key is that of `Shop`
/// pub enum BiggerShop {
///     #[container(extends)]
///     Shop(Shop),
///     Voucher(Voucher),
/// }
///
/// fn needs_orders<C: Extends<Shop>>() -> usize {
///     C::DOCUMENTS.len()
/// }
/// assert_eq!(needs_orders::<BiggerShop>(), 2);
/// ```
#[diagnostic::on_unimplemented(
    message = "container `{Self}` does not extend `{Base}`",
    note = "add a variant `#[container(extends)] Base({Base})` to it"
)]
pub trait Extends<Base: Container>: Container {}

/// Whether documents of a container expire.
///
/// ```
/// use cdb_model::{Container, DefaultTtl};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
///
/// assert_eq!(Shop::DEFAULT_TTL, DefaultTtl::Off); // `#[container(default_ttl = 86400)]` sets it
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultTtl {
    /// Nothing expires, not even documents with a `ttl` of their own.
    Off,
    /// Only documents with a `ttl` of their own expire.
    PerDocument,
    /// Every document expires this many seconds after its last write, unless it has a `ttl` of its own.
    Seconds(u32),
}

/// A container as the service describes it, without its name.
///
/// ```
/// use cdb_model::{Container, PartitionKeyKind};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
///
/// let definition = Shop::definition();
/// assert_eq!(definition.partition_key.paths, ["/customerId"]);
/// assert_eq!(definition.partition_key.kind, PartitionKeyKind::Hash);
/// let json = serde_json::to_string(&definition)?; // the body of the request that creates it, but for the name
/// assert!(json.contains(r#""path":"/totalCents/?""#));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerDefinition {
    /// Which paths make the partition key.
    pub partition_key: PartitionKeyDefinition,
    /// Which paths are indexed.
    pub indexing_policy: IndexingPolicy,
    /// Seconds after the last write; -1 leaves it to the documents; absent turns expiry off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_ttl: Option<i64>,
    /// What must be unique within a logical partition. Cannot be changed after creation.
    #[serde(default, skip_serializing_if = "UniqueKeyPolicy::is_empty")]
    pub unique_key_policy: UniqueKeyPolicy,
}

impl ContainerDefinition {
    fn of<C: Container>() -> Self {
        Self {
            partition_key: PartitionKeyDefinition::new(C::PARTITION_KEY),
            indexing_policy: IndexingPolicy::of::<C>(),
            default_ttl: match C::DEFAULT_TTL {
                DefaultTtl::Off => None,
                DefaultTtl::PerDocument => Some(-1),
                DefaultTtl::Seconds(seconds) => Some(i64::from(seconds)),
            },
            unique_key_policy: UniqueKeyPolicy::of(C::DOCUMENTS),
        }
    }

    /// The indexing policy.
    pub fn indexing_policy(&self) -> &IndexingPolicy {
        &self.indexing_policy
    }
}

/// The partition key part of a container's definition.
///
/// ```
/// use cdb_model::{Container, PartitionKeyDefinition};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
///
/// // A container that was created long ago: it tells keys apart by their first 101 bytes.
/// let old: PartitionKeyDefinition =
///     serde_json::from_str(r#"{"paths": ["/customerId"], "kind": "Hash"}"#)?;
/// let own = Shop::definition().partition_key;
/// assert_eq!(own.paths, old.paths);
/// assert_eq!((own.version, old.version), (2, 1));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionKeyDefinition {
    /// Paths, outermost level first.
    pub paths: Vec<String>,
    /// One path is hashed as `Hash`, several as `MultiHash`.
    pub kind: PartitionKeyKind,
    /// 2: values up to 2048 bytes take part in the hash.
    #[serde(default = "first_version")]
    pub version: u8,
}

fn first_version() -> u8 {
    1
}

impl PartitionKeyDefinition {
    fn new(paths: &[&str]) -> Self {
        Self {
            paths: paths.iter().map(|&path| path.to_owned()).collect(),
            kind: if paths.len() > 1 {
                PartitionKeyKind::MultiHash
            } else {
                PartitionKeyKind::Hash
            },
            version: 2,
        }
    }
}

/// How partition key values are spread.
///
/// ```
/// use cdb_model::{Container, Document, PartitionKeyKind};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "order", id = "order:{number}")]
/// struct Order {
///     #[document(partition_key(1))]
///     tenant: String,
///     #[document(partition_key(2))]
///     customer: String,
///     number: u64,
/// }
///
/// #[derive(Container)]
/// #[container(partition_key = "/tenant, /customer")]
/// enum Shop {
///     Order(Order),
/// }
///
/// assert_eq!(Shop::definition().partition_key.kind, PartitionKeyKind::MultiHash);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionKeyKind {
    /// One level.
    Hash,
    /// Two or three levels.
    MultiHash,
    /// A legacy kind that containers of today no longer use.
    Range,
}

/// The unique keys of a container.
///
/// ```
/// use cdb_model::{Container, UniqueKeyPolicy};
/// # mod shop { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/shop.rs")); }
/// # use shop::Shop;
///
/// // Of a live container that somebody has made by hand. No later change can mend it.
/// let live: UniqueKeyPolicy = serde_json::from_str(r#"{"uniqueKeys": [{"paths": ["/email"]}]}"#)?;
/// assert_ne!(live, Shop::definition().unique_key_policy);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UniqueKeyPolicy {
    /// One entry per unique key.
    #[serde(default)]
    pub unique_keys: Vec<UniqueKey>,
}

/// One unique key.
///
/// ```
/// use cdb_model::{Container, Document};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Document, Serialize, Deserialize)]
/// #[document(type = "customer", id = "customer:{number}", unique(email))]
/// struct Customer {
///     #[document(partition_key)]
///     shop: String,
///     number: u64,
///     email: String,
/// }
///
/// #[derive(Container)]
/// #[container(partition_key = "/shop")]
/// enum Shop {
///     Customer(Customer),
/// }
///
/// let unique = Shop::definition().unique_key_policy.unique_keys;
/// assert_eq!(unique[0].paths, ["/email"]); // no two customers of a shop
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UniqueKey {
    /// The paths whose values together must be unique within a logical partition.
    pub paths: Vec<String>,
}

impl UniqueKeyPolicy {
    fn of(documents: &[&DocumentShape]) -> Self {
        let mut unique_keys: Vec<UniqueKey> = documents
            .iter()
            .flat_map(|shape| shape.unique_keys)
            .map(|paths| UniqueKey {
                paths: paths.iter().map(|&path| path.to_owned()).collect(),
            })
            .collect();
        unique_keys.sort();
        unique_keys.dedup();
        Self { unique_keys }
    }

    fn is_empty(&self) -> bool {
        self.unique_keys.is_empty()
    }
}
