//! Documents of Azure Cosmos DB as annotated structs.
//!
//! One derive defines how a type is stored. It generates ids, the partition key, typed paths,
//! queries, patches and batches, and, together with the other types of the container, the indexing
//! policy. This crate sends nothing; `cdb-client` does.
//!
//! ```
//! use cdb_model::document::FieldCodec;
//! use cdb_model::operation::BatchError;
//! use cdb_model::query::Explain;
//! use cdb_model::{Batch, Container, Document, DocumentKey, Query};
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
//! # Modules
//!
//! The root has what most programs name.
//!
//! | module | contents |
//! |---|---|
//! | [`document`] | paths of a type; reads and writes of one document as values |
//! | [`value`] | ids, parts of partition keys, numbers as text |
//! | [`operation`] | patches, leases, soft deletion, batches and bulks |
//! | [`query`] | conditions, sort orders and `explain`; aggregates, searches, and statements as a client sends them |
//! | [`container`] | the definition of a container; which types it has |
//! | [`policy`] | the indexing policy, and how two differ |
//! | [`stored`] | the JSON of a document: reading, writing, older versions, damaged documents |
//! | [`shape`] | a document type as constants, for tools |
//! | [`limits`] | the service's limits |
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
pub mod container;
pub mod document;
pub mod limits;
pub mod operation;
pub mod policy;
pub mod query;
pub mod shape;
mod sql;
pub mod stored;
pub mod value;

#[cfg(feature = "derive")]
pub use cdb_derive::{Container, Document, PartitionKeyFields, Projection, Scalar, sql};
pub use container::definition::Container;
pub use document::document_type::{Document, DocumentKey, Stored};
pub use document::etag::ETag;
pub use operation::batch::Batch;
pub use operation::patch::Patch;
pub use query::builder::Query;
pub use query::projection::Projection;
pub use value::partition_key::{PartitionKey, PartitionKeyFields};
pub use value::scalar::Scalar;
pub use value::timestamp::Timestamp;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
enum Readme {}
