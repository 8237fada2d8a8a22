//! Checks between the document types of a container, which the compiler evaluates as constants.
//!
//! `derive(Container)` sees the names of types, not their attributes, so these checks work on the
//! shapes. A check reports by a panic; `#[track_caller]` on all functions locates it at the
//! variant, without a note into these files. A shape without a partition key is the stub of a type
//! whose derive has failed, and is not checked.

mod computed;
mod discriminator;
mod expiry;
mod ids;
mod indexing;
mod partition_key;
mod place;
mod search;
mod text;
mod unique;

pub use computed::check_computed;
pub use discriminator::{check_discriminator, check_type};
pub use expiry::check_ttl;
pub use ids::check_ids;
pub use indexing::check_indexing;
pub use partition_key::{check_partition_key, flattened_key};
pub use place::Place;
pub use search::check_search;
pub use unique::check_unique;
