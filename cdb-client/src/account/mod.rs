//! An account: the builder of its client, connection strings, and regions.

mod builder;
pub(crate) mod connection_string;
pub(crate) mod handle;

pub use crate::regions::{Account, Region};
pub use builder::CosmosClientBuilder;
pub use connection_string::ConnectionStringParts;
pub(crate) use handle::CosmosClient;
