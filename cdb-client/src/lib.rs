//! Typed client of Azure Cosmos DB (NoSQL) over its REST protocol.
//!
//! The client reads and writes the documents of [`cdb_model`]: point operations, patches,
//! transactional batches, bulks, queries in one partition and across physical partitions, and the
//! change feed. It retries requests, keeps session tokens and follows the service's clock. Every
//! error has a kind and says whether a write may have taken effect.
//!
//! ```
//! use cdb_client::{Bootstrap, CosmosClient, MasterKey};
//! use cdb_model::{Container, Document, Query};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Document, Serialize, Deserialize)]
//! #[document(type = "order", id = "order:{number}")]
//! pub struct Order {
//!     #[document(partition_key)]
//!     pub customer: String,
//!     pub number: u64,
//!     #[document(index)]
//!     pub status: String,
//! }
//!
//! #[derive(Container)]
//! pub enum Shop {
//!     Order(Order),
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let emulator = cdb_emulator::Emulator::start().await?;
//!     let client = CosmosClient::builder(emulator.endpoint())
//!         .credential(MasterKey::new(emulator.key())?)
//!         .build()?;
//!     let shop = client
//!         .database("shop")
//!         .bootstrap::<Shop>("orders", Bootstrap::CreateIfMissing)
//!         .await?;
//!     let order = Order { customer: "ann".into(), number: 1, status: "paid".into() };
//!     match shop.run(order.create()).await {
//!         Err(error) if error.is_conflict() => println!("it exists"),
//!         created => println!("version {}", created?.etag),
//!     }
//!     let paid = Query::<Order>::in_partition("ann").filter(Order::STATUS.eq("paid"));
//!     assert_eq!(shop.query(paid).all().await?.len(), 1);
//!     Ok(())
//! }
//! ```
//!
//! # Retries
//!
//! [`RetryConfig`] limits them. A write without an answer is sent again only if a second execution
//! has the same result: an upsert, replace or delete without ETag, a patch that only sets, a batch
//! of such operations without deletes. A create, a conditional write or any other batch is not sent again; its
//! error [is ambiguous](Error::is_ambiguous).
//!
//! # Request units
//!
//! [`measure_charge`] returns what any call costs: a read, a batch, a bulk, a whole query, one item of
//! a stream. The charge of an error is in its [`CallDetails`], the sum of all calls in
//! [`ContainerClient::usage`].
//!
//! # Features
//!
//! - `rustls-ring` (default), `rustls-aws-lc`, `fips`, `native-tls`: the TLS of HTTPS and its
//!   cryptography. A program needs one. Without any, only `http://` works, which emulators have.
//! - `entra`: `EntraId`, a credential with tokens of Microsoft Entra ID from any credential of the
//!   Azure SDK. Adds `azure_core`.
//! - `test-support`: `Script`, a transport that plays prepared answers and keeps a log;
//!   `SimulatedTime`, a network for tests that pause Tokio's clock; `ContainerClient::send_raw`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod clock;
mod container;
mod credential;
mod database;
mod error;
mod partitions;
mod protocol;
mod regions;
mod retry;
mod throughput;
mod transport;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Crates needed to implement [`Transport`] and [`Credential`], in the versions that this crate
/// uses.
#[doc(no_inline)]
pub use {async_trait::async_trait, bytes, http};

pub use client::{ConnectionString, ConnectionStringParts, CosmosClient, CosmosClientBuilder};
pub use clock::machine_now;
#[cfg(any(test, feature = "test-support"))]
pub use container::RawTarget;
pub use container::{
    AvailableRows, BatchOutcome, Change, ChangeFeed, ChangeRow, ContainerClient, Continuation,
    FeedCursor, FeedPage, FeedRow, FeedStart, FromExecuted, Migration, MigrationStep, Page, Pages,
    QueryRun, SingleOperation, VersionRow, Written,
};
#[cfg(feature = "entra")]
pub use credential::EntraId;
pub use credential::{Authorization, Credential, MasterKey, SigningContext};
pub use database::{
    Bootstrap, BootstrapConfig, ContainerChange, DatabaseClient, Difference, OnDifference,
    Throughput,
};
pub use error::{CallDetails, Error, ErrorKind, OperationKind, Result, Status};
pub use partitions::{Behind, PartitionHealth, PhysicalPartitionId, SharedCall};
pub use protocol::OperationResult;
pub use regions::{Account, Region};
#[doc(hidden)]
pub use retry::Jitter;
pub use retry::{RetryConfig, time_left, with_own_deadline, within_deadline};
pub use throughput::{BackgroundConfig, OperationUsage, Usage, measure_charge};
pub use transport::{Delivery, HttpRequest, HttpResponse, Transport, TransportError};
#[cfg(any(test, feature = "test-support"))]
pub use transport::{Script, SimulatedTime, Step};
