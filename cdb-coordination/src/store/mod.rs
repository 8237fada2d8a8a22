//! A repository over the documents of one type: found by key, searched by conditions that are known only at run time,
//! counted, written under their ETags.
//!
//! What a search form or a URL asks goes through the model's criteria: only indexed fields, only values, never text of a
//! query. Every write ends with an answer to "did it happen?", also after a lost one. Leases are optional: a type with a
//! `#[document(lease)]` has [`Store::leases`], a type without has everything else.

mod criteria;
mod error;
mod repository;
mod written;

pub use criteria::Criteria;
pub use error::StoreError;
pub use repository::Store;
