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
mod ranges;
mod request;
mod resource;
mod response;
mod retry;
mod session_token;
mod sign;
mod status;
mod telemetry;
mod transport;
mod usage;

pub use client::{CosmosClient, DatabaseClient};
pub use config::CosmosClientBuilder;
pub use container::{ContainerClient, Pages, QueryRun, RangeRows, Written};
pub use credential::{Authorization, Credential, MasterKey, SigningContext};
pub use error::{Error, ErrorKind, FailedCall, Result};
pub use operation::OperationKind;
pub use ranges::RangeId;
pub use retry::RetryConfig;
pub use status::Status;
pub use transport::{Delivery, HttpRequest, HttpResponse, Transport, TransportError};
pub use usage::{OperationUsage, Usage};
