//! The client of an account: its builder, and the connection strings that name an account.

mod builder;
mod connection_string;
mod handle;

pub use builder::CosmosClientBuilder;
pub use connection_string::{ConnectionString, ConnectionStringParts};
pub use handle::CosmosClient;
