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
//! # Modules
//!
//! The root has what most programs name.
//!
//! | module | contents |
//! |---|---|
//! | [`account`] | the builder of a client, connection strings, regions |
//! | [`credential`] | what authorizes requests; to write one |
//! | [`database`] | how a container is opened, and how it differs from its types |
//! | [`query`], [`write`](mod@write), [`feed`] | results of queries, writes and the change feed |
//! | [`error`] | details of a failed call |
//! | [`retry`] | attempts and deadlines |
//! | [`throughput`] | request units that were used; background requests |
//! | [`partitions`] | physical partitions and their health |
//! | [`transport`] | one HTTP request; to write a transport, and those for tests |
//! | [`clock`] | the time of the machine |
//!
//! # Retries
//!
//! [`RetryConfig`](retry::RetryConfig) limits them. A write without an answer is sent again only if a second execution
//! has the same result: an upsert, replace or delete without ETag, a patch that only sets, a batch
//! of such operations without deletes. A create, a conditional write or any other batch is not sent again; its
//! error [is ambiguous](Error::is_ambiguous).
//!
//! # Request units
//!
//! [`measure_charge`] returns what any call costs: a read, a batch, a bulk, a whole query, one item of
//! a stream. The charge of an error is in its [`CallDetails`](error::CallDetails), the sum of all calls in
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

pub mod account;
pub mod clock;
mod container;
pub mod credential;
pub mod database;
pub mod error;
pub mod partitions;
mod protocol;
mod regions;
pub mod retry;
pub mod throughput;
pub mod transport;

pub use account::connection_string::ConnectionString;
pub use account::handle::CosmosClient;
pub use container::ContainerClient;
pub use container::query::page::Page;
pub use container::{feed, query, write};
pub use credential::master_key::MasterKey;
pub use database::config::Bootstrap;
pub use database::handle::DatabaseClient;
pub use error::failure::{Error, ErrorKind, Result};
pub use throughput::usage::measure_charge;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
