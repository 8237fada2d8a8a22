//! The derives, operations and queries through the public interface.

mod attr;
mod container;
mod evolution;
mod limits;
mod lookup;
mod numbers;
mod properties;
mod query;
mod search;
mod sql;
