//! The traits of `#[derive(Container)]`: the document types of a container, and its definition.

use serde::{Deserialize, Serialize};

use crate::document::{DecodeError, Document};
use crate::limits::{MAX_COMPOSITES, MAX_COMPUTED_PROPERTIES, MAX_POLICY_PATHS, MAX_UNIQUE_KEYS};
use crate::policy::{ComputedProperty, FullTextPolicy, IndexingPolicy, VectorEmbeddingPolicy};
use crate::shape::{CompositeTarget, DocumentShape};

/// The document types of one container, as an enum. Implemented by
/// [`#[derive(Container)]`](macro@crate::Container).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a container",
    note = "add `#[derive(Container)]` to the enum of its document types"
)]
pub trait Container: Sized + Send + Sync + 'static {
    /// The name of the Rust type.
    const NAME: &'static str;
    /// The property that contains the type of a document, by default `type`.
    const DISCRIMINATOR: &'static str;
    /// The paths of the partition key, outermost level first.
    const PARTITION_KEY: &'static [&'static str];
    /// All document types, including those of extended containers.
    const DOCUMENTS: &'static [&'static DocumentShape];
    /// The default time to live.
    const DEFAULT_TTL: DefaultTtl;

    /// Decodes a document with this discriminator.
    ///
    /// # Errors
    /// [`DecodeError::UnknownType`] when no type of this container has that discriminator.
    fn decode(discriminator: &str, json: &str) -> Result<Self, DecodeError>;

    /// Returns the type of this document.
    fn shape(&self) -> &'static DocumentShape;

    /// Returns the definition with which the service creates this container.
    fn definition() -> ContainerDefinition {
        ContainerDefinition::of::<Self>()
    }
}

/// A document type of container `C`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a document type of container `{C}`",
    note = "add a variant for it to the container's enum"
)]
pub trait MemberOf<C: Container>: Document {}

/// A container that contains all document types of `Base`, in the same stored form.
#[diagnostic::on_unimplemented(
    message = "container `{Self}` does not extend `{Base}`",
    note = "add a variant `#[container(extends)] Base({Base})` to it"
)]
pub trait Extends<Base: Container>: Container {}

impl<C: Container> Extends<C> for C {}

/// Whether documents of a container expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultTtl {
    /// No document expires, not even one with its own `ttl`.
    Off,
    /// Only documents with their own `ttl` expire.
    PerDocument,
    /// Documents expire this many seconds after their last write, unless they have their own `ttl`.
    Seconds(u32),
}

/// The definition of a container in the service's form, without its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerDefinition {
    /// The partition key.
    pub partition_key: PartitionKeyDefinition,
    /// The indexing policy.
    pub indexing_policy: IndexingPolicy,
    /// The default time to live in seconds after the last write. -1: each document sets its own;
    /// `None`: no expiry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_ttl: Option<i64>,
    /// The unique keys. They cannot be changed after creation.
    #[serde(default, skip_serializing_if = "UniqueKeyPolicy::is_empty")]
    pub unique_key_policy: UniqueKeyPolicy,
    /// The computed properties.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub computed_properties: Vec<ComputedProperty>,
    /// The vectors. They can be added and removed, but not changed.
    #[serde(default, skip_serializing_if = "VectorEmbeddingPolicy::is_empty")]
    pub vector_embedding_policy: VectorEmbeddingPolicy,
    /// The full-text paths.
    #[serde(default, skip_serializing_if = "FullTextPolicy::is_empty")]
    pub full_text_policy: FullTextPolicy,
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
            unique_key_policy: UniqueKeyPolicy::of(C::DOCUMENTS, C::DISCRIMINATOR),
            computed_properties: ComputedProperty::of(C::DOCUMENTS),
            vector_embedding_policy: VectorEmbeddingPolicy::of(C::DOCUMENTS),
            full_text_policy: FullTextPolicy::of(C::DOCUMENTS),
        }
    }

    /// Checks that no list is longer than the service allows.
    ///
    /// # Errors
    /// Names the first list that is too long.
    pub fn check_limits(&self) -> Result<(), LimitExceeded> {
        let policy = &self.indexing_policy;
        let list = |entries, found, limit| LimitExceeded {
            entries,
            found,
            limit,
        };
        let lists = [
            list(
                "included paths",
                policy.included_paths.len(),
                MAX_POLICY_PATHS,
            ),
            list(
                "excluded paths",
                policy.excluded_paths.len(),
                MAX_POLICY_PATHS,
            ),
            list(
                "composite indexes",
                policy.composite_indexes.len(),
                MAX_COMPOSITES,
            ),
            list(
                "unique keys",
                self.unique_key_policy.unique_keys.len(),
                MAX_UNIQUE_KEYS,
            ),
            list(
                "computed properties",
                self.computed_properties.len(),
                MAX_COMPUTED_PROPERTIES,
            ),
        ];
        let exceeded = lists.into_iter().find(|list| list.found > list.limit);
        exceeded.map_or(Ok(()), Err)
    }

    /// Returns the indexing policy.
    pub fn indexing_policy(&self) -> &IndexingPolicy {
        &self.indexing_policy
    }
}

impl IndexingPolicy {
    /// Returns the policy of container `C`.
    pub fn of<C: Container>() -> Self {
        Self::merged(C::DOCUMENTS, C::DISCRIMINATOR, C::DOCUMENTS.len() > 1)
    }
}

/// A list of a definition that is longer than the service allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its types declare {found} {entries}, the service allows {limit}; declare fewer, or move types to another container"
)]
#[non_exhaustive]
pub struct LimitExceeded {
    /// What the list contains, such as `unique keys`.
    pub entries: &'static str,
    /// The number of entries.
    pub found: usize,
    /// The number that the service allows.
    pub limit: usize,
}

/// The partition key of a container's definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionKeyDefinition {
    /// The paths, outermost level first.
    pub paths: Vec<String>,
    /// `Hash` for one path, `MultiHash` for several.
    pub kind: PartitionKeyKind,
    /// The version of the hash: 2 uses up to 2048 bytes of a value, 1 up to 101.
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

/// How partition key values are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionKeyKind {
    /// One level.
    Hash,
    /// Two or three levels.
    MultiHash,
    /// A legacy kind.
    Range,
}

/// The unique keys of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UniqueKeyPolicy {
    /// The unique keys.
    #[serde(default)]
    pub unique_keys: Vec<UniqueKey>,
}

/// One unique key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UniqueKey {
    /// The paths whose combined values are unique within a logical partition.
    pub paths: Vec<String>,
}

impl UniqueKeyPolicy {
    fn of(documents: &[&DocumentShape], discriminator: &str) -> Self {
        let pointer = |target: &CompositeTarget| target.pointer(discriminator).into_owned();
        let mut unique_keys: Vec<UniqueKey> = documents
            .iter()
            .flat_map(|shape| shape.unique_keys)
            .map(|paths| UniqueKey {
                paths: paths.iter().map(pointer).collect(),
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
