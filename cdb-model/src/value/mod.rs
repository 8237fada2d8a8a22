//! Values as they are stored: of fields, ids and partition keys.

mod foreign;
mod id;
pub(crate) mod numbers;
mod partition_key;
mod scalar;
mod sortable_text;
mod text_integer;
mod timestamp;

pub use id::{IdCodec, IdError, IdPart, IdParts, ItemId, SEPARATORS, format_id, id_codec};
pub use partition_key::{
    AnyPartitionKey, KeyTooLong, PartitionKey, PartitionKeyFields, PartitionKeyPart,
    PartitionKeyValue,
};
pub use scalar::{Ordered, Scalar};
pub use sortable_text::{SortableForm, SortableText};
pub use text_integer::TextInteger;
pub use timestamp::Timestamp;
