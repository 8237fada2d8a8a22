//! Documents of Azure Cosmos DB as annotated structs.

#[doc(hidden)]
#[path = "codegen_support.rs"]
pub mod __private;
mod batch;
mod codec;
mod conflict;
mod container;
mod document;
mod etag;
mod id;
pub mod limits;
mod partition_key;
mod patch;
mod path;
mod policy;
mod query;
mod shape;
mod timestamp;

pub use batch::{Batch, BatchError, BatchOperation, BulkBatch, BulkOperation, OperationIndex};
#[cfg(feature = "derive")]
pub use cdb_derive::{Container, Document};
pub use codec::{DecodeError, EncodeError, Encoded, decode, decode_any, encode};
pub use container::{
    Container, ContainerDefinition, DefaultTtl, Extends, MemberOf, PartitionKeyDefinition,
    PartitionKeyKind, UniqueKey, UniqueKeyPolicy,
};
pub use document::{Document, DocumentKey, LocatedKey, Stored};
pub use etag::ETag;
pub use id::{IdError, IdPart, ItemId, SEPARATORS};
pub use partition_key::{PartitionKey, PartitionKeyPart, PartitionKeyValue};
pub use patch::{Counter, Patch, PatchBody, PatchError, PatchOperation};
pub use path::{Fixed, Indexed, Patchable, Path, Unindexed};
pub use policy::{CompositeIndexPath, ExcludedPath, IncludedPath, IndexingMode, IndexingPolicy};
pub use query::{
    Composite, CountQuery, Fetch, Filter, Filterable, Operand, Order, Parameter, QueriedIn, Query,
    Queryable, RowForm, Scope, SortKey, Statement, Summand, Text, ValueQuery,
};
pub use shape::{
    CompositePath, CompositeShape, CompositeTarget, Direction, DocumentShape, FieldIndexing,
    FieldShape, IdSegment,
};
pub use timestamp::Timestamp;
