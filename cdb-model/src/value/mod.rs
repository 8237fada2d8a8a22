//! Values as they are stored: of fields, ids and partition keys.

mod foreign;
pub(crate) mod id;
pub(crate) mod numbers;
pub(crate) mod partition_key;
pub(crate) mod scalar;
mod sortable_text;
mod text_integer;
pub(crate) mod timestamp;

pub use id::{IdError, IdPart, ItemId, SEPARATORS};
pub use partition_key::{AnyPartitionKey, KeyTooLong, PartitionKeyPart, PartitionKeyValue};
pub(crate) use partition_key::{PartitionKey, PartitionKeyFields};
pub use scalar::Ordered;
pub(crate) use scalar::Scalar;
pub use sortable_text::{SortableForm, SortableText};
pub use text_integer::TextInteger;
pub(crate) use timestamp::Timestamp;
