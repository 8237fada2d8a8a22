//! Searches: the documents with the best scores.

mod query;
mod rank;

pub use query::{Hit, SearchQuery, SearchStatement};
pub use rank::{Rank, WithVectors, WithWords};
