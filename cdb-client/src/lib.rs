//! Typed client of Azure Cosmos DB (NoSQL) over its REST protocol.

mod client;
mod clock;
mod config;
mod container;
mod credential;
mod epk;
mod error;
mod header;
mod operation;
mod operation_result;
mod ranges;
mod request;
mod resource;
mod response;
mod retry;
#[cfg(any(test, feature = "test-support"))]
mod scripted;
mod session_token;
mod sign;
mod status;
mod telemetry;
mod transport;
mod usage;

pub use client::{CosmosClient, DatabaseClient};
pub use config::CosmosClientBuilder;
pub use container::{
    BatchOutcome, Bootstrap, BootstrapConfig, ChangeFeed, ContainerClient, Difference, FeedCursor,
    FeedStart, OnDifference, Pages, QueryRun, RangeRows, Throughput, Written,
};
pub use credential::{Authorization, Credential, MasterKey, SigningContext};
pub use error::{CallDetails, Error, ErrorKind, Result};
pub use operation::OperationKind;
pub use operation_result::OperationResult;
pub use ranges::RangeId;
pub use retry::RetryConfig;
#[cfg(any(test, feature = "test-support"))]
pub use scripted::{Script, Step};
pub use status::Status;
pub use transport::{Delivery, HttpRequest, HttpResponse, Transport, TransportError};
pub use usage::{OperationUsage, Usage};
