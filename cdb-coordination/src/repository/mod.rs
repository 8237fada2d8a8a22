//! A repository of the documents of one type: reads by key, searches by criteria, counts, and
//! writes under ETags.
//!
//! Criteria from search forms or URLs use indexed fields and values only, never query text. Every
//! write resolves a lost answer. Leases are optional: a type with `#[document(lease)]` has
//! [`Repository::leases`](crate::Repository::leases).

mod criteria;
mod error;
pub(crate) mod handle;
mod written;

pub use criteria::Criteria;
pub use error::RepositoryError;
pub use written::RepositoryOperation;
