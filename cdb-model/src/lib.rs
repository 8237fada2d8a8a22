//! Documents of Azure Cosmos DB as annotated structs.
//!
//! One derive defines how a type is stored. It generates ids, the partition key, typed paths,
//! queries, patches and batches, and, together with the other types of the container, the indexing
//! policy. This crate sends nothing; `cdb-client` does.
//!
//! ```
//! use cdb_model::{Batch, BatchError, Container, Document, DocumentKey, Explain, FieldCodec, Query};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Document, Serialize, Deserialize)]
//! #[serde(rename_all = "camelCase")]
//! #[document(type = "order", id = "order:{number}")]
//! #[document(composite(BY_TOTAL = r#type, total_cents))]
//! struct Order {
//!     #[document(partition_key)]
//!     customer_id: String,
//!     number: u64,
//!     #[document(index)]
//!     total_cents: u64,
//!     #[document(unindexed)]
//!     remark: Option<String>,
//! }
//!
//! #[derive(Container)]
//! enum Shop {
//!     Order(Order),
//! }
//!
//! fn main() -> Result<(), BatchError> {
//!     assert_eq!(OrderKey::new(7).to_id()?.as_str(), "order:7");
//!
//!     // Only indexed paths have filters and sorts; a sort by several paths needs a declared composite.
//!     let large = Query::<Order>::in_partition("ada")
//!         .filter(Order::TOTAL_CENTS.gt(10_000_u64))
//!         .order_by(Order::BY_TOTAL.reversed());
//!     let policy = Shop::definition().indexing_policy;
//!     assert!(large.explain(&policy).is_served());
//!
//!     // All operations of a batch are on one partition.
//!     let order = Order { customer_id: "ada".into(), number: 7, total_cents: 9_900, remark: None };
//!     let mut batch = Batch::<Shop>::new("ada");
//!     batch.add(order.create())?;
//!     assert!(Batch::<Shop>::new("grace").add(order.create()).is_err());
//!     Ok(())
//! }
//! ```
//!
//! The other examples of this crate use this `Order` and this `Shop`.
//!
//! # Features
//!
//! - `derive` (on by default): the derives [`Document`](macro@Document),
//!   [`Container`](macro@Container), [`PartitionKeyFields`](macro@PartitionKeyFields), [`Projection`](macro@Projection) and [`Scalar`](macro@Scalar). Without it, no proc macro is
//!   compiled, and the traits have to be implemented by hand.
//! - `chrono`, `jiff`, `rust_decimal`, `time`, `uuid`: the types of these crates as fields that queries
//!   compare, as ids and as partition keys; see [`Scalar`](trait@Scalar).

#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
#[path = "codegen_support.rs"]
pub mod __private;
mod conflict;
mod container;
mod document;
pub mod limits;
mod operation;
mod policy;
mod query;
mod shape;
mod sql;
mod stored;
mod value;

#[cfg(feature = "derive")]
pub use cdb_derive::{Container, Document, PartitionKeyFields, Projection, Scalar, sql};
pub use container::{
    Container, ContainerDefinition, DefaultTtl, Extends, LimitExceeded, MemberOf,
    PartitionKeyDefinition, PartitionKeyKind, UniqueKey, UniqueKeyPolicy,
};
pub use document::{
    Address, BatchPartition, Computed, Create, DecodeError, Delete, Document, DocumentKey, ETag,
    Embedding, EncodeError, FieldCodec, Fixed, FullText, Indexed, KnownPartition, Partition,
    Patchable, Path, Read, Replace, Stored, Unindexed, Upsert, WriteMark,
};
#[doc(hidden)]
pub use operation::Identity;
pub use operation::{
    Batch, BatchError, BatchOperation, BulkBatch, Changeable, Counter, DeletionPath, EntryPath,
    Leasable, Lease, LeasePaths, Operation, OperationError, OperationIndex, Patch, PatchBody,
    PatchError, PatchOperation, PreparedOperation, SoftDelete, Target,
};
pub use policy::{
    CompositeIndexPath, ComputedProperty, ExcludedPath, FullTextIndex, FullTextPath,
    FullTextPolicy, IncludedPath, IndexingMode, IndexingPolicy, PolicyDifference, VectorEmbedding,
    VectorEmbeddingPolicy, VectorIndex,
};
pub use query::{
    Aggregate, AggregateQuery, Aggregates, Array, Composite, CriteriaError, Criterion, Documents,
    Explain, Explanation, Fetch, Filter, Filterable, GroupKeys, GroupQuery, GroupedQuery, Groups,
    Hit, KeyLookup, Operand, Operator, Optional, Order, Projection, QueriedIn, Query, QueryForm,
    Queryable, Rank, RawSql, RowByRow, RowForm, Scope, SearchQuery, SearchStatement, Searched,
    SingleRow, SortCriterion, SortKey, Sql, Statement, Summand, Text, ValueQuery, WithVectors,
    WithWords, compare_values,
};
pub use shape::{
    AbsentValue, CompositePath, CompositeShape, CompositeTarget, ComputedShape, Direction,
    DocumentShape, ExpressionPart, FieldIndexing, FieldShape, FullTextShape, IdSegment, Upcast,
    UpcastError, VectorDistance, VectorElement, VectorIndexKind, VectorShape,
};
pub use sql::{AggregateKind, Parameter, ValueError};
pub use stored::{
    Encoded, Location, UnknownFields, Unreadable, Upgraded, decode, decode_any, encode, is_same,
    partition_key_of, upcast, upgrade,
};
pub use value::{
    AnyPartitionKey, IdError, IdPart, ItemId, KeyTooLong, Ordered, PartitionKey,
    PartitionKeyFields, PartitionKeyPart, PartitionKeyValue, SEPARATORS, Scalar, SortableForm,
    SortableText, TextInteger, Timestamp,
};

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
enum Readme {}
