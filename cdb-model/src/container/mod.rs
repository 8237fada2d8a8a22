//! The definition of a container, and the traits of its document types.

pub(crate) mod definition;

pub(crate) use definition::Container;
pub use definition::{
    ContainerDefinition, DefaultTtl, Extends, LimitExceeded, MemberOf, PartitionKeyDefinition,
    PartitionKeyKind, UniqueKey, UniqueKeyPolicy,
};
